//! Per partition, the counts of the slots still open and the names of rooms.

use barrage_engine::precount::Record;
use barrage_protocol::event::Hit;
use barrage_protocol::ids::{RoomKey, Slot};

/// What one partition hands to the dataflow when a slot closes.
#[derive(Debug, Default)]
pub struct Batch {
    /// Counts, one or more records a room.
    pub records: Vec<Record>,
    /// Names that the owner of the room does not have yet, or not lately.
    pub names: Vec<(RoomKey, Box<str>)>,
}

/// Open slots and names of one partition.
#[derive(Debug, Default)]
pub struct Slotting {}

impl Slotting {
    /// Slotting of a partition.
    #[must_use]
    pub fn new(_partition: u32) -> Self {
        Self {}
    }

    /// Keeps the id of a room that is about to be read; call it for every item with a hit, before the clock sees it.
    pub fn intern(&mut self, _key: RoomKey, _room: &str) {}

    /// Counts one event in its slot.
    pub fn count(&mut self, _slot: Slot, _hit: Hit) {}

    /// The least open slot that holds anything.
    #[must_use]
    pub fn first_open(&self) -> Option<Slot> {
        None
    }

    /// Takes what was counted in `slot`; empty where nothing was. Slots are drained in rising order.
    pub fn drain(&mut self, _slot: Slot) -> Batch {
        Batch::default()
    }
}
