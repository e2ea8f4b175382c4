//! Per partition, the counts of the slots still open and the names of rooms.
//!
//! From here on there are no events, only counts. Nothing is dropped for want of room: how far a partition is read
//! ahead of the last closed slot is limited where it is read, by the same rule for every reader.

use barrage_engine::precount::{Record, Table};
use barrage_protocol::event::Hit;
use barrage_protocol::ids::{RoomKey, Slot};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// A room's name is sent again at the next event after so many slots: its owner forgets it after twice as many.
pub const NAME_EVERY: u64 = 3_000;
/// Names of a generation; two are kept. A name that was let go is only sent once more than needed.
const NAMES: usize = 1 << 20;
/// Tables kept for the slots to come.
const SPARE: usize = 32;

/// What one partition hands to the dataflow when a slot closes.
#[derive(Debug, Default)]
pub struct Batch {
    /// Counts, one or more records a room.
    pub records: Vec<Record>,
    /// Names that the owner of the room does not have yet, or not lately.
    pub names: Vec<(RoomKey, Box<str>)>,
}

/// Counts of one open slot.
struct Open {
    slot: Slot,
    table: Table,
    names: Vec<(RoomKey, Box<str>)>,
}

/// Open slots and names of one partition.
pub struct Slotting {
    partition: u32,
    /// In order of their slots.
    open: VecDeque<Open>,
    spare: Vec<Table>,
    /// A buffer handed back, for the next slot.
    records: Vec<Record>,
    names: Names,
}

impl Slotting {
    /// Slotting of a partition.
    #[must_use]
    pub fn new(partition: u32) -> Self {
        Self::with_names(partition, NAMES)
    }

    /// Slotting that keeps `names` names a generation. The clock holds back fewer hits than that.
    fn with_names(partition: u32, names: usize) -> Self {
        let names = Names::new(names);
        let (open, spare, records) = (VecDeque::new(), Vec::new(), Vec::new());
        Self { partition, open, spare, records, names }
    }

    /// Keeps the id of a room that is about to be read; call it for every item with a hit, before the clock sees it.
    pub fn intern(&mut self, key: RoomKey, room: &str) {
        self.names.keep(key, room);
    }

    /// Counts one event in its slot.
    pub fn count(&mut self, slot: Slot, hit: Hit) {
        let at = self.at(slot);
        let Some(open) = self.open.get_mut(at) else { return };
        open.table.add(hit.room, hit.class, hit.outcome);
        if let Some(name) = self.names.due(hit.room, slot) {
            open.names.push((hit.room, name));
        }
    }

    /// Position of the slot among the open ones; opens it if it is not there.
    fn at(&mut self, slot: Slot) -> usize {
        // Most events belong to one of the last few slots.
        for (back, open) in self.open.iter().rev().take(8).enumerate() {
            if open.slot == slot {
                return self.open.len() - 1 - back;
            }
        }
        match self.open.binary_search_by_key(&slot, |open| open.slot) {
            Ok(at) => at,
            Err(at) => {
                let table = self.spare.pop().unwrap_or_default();
                self.open.insert(at, Open { slot, table, names: Vec::new() });
                at
            }
        }
    }

    /// The least open slot that holds anything.
    #[must_use]
    pub fn first_open(&self) -> Option<Slot> {
        self.open.front().map(|open| open.slot)
    }

    /// Takes back the buffer of a batch, for the next one; after a spike it is let go.
    pub fn recycle(&mut self, records: Vec<Record>) {
        if records.capacity() / 8 <= records.len() {
            self.records = records;
        }
    }

    /// Takes what was counted in `slot`; empty where nothing was. Slots are drained in rising order.
    pub fn drain(&mut self, slot: Slot) -> Batch {
        let at = self.open.binary_search_by_key(&slot, |open| open.slot);
        let Some(mut open) = at.ok().and_then(|at| self.open.remove(at)) else {
            return Batch::default();
        };
        let mut records = std::mem::take(&mut self.records);
        records.clear();
        open.table.drain(self.partition, &mut records);
        if self.spare.len() < SPARE {
            self.spare.push(open.table);
        }
        Batch { records, names: open.names }
    }
}

/// Hash of a room key: its bits are mixed already.
#[derive(Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = self.0.rotate_left(32) ^ n;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A room's name, and the slot in which it was last sent.
struct Name {
    room: Box<str>,
    sent: Option<Slot>,
}

/// Looked up only, never walked: no order of a hash enters the results.
type ByKey = HashMap<RoomKey, Name, BuildHasherDefault<Mixed>>;

/// Names of rooms in two generations: when the young one is full, the old one goes.
struct Names {
    young: ByKey,
    old: ByKey,
    capacity: usize,
}

impl Names {
    fn new(capacity: usize) -> Self {
        Self { young: ByKey::default(), old: ByKey::default(), capacity }
    }

    fn keep(&mut self, key: RoomKey, room: &str) {
        if self.young.contains_key(&key) {
            return;
        }
        let name = self.old.remove(&key).unwrap_or_else(|| Name { room: room.into(), sent: None });
        if self.young.len() >= self.capacity {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, name);
    }

    /// The name, if it must go with the counts of `slot`: the first time, in a slot before the one it was sent with,
    /// and again after [`NAME_EVERY`] slots.
    fn due(&mut self, key: RoomKey, slot: Slot) -> Option<Box<str>> {
        let name = self.young.get_mut(&key).or_else(|| self.old.get_mut(&key))?;
        let fresh = |sent: Slot| sent <= slot && slot.0 - sent.0 < NAME_EVERY;
        if name.sent.is_some_and(fresh) {
            return None;
        }
        name.sent = Some(slot);
        Some(name.room.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barrage_protocol::ids::{Class, Outcome};
    use std::collections::BTreeMap;

    fn hit(room: &str) -> Hit {
        Hit { room: RoomKey::of(room), class: Class::Chat, outcome: Outcome::Ok }
    }

    fn put(slotting: &mut Slotting, slot: u64, room: &str) {
        let hit = hit(room);
        slotting.intern(hit.room, room);
        slotting.count(Slot(slot), hit);
    }

    #[test]
    fn counts_and_names_are_those_of_a_plain_map() {
        let seed = 12_u64;
        let mut x = seed;
        let mut slotting = Slotting::with_names(3, 64);
        let mut expected: BTreeMap<u64, BTreeMap<RoomKey, u64>> = BTreeMap::new();
        let mut known: BTreeMap<RoomKey, u64> = BTreeMap::new();
        for n in 0..200_000_u64 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let now = 1_000 + n / 20;
            let slot = now - (x >> 33) % 10;
            let room = format!("r{}", (x >> 40) % 200);
            put(&mut slotting, slot, &room);
            *expected.entry(slot).or_default().entry(RoomKey::of(&room)).or_default() += 1;
            if n % 20 == 19 && now >= 1_011 {
                let closed = now - 20;
                let batch = slotting.drain(Slot(closed));
                let mut got: BTreeMap<RoomKey, u64> = BTreeMap::new();
                for record in &batch.records {
                    assert_eq!(record.partitions, 1 << 3);
                    *got.entry(record.room).or_default() +=
                        record.classes.iter().map(|c| u64::from(*c)).sum::<u64>();
                }
                assert_eq!(
                    got,
                    expected.remove(&closed).unwrap_or_default(),
                    "seed {seed}, {closed}"
                );
                // A room is never counted before its name has gone out, nor long after.
                for (key, name) in batch.names {
                    assert_eq!(key, RoomKey::of(&name));
                    known.insert(key, closed);
                }
                for key in got.keys() {
                    assert!(
                        known.get(key).is_some_and(|sent| closed - sent < NAME_EVERY),
                        "{closed}"
                    );
                }
            }
        }
        assert!(slotting.names.young.len() + slotting.names.old.len() <= 128);
    }

    #[test]
    fn a_name_goes_with_the_first_slot_even_if_that_is_met_second() {
        let mut slotting = Slotting::new(0);
        put(&mut slotting, 105, "a");
        put(&mut slotting, 103, "a");
        put(&mut slotting, 105, "a");
        put(&mut slotting, 103 + NAME_EVERY, "a");
        assert_eq!(slotting.first_open(), Some(Slot(103)));
        let names = |batch: &Batch| batch.names.len();
        assert_eq!(names(&slotting.drain(Slot(102))), 0);
        assert_eq!(names(&slotting.drain(Slot(103))), 1);
        let batch = slotting.drain(Slot(105));
        assert_eq!((names(&batch), batch.records.len(), batch.records[0].classes[4]), (1, 1, 2));
        assert_eq!(names(&slotting.drain(Slot(103 + NAME_EVERY))), 1);
        assert_eq!(slotting.first_open(), None);
    }
}
