//! What a checkpoint keeps of a room's windows: the part that 70 s of counts cannot rebuild.

use crate::features::Baseline;
use barrage_protocol::ids::Slot;
use serde::{Deserialize, Serialize};

/// Slow state of a room's windows at a slot's close.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slow {
    /// First slot of its life.
    pub first: Slot,
    /// Slot of its last event.
    pub last: Slot,
    /// Bits of the partitions its events came from.
    pub partitions: u32,
    /// Number of the unfinished 10 s block (slot / 100).
    pub block: u64,
    /// Events in the unfinished block.
    pub in_block: u32,
    /// Finished blocks, oldest first, at most 18.
    pub blocks: Vec<u32>,
    /// The baseline in force at the last event: what a hole keeps.
    pub at_last: Baseline,
    /// A hole's baseline (`at_last`) is in force before this slot.
    pub kept_until: Option<Slot>,
    /// The slot whose close opened the surge that is on.
    pub surge: Option<Slot>,
}
