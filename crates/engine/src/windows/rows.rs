//! Windows that only rooms with something going on need, in compact rows: short sums for surges, classes for rules.
//!
//! A room without a row has the same numbers: they are summed along its chain in the log when somebody asks.

use super::line::NONE;
use super::log::{BAD, Counts};
use barrage_protocol::ids::CLASSES;

/// Sums of 1, 3 and 5 s, one row a room, column by column: every column is walked whole, slot by slot.
#[derive(Debug, Default)]
pub(super) struct Warm {
    /// The room.
    pub(super) idx: Vec<u32>,
    /// Events of the last 10, 30, 50 slots.
    pub(super) n1: Vec<u32>,
    pub(super) n3: Vec<u32>,
    pub(super) n5: Vec<u32>,
    /// Events of the ten slots before the last.
    pub(super) before: Vec<u32>,
    /// Bit k: slot T − k held an event.
    pub(super) seen: Vec<u64>,
    /// 1000 × the median of the room's finished blocks.
    pub(super) background: Vec<u64>,
    /// A surge can enter only at or above these.
    pub(super) least3: Vec<u32>,
    pub(super) least5: Vec<u32>,
    /// Row of a room, or `NONE`.
    pub(super) of: Vec<u32>,
}

/// What a room's chain says about its last five seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Short {
    pub(super) n1: u32,
    pub(super) n3: u32,
    pub(super) n5: u32,
    pub(super) before: u32,
    pub(super) seen: u64,
}

impl Short {
    /// Adds an entry of age `age` with `n` events.
    pub(super) fn add(&mut self, age: u32, n: u32) {
        let within = |slots: u32| if age < slots { n } else { 0 };
        self.n1 = self.n1.wrapping_add(within(10));
        self.n3 = self.n3.wrapping_add(within(30));
        self.n5 = self.n5.wrapping_add(within(50));
        if (1..=10).contains(&age) {
            self.before = self.before.wrapping_add(n);
        }
        if age < 64 {
            self.seen |= 1 << age;
        }
    }

    /// How many of the last five seconds hold an event.
    pub(super) fn seconds(self) -> u8 {
        (0..5).filter(|k| self.seen >> (10 * k) & 0x3FF != 0).count() as u8
    }
}

impl Warm {
    pub(super) fn len(&self) -> usize {
        self.idx.len()
    }

    /// Row of a room, if it has one.
    #[inline(always)]
    pub(super) fn row(&self, idx: u32) -> Option<usize> {
        let row = self.of.get(idx as usize).copied().unwrap_or(NONE);
        (row != NONE).then_some(row as usize)
    }

    pub(super) fn short(&self, row: usize) -> Short {
        Short {
            n1: self.n1[row],
            n3: self.n3[row],
            n5: self.n5[row],
            before: self.before[row],
            seen: self.seen[row],
        }
    }

    /// Gives a room a row.
    pub(super) fn push(&mut self, idx: u32, short: Short) {
        if self.of.len() <= idx as usize {
            self.of.resize(idx as usize + 1, NONE);
        }
        self.of[idx as usize] = self.idx.len() as u32;
        self.idx.push(idx);
        self.n1.push(short.n1);
        self.n3.push(short.n3);
        self.n5.push(short.n5);
        self.before.push(short.before);
        self.seen.push(short.seen);
        self.background.push(0);
        self.least3.push(u32::MAX);
        self.least5.push(u32::MAX);
    }

    /// Takes the row away.
    pub(super) fn remove(&mut self, row: usize) {
        self.of[self.idx[row] as usize] = NONE;
        self.idx.swap_remove(row);
        self.n1.swap_remove(row);
        self.n3.swap_remove(row);
        self.n5.swap_remove(row);
        self.before.swap_remove(row);
        self.seen.swap_remove(row);
        self.background.swap_remove(row);
        self.least3.swap_remove(row);
        self.least5.swap_remove(row);
        if let Some(&moved) = self.idx.get(row) {
            self.of[moved as usize] = row as u32;
        }
    }

    /// A slot has passed.
    pub(super) fn pass(&mut self) {
        self.before.copy_from_slice(&self.n1);
        for seen in &mut self.seen {
            *seen <<= 1;
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.idx.capacity() * (u32::BITS as usize + 2 * size_of::<u64>())
            + self.of.capacity() * size_of::<u32>()
    }
}

/// The windows that rows per class have: 10, 100, 600 slots.
pub(super) const WINDOWS: [u32; 3] = [10, 100, 600];

/// Sums per class and per outcome other than ok, in the last 10, 100 and 600 slots.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Detail {
    pub(super) classes: [[u32; CLASSES]; 3],
    pub(super) bad: [[u32; BAD]; 3],
}

impl Detail {
    /// Adds an entry of age `age`.
    pub(super) fn add(&mut self, age: u32, counts: &Counts) {
        for (w, slots) in WINDOWS.into_iter().enumerate() {
            if age < slots {
                self.change(w, counts, u32::wrapping_add);
            }
        }
    }

    /// Takes an entry out of one window.
    pub(super) fn leave(&mut self, window: usize, counts: &Counts) {
        self.change(window, counts, u32::wrapping_sub);
    }

    fn change(&mut self, w: usize, counts: &Counts, f: fn(u32, u32) -> u32) {
        for (sum, n) in self.classes[w].iter_mut().zip(counts.classes) {
            *sum = f(*sum, n);
        }
        for (sum, n) in self.bad[w].iter_mut().zip(counts.bad) {
            *sum = f(*sum, n);
        }
    }
}

/// Rooms that a rule could enter in, or whose controller wants every slot.
#[derive(Debug, Default)]
pub(super) struct Hot {
    pub(super) idx: Vec<u32>,
    pub(super) detail: Vec<Detail>,
    of: Vec<u32>,
}

impl Hot {
    pub(super) fn len(&self) -> usize {
        self.idx.len()
    }

    #[inline(always)]
    pub(super) fn row(&self, idx: u32) -> Option<usize> {
        let row = self.of.get(idx as usize).copied().unwrap_or(NONE);
        (row != NONE).then_some(row as usize)
    }

    pub(super) fn push(&mut self, idx: u32, detail: Detail) {
        if self.of.len() <= idx as usize {
            self.of.resize(idx as usize + 1, NONE);
        }
        self.of[idx as usize] = self.idx.len() as u32;
        self.idx.push(idx);
        self.detail.push(detail);
    }

    pub(super) fn remove(&mut self, row: usize) {
        self.of[self.idx[row] as usize] = NONE;
        self.idx.swap_remove(row);
        self.detail.swap_remove(row);
        if let Some(&moved) = self.idx.get(row) {
            self.of[moved as usize] = row as u32;
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.idx.capacity() * (size_of::<u32>() + size_of::<Detail>())
            + self.of.capacity() * size_of::<u32>()
    }
}
