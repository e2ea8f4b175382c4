//! Events of an open slot become counts: from here on cost follows active rooms, not messages.

use barrage_protocol::ids::{CLASSES, OUTCOMES, RoomKey};
use serde::{Deserialize, Serialize};

/// Counts of one room in one slot, from one partition. A counter that is full makes a second record: sums are exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The room.
    pub room: RoomKey,
    /// Events per class.
    pub classes: [u16; CLASSES],
    /// Events per outcome other than ok: error, timeout, rejected, ignored.
    pub outcomes: [u16; OUTCOMES - 1],
    /// Bit `partition % 32` of the partition it came from.
    pub partitions: u32,
}
