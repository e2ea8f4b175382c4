//! Compact rows for the few rooms that a rule could trip: windows of 3 and 5 s for *warm* rooms (a surge could enter),
//! windows per class and outcome for *hot* ones (any other rule could). A room gets its row by walking its entries, so
//! that nothing of this is paid for the others.

use super::line::{Line, NONE};
use super::log::{BAD, Entry, Log};
use crate::prefetch::prefetch;
use barrage_protocol::ids::CLASSES;

/// How many entries ahead a row is asked for.
const AHEAD: usize = 16;

/// Adds counts to sums; sums wrap, see `Line`.
#[inline(always)]
pub(super) fn add<const N: usize>(sums: &mut [u32; N], counts: &[u32; N]) {
    for (sum, n) in sums.iter_mut().zip(counts) {
        *sum = sum.wrapping_add(*n);
    }
}

/// Takes counts from sums.
#[inline(always)]
pub(super) fn sub<const N: usize>(sums: &mut [u32; N], counts: &[u32; N]) {
    for (sum, n) in sums.iter_mut().zip(counts) {
        *sum = sum.wrapping_sub(*n);
    }
}

/// What decides in every slot whether a surge could enter; nothing else, so that the scan is short.
#[derive(Clone, Copy, Debug)]
pub(super) struct Warm {
    pub(super) count_3s: u32,
    pub(super) count_5s: u32,
    /// Counts that are enough.
    pub(super) enough_3s: u32,
    pub(super) enough_5s: u32,
}

/// The rest of a warm room.
#[derive(Clone, Copy, Debug)]
pub(super) struct Warmth {
    pub(super) room: u32,
    /// Bit i: slot `last − i` holds an event.
    pub(super) recent: u64,
}

/// Windows of a hot room.
#[derive(Clone, Debug, Default)]
pub(super) struct Hot {
    pub(super) room: u32,
    pub(super) pinned: bool,
    pub(super) count_60s: u32,
    pub(super) count_1s: u32,
    /// What left `count_1s` in slot `left_at`.
    pub(super) left: u32,
    pub(super) left_at: u32,
    /// Last 10, 100, 600 slots.
    pub(super) classes: [[u32; CLASSES]; 3],
    pub(super) bad: [[u32; BAD]; 3],
}

/// A room's rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) warm: u32,
    pub(super) hot: u32,
}

/// The rows of all rooms.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// Places by room.
    pub(super) of: Vec<Place>,
    pub(super) warm: Vec<Warm>,
    pub(super) warmth: Vec<Warmth>,
    pub(super) hot: Vec<Hot>,
}

impl Rows {
    /// Asks for the places of rooms that come later, and for the rows of rooms that come soon.
    #[inline(always)]
    pub(super) fn ask(&self, entries: &[Entry], at: usize) {
        if let Some(later) = entries.get(at + 2 * AHEAD) {
            prefetch(&self.of, later.idx as usize);
        }
        if let Some(soon) = entries.get(at + AHEAD) {
            self.ask_rows(soon.idx);
        }
    }

    /// Asks for the rows of a room whose place is at hand.
    #[inline(always)]
    pub(super) fn ask_rows(&self, room: u32) {
        let place = self.of[room as usize];
        prefetch(&self.warm, place.warm as usize);
        prefetch(&self.hot, place.hot as usize);
    }
}

/// How many of the five seconds that end with slot `last + gap` hold an event.
#[inline]
pub(super) fn seconds_of_5(recent: u64, gap: u32) -> u8 {
    let recent = if gap < 64 { recent << gap } else { 0 };
    (0..5).filter(|k| (recent >> (10 * k)) & 0x3ff != 0).count() as u8
}

impl Rows {
    /// A place for a new room.
    pub(super) fn register(&mut self, room: u32) {
        let at = room as usize;
        if self.of.len() <= at {
            self.of.resize(at + 1, Place { warm: NONE, hot: NONE });
        }
        self.of[at] = Place { warm: NONE, hot: NONE };
    }

    /// Gives a room its windows of 3 and 5 s as of slot `t`.
    pub(super) fn warm_up(&mut self, room: u32, line: &Line, log: &Log, t: u32) {
        let mut warm = Warm { count_3s: 0, count_5s: 0, enough_3s: NONE, enough_5s: NONE };
        let mut recent = 0;
        for (age, slot, at) in log.chain(line, t, 50) {
            let count = slot.total(&slot.entries[at as usize]);
            warm.count_5s = warm.count_5s.wrapping_add(count);
            if age < 30 {
                warm.count_3s = warm.count_3s.wrapping_add(count);
            }
            recent |= 1 << (age - t.wrapping_sub(line.last));
        }
        self.of[room as usize].warm = self.warm.len() as u32;
        self.warm.push(warm);
        self.warmth.push(Warmth { room, recent });
    }

    /// Gives a room its windows per class and outcome as of slot `t`.
    pub(super) fn heat_up(&mut self, room: u32, pinned: bool, line: &Line, log: &Log, t: u32) {
        let hot = Hot { room, pinned, ..measure(line, log, t) };
        self.of[room as usize].hot = self.hot.len() as u32;
        self.hot.push(hot);
    }

    /// Takes a room's row of 3 and 5 s.
    pub(super) fn cool_down(&mut self, room: u32) {
        let at = std::mem::replace(&mut self.of[room as usize].warm, NONE) as usize;
        self.warm.swap_remove(at);
        self.warmth.swap_remove(at);
        if let Some(moved) = self.warmth.get(at) {
            self.of[moved.room as usize].warm = at as u32;
        }
    }

    /// Takes a room's row per class and outcome.
    pub(super) fn calm_down(&mut self, room: u32) {
        let at = std::mem::replace(&mut self.of[room as usize].hot, NONE) as usize;
        self.hot.swap_remove(at);
        if let Some(moved) = self.hot.get(at) {
            self.of[moved.room as usize].hot = at as u32;
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.of.capacity() * size_of::<Place>()
            + self.warm.capacity() * size_of::<Warm>()
            + self.warmth.capacity() * size_of::<Warmth>()
            + self.hot.capacity() * size_of::<Hot>()
    }
}

/// A room's windows per class and outcome, from its entries.
pub(super) fn measure(line: &Line, log: &Log, t: u32) -> Hot {
    let mut hot = Hot { left_at: t, ..Hot::default() };
    for (age, slot, at) in log.chain(line, t, 600) {
        let entry = &slot.entries[at as usize];
        let (count, classes, bad) = (slot.total(entry), slot.classes(entry), slot.bad(at));
        for (window, slots) in [10, 100, 600].into_iter().enumerate() {
            if age < slots {
                add(&mut hot.classes[window], &classes);
                add(&mut hot.bad[window], &bad);
            }
        }
        hot.count_60s = hot.count_60s.wrapping_add(count);
        if age < 10 {
            hot.count_1s = hot.count_1s.wrapping_add(count);
        }
        if age == 10 {
            hot.left = count;
        }
    }
    hot
}
