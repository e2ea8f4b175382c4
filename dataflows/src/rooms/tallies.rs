//! A worker's own totals per group over the last 200 ms, 1 s and 10 s, as differences against the last time.

use super::share::Share;
use crate::view::Tally;
use barrage_engine::windows::Totals;
use barrage_protocol::ids::CLASSES;
use differential_dataflow::difference::{Abelian, IsZero, Semigroup};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// Slots of the three windows.
const SPANS: [usize; 3] = [2, 10, 100];

/// Sums per group, slot by slot. Groups go by name, since another rule set numbers them anew.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    slots: VecDeque<Vec<(Rc<str>, [u32; CLASSES])>>,
    names: Vec<Rc<str>>,
    said: BTreeMap<Rc<str>, Tally>,
}

impl Tallies {
    /// Another rule set holds: the groups' places may have changed.
    pub(crate) fn rename(&mut self) {
        self.names.clear();
    }

    /// Takes in the totals of the slot just closed.
    pub(crate) fn push(&mut self, totals: &Totals, share: &Share) {
        let slot =
            totals.by_group.iter().map(|(place, counts)| (self.name(*place, share), *counts));
        let slot = slot.collect();
        if self.slots.len() == SPANS[2] {
            self.slots.pop_front();
        }
        self.slots.push_back(slot);
    }

    fn name(&mut self, place: u16, share: &Share) -> Rc<str> {
        let at = usize::from(place);
        while self.names.len() <= at {
            let place = u16::try_from(self.names.len()).unwrap_or(u16::MAX);
            self.names.push(share.group(place).into());
        }
        Rc::clone(&self.names[at])
    }

    /// Differences since the last call.
    pub(crate) fn changes(&mut self) -> Vec<(String, Tally)> {
        let mut now: BTreeMap<Rc<str>, Tally> = BTreeMap::new();
        for (back, slot) in self.slots.iter().rev().enumerate() {
            for (name, counts) in slot {
                let tally = now.entry(Rc::clone(name)).or_default();
                let sums = [&mut tally.last_200ms, &mut tally.last_1s, &mut tally.last_10s];
                for (span, sums) in SPANS.into_iter().zip(sums) {
                    if back < span {
                        sums.iter_mut().zip(counts).for_each(|(s, c)| *s += i64::from(*c));
                    }
                }
            }
        }
        let mut changes = std::mem::take(&mut self.said);
        changes.values_mut().for_each(Abelian::negate);
        for (name, tally) in &now {
            changes.entry(Rc::clone(name)).or_default().plus_equals(tally);
        }
        self.said = now;
        changes.retain(|_, tally| !tally.is_zero());
        changes.into_iter().map(|(name, tally)| (name.as_ref().to_owned(), tally)).collect()
    }
}
