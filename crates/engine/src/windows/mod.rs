//! Sliding sums per room as a log of closed slots (semantics §2): the state behind every feature.

mod slow;

pub use slow::Slow;

use crate::features::Features;
use crate::precount::Record;
use crate::rules::Floors;
use barrage_protocol::ids::{CLASSES, RoomKey, Slot};

/// A room's place in the windows of one worker; valid from the close that bears the room until the close that
/// forgets it (both list it), and never given to another room in the same close.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Idx(pub u32);

/// Sums over all rooms of one worker for the slot just closed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The slot.
    pub slot: Slot,
    /// Its events.
    pub count: u64,
    /// Its events per class.
    pub classes: [u32; CLASSES],
    /// Rooms with at least one event in the last 600 slots.
    pub rooms_60s: u64,
    /// Its events per group and class, by group, groups without events left out.
    pub by_group: Vec<(u16, [u32; CLASSES])>,
}

/// Sizes, for metrics and memory tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Rooms known, silent ones included.
    pub rooms: usize,
    /// Rooms whose windows of 3 and 5 s are kept up to date (a surge could enter).
    pub warm: usize,
    /// Rooms whose windows per class and outcome are kept up to date (a rule could enter).
    pub hot: usize,
    /// Non-empty (room, slot) pairs of the last 700 slots.
    pub entries: usize,
    /// Bytes allocated for all of it, estimated from capacities.
    pub bytes: usize,
    /// Rooms born without a name so far.
    pub nameless: u64,
    /// Names not kept because too many were waiting for their room's first counts, so far.
    pub names_dropped: u64,
}

/// The windows of the rooms of one worker.
///
/// Everything about a room is the same for any order of the records of a slot and any split of its counts into
/// records. The order of indices, of `due` and of `rooms` is not.
#[derive(Debug)]
pub struct Windows {
    next: Slot,
}

impl Windows {
    /// Empty windows whose first slot to close is `next`.
    #[must_use]
    pub fn new(next: Slot) -> Self {
        Self { next }
    }

    /// The slot that the next `close` closes.
    #[must_use]
    pub fn next(&self) -> Slot {
        self.next
    }

    /// Least values at which a live rule could enter; holds from the next close on.
    pub fn set_floors(&mut self, _floors: Floors) {}

    /// The id of a room: kept (bounded) until the room's first counts.
    pub fn name(&mut self, _room: RoomKey, _id: &str) {}

    /// Closes slot `next()` with its counts and fills `due` with the rooms that must be evaluated at it.
    pub fn close(&mut self, _records: &[Record], due: &mut Vec<Idx>) {
        due.clear();
        self.next = self.next.next();
    }

    /// Rooms born at the last close: their group must be set before anything is asked about them.
    #[must_use]
    pub fn born(&self) -> &[Idx] {
        &[]
    }

    /// Rooms forgotten at the last close; a room that returned in the same slot is also among `born`.
    /// `key` and `room` still answer for them until the next close.
    pub fn forgotten(&mut self) -> impl Iterator<Item = Idx> + '_ {
        std::iter::empty()
    }

    /// All rooms known.
    pub fn rooms(&self) -> impl Iterator<Item = Idx> + '_ {
        std::iter::empty()
    }

    /// The room of that key.
    #[must_use]
    pub fn find(&self, _room: RoomKey) -> Option<Idx> {
        None
    }

    /// Key of a room.
    #[must_use]
    pub fn key(&self, _idx: Idx) -> RoomKey {
        RoomKey::default()
    }

    /// Id of a room; empty if its name never came.
    #[must_use]
    pub fn room(&self, _idx: Idx) -> &str {
        ""
    }

    /// Everything the rules may ask about a room at the slot just closed.
    #[must_use]
    pub fn features(&self, _idx: Idx) -> Features {
        Features::default()
    }

    /// Group of a room (0 until set).
    #[must_use]
    pub fn group(&self, _idx: Idx) -> u16 {
        0
    }

    /// Puts a room into a group; the totals of the slot just closed follow.
    pub fn set_group(&mut self, _idx: Idx, _group: u16) {}

    /// Bits (`partition % 32`) of the partitions that the room's events came from.
    #[must_use]
    pub fn partitions(&self, _idx: Idx) -> u32 {
        0
    }

    /// Whether the room is due in every slot, whatever its counts.
    pub fn pin(&mut self, _idx: Idx, _on: bool) {}

    /// Whether the room must not be forgotten (its level is above 0).
    pub fn hold(&mut self, _idx: Idx, _on: bool) {}

    /// The slot whose close opened the surge that is on, or none.
    pub fn surge(&mut self, _idx: Idx, _since: Option<Slot>) {}

    /// Sums of the slot just closed.
    #[must_use]
    pub fn totals(&self) -> Totals {
        Totals::default()
    }

    /// Sizes.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::default()
    }

    /// The slow state of a room, as of the slot just closed.
    #[must_use]
    pub fn export(&self, _idx: Idx) -> Slow {
        Slow::default()
    }

    /// Takes the slow state of a room as exported at the slot just closed, after the slots of the 70 s up to it were
    /// closed again with their counts. When all are in, `retain_imported` lets go of the others.
    pub fn import(&mut self, _room: RoomKey, _id: &str, _slow: &Slow) -> Idx {
        Idx(0)
    }

    /// Ends a restore: rooms that have counts but were not imported had been forgotten, and are dropped.
    pub fn retain_imported(&mut self) {}
}
