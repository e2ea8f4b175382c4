//! The slow state of everything at a closed slot: what a restart cannot rebuild from 70 s of counts.

use barrage_engine::rules::RuleSet;
use barrage_protocol::ids::Slot;
use serde::{Deserialize, Serialize};

/// Slow state at the end of a closed slot. Independent of the number of workers; opaque but for its slot.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Snapshot {
    pub(crate) slot: Slot,
    pub(crate) rules: RuleSet,
    pub(crate) absent: u32,
    pub(crate) hold_until: Slot,
}

impl Snapshot {
    /// The slot it was taken at: decisions go on with the next one.
    #[must_use]
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// The rule set in force.
    #[must_use]
    pub fn rules(&self) -> &RuleSet {
        &self.rules
    }

    /// First slot whose counts are needed to rebuild the windows: S − 699.
    #[must_use]
    pub fn first(&self) -> Slot {
        self.slot.minus(699)
    }
}
