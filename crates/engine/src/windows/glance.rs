//! A look at a room that costs a few cache lines: enough to see that no rule enters, which is so for almost every
//! room in almost every slot.

use super::{Idx, Windows, hole};
use crate::features::Baseline;

/// The numbers of [`crate::features::Features`] by which most rules refuse, with the same values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Glance {
    /// c(T); where the last 10 slots together hold too few for any rule on a slot, their sum.
    pub count: u32,
    /// Events of the last 10 slots.
    pub count_1s: u32,
    /// Events of the last 100 slots.
    pub count_10s: u32,
    /// Events of the last 600 slots.
    pub count_60s: u32,
    /// The sliding baseline, or the one kept over a hole.
    pub baseline: Baseline,
    /// Whether a surge with the least `c` in force could enter.
    pub rising: bool,
}

impl Windows {
    /// A look at a room at the slot just closed; none where its windows are not kept and would have to be summed.
    #[must_use]
    pub fn glance(&self, idx: Idx) -> Option<Glance> {
        let t = self.rel(self.next).saturating_sub(1);
        let (line, place) = (&self.lines[idx.0], self.rows.of[idx.0 as usize]);
        let hot = self.rows.hot.get(place.hot as usize)?;
        let surge = |w: &super::rows::Warm| w.count_3s >= w.enough_3s || w.count_5s >= w.enough_5s;
        Some(Glance {
            count: if hot.count_1s > self.limits.count_100ms {
                self.count_now(line, t)
            } else {
                hot.count_1s
            },
            count_1s: hot.count_1s,
            count_10s: line.count_10s,
            count_60s: line.count_60s,
            baseline: hole::in_force(line, t).0,
            // A room in which a surge could enter has these windows.
            rising: self.rows.warm.get(place.warm as usize).is_some_and(surge),
        })
    }
}
