//! From a room's key to its place: open addressing that can be prefetched.

use crate::prefetch::prefetch;
use barrage_protocol::ids::RoomKey;

use super::line::NONE;

/// Entries of an empty table.
const LEAST: usize = 1024;

/// The first 96 bits of a key, and the place; the room's line holds the rest of the key.
#[derive(Clone, Copy, Debug)]
struct Entry {
    head: u64,
    middle: u32,
    idx: u32,
}

const FREE: Entry = Entry { head: 0, middle: 0, idx: NONE };

/// Linear probing at a load of at most 2/3; deletion shifts back, so that no tombstones pile up.
#[derive(Debug)]
pub(super) struct Table {
    entries: Vec<Entry>,
    len: usize,
    /// `64 - log2(entries)`: home is the top bits of the key. (The exchange between workers uses the low ones.)
    shift: u32,
}

impl Default for Table {
    fn default() -> Self {
        Self::with_entries(LEAST)
    }
}

impl Table {
    fn with_entries(n: usize) -> Self {
        Self { entries: vec![FREE; n], len: 0, shift: 64 - n.trailing_zeros() }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }

    #[inline(always)]
    fn home(&self, head: u64) -> usize {
        (head >> self.shift) as usize
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, key: RoomKey) {
        prefetch(&self.entries, self.home(key.0));
    }

    /// The first place whose key agrees in 96 bits and for which `same` says that the rest does too.
    #[inline(always)]
    pub(super) fn find(&self, key: RoomKey, same: impl Fn(u32) -> bool) -> Option<u32> {
        let mask = self.entries.len() - 1;
        let middle = (key.1 >> 32) as u32;
        let mut at = self.home(key.0) & mask;
        loop {
            let entry = self.entries[at];
            if entry.idx == NONE {
                return None;
            }
            if entry.head == key.0 && entry.middle == middle && same(entry.idx) {
                return Some(entry.idx);
            }
            at = (at + 1) & mask;
        }
    }

    /// Adds a place; the key must not be in the table.
    pub(super) fn insert(&mut self, key: RoomKey, idx: u32) {
        if (self.len + 1) * 3 > self.entries.len() * 2 {
            self.resize(self.entries.len() * 2);
        }
        self.put(Entry { head: key.0, middle: (key.1 >> 32) as u32, idx });
    }

    fn put(&mut self, entry: Entry) {
        let mask = self.entries.len() - 1;
        let mut at = self.home(entry.head) & mask;
        while self.entries[at].idx != NONE {
            at = (at + 1) & mask;
        }
        self.entries[at] = entry;
        self.len += 1;
    }

    fn resize(&mut self, n: usize) {
        let old = std::mem::replace(self, Self::with_entries(n));
        for entry in old.entries {
            if entry.idx != NONE {
                self.put(entry);
            }
        }
    }

    /// Takes out the entry of that place, if it is there.
    pub(super) fn remove(&mut self, key: RoomKey, idx: u32) {
        let mask = self.entries.len() - 1;
        let mut hole = self.home(key.0) & mask;
        while self.entries[hole].idx != idx {
            if self.entries[hole].idx == NONE {
                return;
            }
            hole = (hole + 1) & mask;
        }
        // What stands behind the hole and would not be found across it moves into it.
        let mut at = (hole + 1) & mask;
        while self.entries[at].idx != NONE {
            let home = self.home(self.entries[at].head) & mask;
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.entries[hole] = self.entries[at];
                hole = at;
            }
            at = (at + 1) & mask;
        }
        self.entries[hole] = FREE;
        self.len -= 1;
        if self.entries.len() > LEAST && self.len * 8 < self.entries.len() {
            self.resize(self.entries.len() / 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Keys that crowd a few homes and agree in 96 bits, against a plain map.
    #[test]
    fn finds_what_was_put_in_and_nothing_else() {
        let mut x = 11u64;
        let mut table = Table::default();
        let mut keys = Vec::<RoomKey>::new();
        let mut map = BTreeMap::<RoomKey, u32>::new();
        for step in 0..60_000u64 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let key = RoomKey(
                ((x >> 61) << 61) | ((x >> 30) % 500),
                (((x >> 20) % 2) << 40) | ((x >> 45) % 3),
            );
            if step % 20_000 < 12_000 {
                if let std::collections::btree_map::Entry::Vacant(e) = map.entry(key) {
                    keys.push(key);
                    e.insert(keys.len() as u32 - 1);
                    table.insert(key, keys.len() as u32 - 1);
                }
            } else if let Some(idx) = map.remove(&key) {
                table.remove(key, idx);
            }
            let same = |idx: u32| keys[idx as usize] == key;
            assert_eq!(table.find(key, same), map.get(&key).copied(), "step {step}");
            assert_eq!(table.len(), map.len());
        }
        for (key, idx) in &map {
            assert_eq!(table.find(*key, |i| keys[i as usize] == *key), Some(*idx));
        }
    }
}
