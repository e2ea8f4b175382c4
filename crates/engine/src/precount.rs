//! Events of an open slot become counts: from here on cost follows active rooms, not messages.

use crate::prefetch::prefetch;
use barrage_protocol::ids::{CLASSES, Class, OUTCOMES, Outcome, RoomKey};
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

/// Slots of an empty table.
const LEAST: usize = 256;

/// One room's counts: half a cache line, so that the open slots of thousands of rooms stay close to the processor.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(32))]
struct Entry {
    room: RoomKey,
    /// All 0: the entry is not in use.
    classes: [u16; CLASSES],
    outcomes: [u8; OUTCOMES - 1],
}

/// Counts of ONE open slot of ONE partition.
#[derive(Debug)]
pub struct Table {
    entries: Vec<Entry>,
    /// Positions in use, in order of first events.
    used: Vec<u32>,
    /// Counts of rooms of which one would not fit any more.
    full: Vec<Record>,
    /// `64 - log2(entries)`: the top bits of a key are its home.
    shift: u32,
}

impl Default for Table {
    fn default() -> Self {
        Self::with_entries(LEAST)
    }
}

impl Table {
    fn with_entries(n: usize) -> Self {
        Self {
            entries: vec![Entry::default(); n],
            used: Vec::new(),
            full: Vec::new(),
            shift: 64 - n.trailing_zeros(),
        }
    }

    /// Rooms counted so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.used.len()
    }

    /// Whether nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.used.is_empty()
    }

    /// Bytes allocated.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
            + self.used.capacity() * size_of::<u32>()
            + self.full.capacity() * size_of::<Record>()
    }

    fn home(&self, room: RoomKey) -> usize {
        (room.0 >> self.shift) as usize
    }

    /// Starts to load the place of a room whose event comes soon.
    #[inline]
    pub fn prefetch(&self, room: RoomKey) {
        prefetch(&self.entries, self.home(room));
    }

    /// Counts one event.
    #[inline]
    pub fn add(&mut self, room: RoomKey, class: Class, outcome: Outcome) {
        let mask = self.entries.len() - 1;
        let mut at = self.home(room) & mask;
        loop {
            let entry = &mut self.entries[at];
            // The key of an entry not in use is nobody's, unless it is 0.
            if entry.room == room && room != RoomKey::default() {
                if !entry.count(class, outcome) {
                    self.spill(at, class, outcome);
                }
                return;
            }
            if !entry.is_used() || entry.room == room {
                break;
            }
            at = (at + 1) & mask;
        }
        self.open(at, room, class, outcome);
    }

    /// An event of a room that is not in the table, or whose key is 0.
    #[inline(never)]
    fn open(&mut self, at: usize, room: RoomKey, class: Class, outcome: Outcome) {
        if !self.entries[at].is_used() {
            self.entries[at] = Entry { room, ..Entry::default() };
            self.used.push(at as u32);
        }
        if !self.entries[at].count(class, outcome) {
            self.spill(at, class, outcome);
        }
        if self.used.len() * 3 > self.entries.len() * 2 {
            self.grow();
        }
    }

    /// A counter is full: what was counted becomes a record, and the entry begins anew.
    #[cold]
    fn spill(&mut self, at: usize, class: Class, outcome: Outcome) {
        let entry = &mut self.entries[at];
        self.full.push(entry.record(0));
        *entry = Entry { room: entry.room, ..Entry::default() };
        entry.count(class, outcome);
    }

    #[cold]
    fn grow(&mut self) {
        let mut larger = Self::with_entries(self.entries.len() * 2);
        let mask = larger.entries.len() - 1;
        larger.used.reserve(self.used.len() * 2);
        larger.full = std::mem::take(&mut self.full);
        for &from in &self.used {
            let entry = self.entries[from as usize];
            let mut at = larger.home(entry.room) & mask;
            while larger.entries[at].is_used() {
                at = (at + 1) & mask;
            }
            larger.entries[at] = entry;
            larger.used.push(at as u32);
        }
        *self = larger;
    }

    /// Appends the counts to `out` as records of `partition`, and empties the table.
    pub fn drain(&mut self, partition: u32, out: &mut Vec<Record>) {
        let bit = 1 << (partition % 32);
        out.reserve(self.used.len() + self.full.len());
        out.extend(self.full.drain(..).map(|record| Record { partitions: bit, ..record }));
        for (i, &at) in self.used.iter().enumerate() {
            if let Some(&soon) = self.used.get(i + 8) {
                prefetch(&self.entries, soon as usize);
            }
            let entry = std::mem::take(&mut self.entries[at as usize]);
            out.push(entry.record(bit));
        }
        let used = self.used.len();
        self.used.clear();
        // After a spike the memory is given back.
        if self.entries.len() > LEAST && used * 32 < self.entries.len() {
            *self = Self::with_entries((self.entries.len() / 2).max(LEAST));
        }
    }
}

impl Entry {
    /// Whether anything was counted.
    #[inline]
    fn is_used(&self) -> bool {
        self.classes != [0; CLASSES]
    }

    /// Counts one event; false, and nothing done, where a counter is full.
    #[inline]
    fn count(&mut self, class: Class, outcome: Outcome) -> bool {
        let all = &mut self.classes[class as usize];
        if *all == u16::MAX {
            return false;
        }
        if outcome != Outcome::Ok {
            let bad = &mut self.outcomes[outcome as usize - 1];
            if *bad == u8::MAX {
                return false;
            }
            *bad += 1;
        }
        *all += 1;
        true
    }

    fn record(&self, partitions: u32) -> Record {
        let Self { room, classes, outcomes } = *self;
        Record { room, classes, outcomes: outcomes.map(u16::from), partitions }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn sums(records: &[Record]) -> BTreeMap<RoomKey, ([u32; CLASSES], [u32; OUTCOMES - 1])> {
        let mut sums = BTreeMap::<_, ([u32; CLASSES], [u32; OUTCOMES - 1])>::new();
        for r in records {
            let s = sums.entry(r.room).or_default();
            for (to, n) in s.0.iter_mut().zip(r.classes) {
                *to += u32::from(n);
            }
            for (to, n) in s.1.iter_mut().zip(r.outcomes) {
                *to += u32::from(n);
            }
        }
        sums
    }

    /// Slots of very different sizes through one table: growth, clearing and shrinking lose nothing.
    #[test]
    fn counts_are_exact_over_growth_and_shrinking() {
        let mut table = Table::default();
        let mut x = 7u64;
        for slot in 0..40u64 {
            let rooms = [5, 9_000, 40, 3, 2_000][(slot % 5) as usize];
            let mut want = BTreeMap::<RoomKey, ([u32; CLASSES], [u32; OUTCOMES - 1])>::new();
            for _ in 0..rooms * 3 {
                x = x
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let room = RoomKey::of(&format!("r{}", (x >> 33) % rooms));
                let class = Class::ALL[(x >> 40) as usize % CLASSES];
                let outcome = Outcome::ALL[(x >> 50) as usize % OUTCOMES];
                table.prefetch(room);
                table.add(room, class, outcome);
                let w = want.entry(room).or_default();
                w.0[class as usize] += 1;
                if outcome != Outcome::Ok {
                    w.1[outcome as usize - 1] += 1;
                }
            }
            assert_eq!(table.len(), want.len());
            let mut records = Vec::new();
            table.drain(35, &mut records);
            assert_eq!(records.len(), want.len());
            assert!(records.iter().all(|r| r.partitions == 1 << 3));
            assert_eq!(sums(&records), want, "slot {slot}");
            assert!(table.is_empty());
        }
        assert!(table.bytes() < 4 << 20, "memory of the spike is given back");
    }

    #[test]
    fn a_full_counter_makes_another_record() {
        let mut table = Table::default();
        let room = RoomKey::of("hot");
        for _ in 0..200_000 {
            table.add(room, Class::Chat, Outcome::Error);
        }
        let mut records = Vec::new();
        table.drain(0, &mut records);
        assert_eq!(records.len(), 200_000_usize.div_ceil(255));
        assert_eq!(sums(&records)[&room], ([0, 0, 0, 0, 200_000, 0], [200_000, 0, 0, 0]));
        for _ in 0..200_000 {
            table.add(room, Class::Chat, Outcome::Ok);
        }
        records.clear();
        table.drain(0, &mut records);
        assert_eq!(records.len(), 4);
        assert_eq!(sums(&records)[&room], ([0, 0, 0, 0, 200_000, 0], [0; 4]));
    }

    /// A key of zeros is that of an entry not in use.
    #[test]
    fn a_room_whose_key_is_zero_is_counted_as_any_other() {
        let mut table = Table::default();
        for slot in 1..4 {
            for _ in 0..slot {
                table.add(RoomKey::default(), Class::Gift, Outcome::Ok);
                table.add(RoomKey(0, 1), Class::Chat, Outcome::Ok);
            }
            let mut records = Vec::new();
            table.drain(0, &mut records);
            assert_eq!(records.len(), 2, "{records:?}");
            assert_eq!(sums(&records)[&RoomKey::default()].0, [0, 0, slot, 0, 0, 0]);
            assert_eq!(sums(&records)[&RoomKey(0, 1)].0, [0, 0, 0, 0, slot, 0]);
        }
    }
}
