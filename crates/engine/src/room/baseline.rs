//! The baseline in force: frozen by a burst, else kept over a hole, else the sliding window (semantics §2).

use crate::features::{Baseline, Features, Source, W70};
use crate::rules::Ladder;
use barrage_protocol::ids::Slot;
use serde::{Deserialize, Serialize};

/// The baseline a slot is judged against, and how it came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InForce {
    /// Sums.
    pub baseline: Baseline,
    /// Where they come from.
    pub source: Source,
}

/// A baseline kept from the slot in which a burst or fast rule opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frozen {
    /// The baseline in force in that slot.
    pub baseline: Baseline,
    /// How that one had come about.
    pub origin: Source,
    /// That slot.
    pub since: Slot,
    /// The first slot at level 0 with no burst or fast rule in, since the last one opened.
    pub calm: Option<Slot>,
    /// Whether the alarm has been given.
    pub alarmed: bool,
    /// An operator has said that the present rate is the new normal.
    pub rebase: bool,
}

impl Frozen {
    /// A baseline frozen in `slot`.
    #[must_use]
    pub fn new(slot: Slot, base: InForce) -> Self {
        Self {
            baseline: base.baseline,
            origin: base.source,
            since: slot,
            calm: None,
            alarmed: false,
            rebase: false,
        }
    }

    /// Whether it is let go before `slot` is judged: 700 slots after level 0 the sliding window holds nothing of the
    /// burst; after `frozen_max` in any case; and when an operator says so.
    #[must_use]
    pub fn ends(&self, slot: Slot, ladder: &Ladder) -> bool {
        self.rebase
            || slot.0.saturating_sub(self.since.0) >= ladder.frozen_max
            || self.calm.is_some_and(|calm| slot.0.saturating_sub(calm.0) >= W70)
    }

    /// Slots for which it has stood.
    #[must_use]
    pub fn age(&self, slot: Slot) -> u64 {
        slot.0.saturating_sub(self.since.0)
    }
}

/// The baseline in force: frozen goes before hole, hole before the window.
#[must_use]
pub fn in_force(frozen: Option<&Frozen>, f: &Features) -> InForce {
    match frozen {
        Some(frozen) => InForce { baseline: frozen.baseline, source: Source::Frozen },
        None => InForce {
            baseline: f.baseline,
            source: if f.hole { Source::Hole } else { Source::Window },
        },
    }
}
