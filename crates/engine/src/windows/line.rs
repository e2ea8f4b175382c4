//! What is kept of a room: one cache line that every slot of it touches, and a colder part beside it.

use super::blocks::Blocks;
use crate::features::Baseline;
use crate::prefetch::prefetch_whole;
use barrage_protocol::ids::RoomKey;

/// No entry, no slot, no row.
pub(super) const NONE: u32 = u32::MAX;

/// The level is above 0: the room is not forgotten.
pub(super) const HELD: u16 = 1 << 10;
/// The room is due in every slot.
pub(super) const PINNED: u16 = 1 << 11;
/// It has a row with its windows of 3 and 5 s.
pub(super) const WARM: u16 = 1 << 12;
/// It has a row with its windows per class and outcome.
pub(super) const HOT: u16 = 1 << 13;
/// It waits for a row.
pub(super) const QUEUED: u16 = 1 << 14;
/// The place is not a room any more (or not yet).
pub(super) const GONE: u16 = 1 << 15;
/// The bits below the flags: slots of life in the baseline at the last event, 0 to 600.
const LIFE: u16 = HELD - 1;

/// The hot part of a room; slots are relative to the windows' origin.
///
/// Sums are exact as long as a room has fewer than 2^32 events in 60 s; they wrap, and so come right again, beyond.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Line {
    /// Events of the last 100 slots.
    pub(super) count_10s: u32,
    /// Events of the last 600 slots.
    pub(super) count_60s: u32,
    /// Σc² over the 600 slots before the last 100.
    pub(super) base_sumsq: u64,
    /// Σc² of the baseline in force at the last event.
    pub(super) at_last_sumsq: u64,
    /// Σc over the 600 slots before the last 100.
    pub(super) base_sum: u32,
    /// Σc of the baseline in force at the last event.
    pub(super) at_last_sum: u32,
    /// First slot of the life.
    pub(super) first: u32,
    /// Slot of the last event.
    pub(super) last: u32,
    /// Place of the newest entry in the log of slot `last`, or `NONE`.
    pub(super) head: u32,
    /// Events of the unfinished block.
    pub(super) in_block: u32,
    /// A hole's baseline is in force before this slot; 0: none is.
    pub(super) kept_until: u32,
    /// Bits of the partitions its events came from.
    pub(super) partitions: u32,
    /// The last 32 bits of the key: with the 96 in the table they make the lookup exact.
    pub(super) key_tail: u32,
    /// Group.
    pub(super) group: u16,
    /// Flags, and the slots of life in the baseline at the last event.
    bits: u16,
}

impl Line {
    /// A place that holds no room.
    pub(super) const EMPTY: Self = Self {
        count_10s: 0,
        count_60s: 0,
        base_sumsq: 0,
        at_last_sumsq: 0,
        base_sum: 0,
        at_last_sum: 0,
        first: 0,
        last: 0,
        head: NONE,
        in_block: 0,
        kept_until: 0,
        partitions: 0,
        key_tail: 0,
        group: 0,
        bits: GONE,
    };

    /// A room whose life begins at `t`.
    pub(super) fn born(key: RoomKey, t: u32) -> Self {
        Self { first: t, last: t, key_tail: key.1 as u32, bits: 0, ..Self::EMPTY }
    }

    /// Whether any of the flags is set.
    #[inline(always)]
    pub(super) fn is(&self, flags: u16) -> bool {
        self.bits & flags != 0
    }

    /// Sets or clears flags.
    #[inline(always)]
    pub(super) fn put(&mut self, flags: u16, on: bool) {
        self.bits = if on { self.bits | flags } else { self.bits & !flags };
    }

    /// The sliding baseline at `t`.
    #[inline(always)]
    pub(super) fn sliding(&self, t: u32) -> Baseline {
        // Slots of [t − 699, t − 100] that are not before the first.
        let n = (i64::from(t) - 99 - i64::from(self.first)).clamp(0, 600) as u16;
        Baseline { n, sum: u64::from(self.base_sum), sumsq: self.base_sumsq }
    }

    /// The baseline that was in force at the last event.
    #[inline(always)]
    pub(super) fn at_last(&self) -> Baseline {
        let sum = u64::from(self.at_last_sum);
        Baseline { n: self.bits & LIFE, sum, sumsq: self.at_last_sumsq }
    }

    /// Remembers the baseline in force at the last event.
    #[inline(always)]
    pub(super) fn set_at_last(&mut self, b: Baseline) {
        self.bits = self.bits & !LIFE | b.n & LIFE;
        self.at_last_sum = b.sum as u32;
        self.at_last_sumsq = b.sumsq;
    }
}

/// The cold part of a room: touched once a block, at birth, and when somebody asks.
#[derive(Clone, Debug, Default)]
pub(super) struct Cold {
    pub(super) key: RoomKey,
    pub(super) name: Box<str>,
    pub(super) blocks: Blocks,
}

/// Items per chunk: large enough for huge pages, small enough that a few rooms cost little.
const CHUNK: usize = 1 << 13;

/// A growing array that never moves what it holds: no copy, no moment with twice the memory.
#[derive(Debug)]
pub(super) struct Chunks<T> {
    chunks: Vec<Box<[T]>>,
    len: usize,
    empty: T,
}

impl<T: Clone> Chunks<T> {
    /// An empty array; `empty` fills places not yet given out.
    pub(super) fn new(empty: T) -> Self {
        Self { chunks: Vec::new(), len: 0, empty }
    }

    /// Adds an item and returns its place.
    pub(super) fn push(&mut self, item: T) -> u32 {
        let at = self.len;
        if at == self.chunks.len() * CHUNK {
            self.chunks.push(vec![self.empty.clone(); CHUNK].into_boxed_slice());
        }
        self.len += 1;
        self.chunks[at / CHUNK][at % CHUNK] = item;
        at as u32
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bytes(&self) -> usize {
        self.chunks.len() * CHUNK * size_of::<T>()
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, at: u32) {
        if let Some(chunk) = self.chunks.get(at as usize / CHUNK) {
            prefetch_whole(chunk, at as usize % CHUNK);
        }
    }
}

impl<T> std::ops::Index<u32> for Chunks<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, at: u32) -> &T {
        &self.chunks[at as usize / CHUNK][at as usize % CHUNK]
    }
}

impl<T> std::ops::IndexMut<u32> for Chunks<T> {
    #[inline(always)]
    fn index_mut(&mut self, at: u32) -> &mut T {
        &mut self.chunks[at as usize / CHUNK][at as usize % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_is_one_cache_line_and_a_cold_part_within_its_budget() {
        assert_eq!(size_of::<Line>(), 64);
        assert!(size_of::<Cold>() <= 120, "{}", size_of::<Cold>());
    }
}
