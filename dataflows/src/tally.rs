//! Totals as a difference of differential: they add up where the rows meet, so a trace holds one row per group.

use crate::view::Tally;
use barrage_protocol::ids::CLASSES;
use differential_dataflow::difference::{Abelian, IsZero, Monoid, Semigroup};

impl Tally {
    fn parts(&mut self) -> [&mut [i64; CLASSES]; 3] {
        [&mut self.last_200ms, &mut self.last_1s, &mut self.last_10s]
    }
}

impl IsZero for Tally {
    fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

impl Semigroup for Tally {
    fn plus_equals(&mut self, other: &Self) {
        let mut other = *other;
        for (to, from) in self.parts().into_iter().zip(other.parts()) {
            to.iter_mut().zip(from).for_each(|(t, f)| *t = t.wrapping_add(*f));
        }
    }
}

impl Monoid for Tally {
    fn zero() -> Self {
        Self::default()
    }
}

impl Abelian for Tally {
    fn negate(&mut self) {
        self.parts().into_iter().flatten().for_each(|n| *n = n.wrapping_neg());
    }
}
