//! The log of closed slots: one entry per non-empty (room, slot), chained per room. It is the only copy of the counts;
//! every window is a sum over it, and what leaves a window is found by reading the slot that leaves.

use crate::features::W70;
use crate::precount::Record;
use barrage_protocol::ids::{CLASSES, OUTCOMES};

use super::line::{Line, NONE};

/// Slots kept.
pub(super) const KEPT: u32 = W70 as u32;
/// Outcomes other than ok.
pub(super) const BAD: usize = OUTCOMES - 1;

/// The counts stand in the side table `big`; `classes` holds the place.
const BIG: u16 = 1 << 15;
/// There are lines for it in the side table `bad`.
const MARKED: u16 = 1 << 14;
/// How many slots before this one the room's previous entry lies; 0: there is none within 700.
const BACK: u16 = (1 << 10) - 1;

/// One room in one slot: 16 bytes, because nearly every count fits into a byte.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Entry {
    pub(super) idx: u32,
    /// Place of the room's previous entry in its slot.
    before: u32,
    bits: u16,
    classes: [u8; CLASSES],
}

impl Entry {
    #[inline(always)]
    fn big(&self) -> Option<usize> {
        let [a, b, c, d, ..] = self.classes;
        (self.bits & BIG != 0).then(|| u32::from_le_bytes([a, b, c, d]) as usize)
    }
}

/// One closed slot.
#[derive(Debug, Default)]
pub(super) struct Closed {
    pub(super) entries: Vec<Entry>,
    /// Outcomes other than ok, by place of the entry; an entry may have several lines.
    bad: Vec<(u32, [u16; BAD])>,
    /// Counts of entries of which one does not fit into a byte.
    big: Vec<[u32; CLASSES]>,
    /// Whether a line of `bad` came after one of a later place.
    unsorted: bool,
}

impl Closed {
    /// Empties the slot for `expected` new entries; memory much larger than needed is given back.
    pub(super) fn clear(&mut self, expected: usize) {
        fit(&mut self.entries, expected);
        let (bad, big) = (self.bad.len(), self.big.len());
        fit(&mut self.bad, bad.min(expected));
        fit(&mut self.big, big.min(expected));
        self.unsorted = false;
    }

    /// Adds a room's counts; `back` is how many slots ago its previous entry lies (0: none), `before` its place.
    #[inline(always)]
    pub(super) fn push(&mut self, idx: u32, back: u32, before: u32, record: &Record) -> u32 {
        let at = self.entries.len() as u32;
        let mut entry = Entry { idx, before, bits: back as u16 & BACK, classes: [0; CLASSES] };
        self.encode(&mut entry, record.classes.map(u32::from));
        self.mark(at, &mut entry, record);
        self.entries.push(entry);
        at
    }

    /// Adds counts to an entry of the slot that is being closed.
    pub(super) fn merge(&mut self, at: u32, record: &Record) {
        let mut entry = self.entries[at as usize];
        let mut sum = self.classes(&entry);
        for (sum, n) in sum.iter_mut().zip(record.classes) {
            *sum = sum.wrapping_add(u32::from(n));
        }
        self.encode(&mut entry, sum);
        self.mark(at, &mut entry, record);
        self.entries[at as usize] = entry;
    }

    #[inline(always)]
    fn encode(&mut self, entry: &mut Entry, classes: [u32; CLASSES]) {
        if let Some(place) = entry.big() {
            self.big[place] = classes;
        } else if classes.iter().all(|c| *c <= u32::from(u8::MAX)) {
            entry.classes = classes.map(|c| c as u8);
        } else {
            entry.bits |= BIG;
            let [a, b, c, d] = (self.big.len() as u32).to_le_bytes();
            entry.classes = [a, b, c, d, 0, 0];
            self.big.push(classes);
        }
    }

    #[inline(always)]
    fn mark(&mut self, at: u32, entry: &mut Entry, record: &Record) {
        if record.outcomes != [0; BAD] {
            entry.bits |= MARKED;
            self.unsorted |= self.bad.last().is_some_and(|(last, _)| *last > at);
            self.bad.push((at, record.outcomes));
        }
    }

    /// Ends the slot: from here on the side table is searched.
    pub(super) fn seal(&mut self) {
        if self.unsorted {
            self.bad.sort_by_key(|(at, _)| *at);
            self.unsorted = false;
        }
    }

    /// Events of an entry.
    #[inline(always)]
    pub(super) fn total(&self, entry: &Entry) -> u32 {
        if entry.bits & BIG == 0 {
            entry.classes.iter().map(|c| u32::from(*c)).sum()
        } else {
            self.classes(entry).iter().fold(0, |sum, c| sum.wrapping_add(*c))
        }
    }

    /// Events of an entry per class.
    #[inline(always)]
    pub(super) fn classes(&self, entry: &Entry) -> [u32; CLASSES] {
        match entry.big() {
            None => entry.classes.map(u32::from),
            Some(place) => self.big[place],
        }
    }

    /// Outcomes other than ok of an entry of a sealed slot.
    pub(super) fn bad(&self, at: u32) -> [u32; BAD] {
        let mut sum = [0; BAD];
        if self.entries[at as usize].bits & MARKED != 0 {
            let from = self.bad.partition_point(|(of, _)| *of < at);
            for (_, bad) in self.bad[from..].iter().take_while(|(of, _)| *of == at) {
                super::rows::add(&mut sum, &bad.map(u32::from));
            }
        }
        sum
    }

    /// Lines of outcomes other than ok in this slot, with their rooms.
    pub(super) fn bad_lines(&self) -> impl Iterator<Item = (u32, [u32; BAD])> + '_ {
        self.bad.iter().map(|(at, bad)| (self.entries[*at as usize].idx, bad.map(u32::from)))
    }

    fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
            + self.bad.capacity() * size_of::<(u32, [u16; BAD])>()
            + self.big.capacity() * size_of::<[u32; CLASSES]>()
    }
}

/// Empties a vector; it keeps its memory unless that is too little or far too much.
fn fit<T>(items: &mut Vec<T>, expected: usize) {
    let cap = items.capacity();
    if cap < expected || cap > 64 + expected * 2 {
        *items = Vec::with_capacity(expected);
    } else {
        items.clear();
    }
}

/// The last 700 closed slots.
#[derive(Debug)]
pub(super) struct Log {
    slots: Vec<Closed>,
    /// Entries in all of them.
    pub(super) len: usize,
}

impl Default for Log {
    fn default() -> Self {
        Self { slots: (0..KEPT).map(|_| Closed::default()).collect(), len: 0 }
    }
}

impl Log {
    /// The slot `back` (at most 700) slots before `t`; what was never closed is empty.
    #[inline(always)]
    pub(super) fn before(&self, t: u32, back: u32) -> &Closed {
        &self.slots[((t % KEPT + KEPT - back) % KEPT) as usize]
    }

    #[inline(always)]
    pub(super) fn at_mut(&mut self, t: u32) -> &mut Closed {
        &mut self.slots[(t % KEPT) as usize]
    }

    pub(super) fn bytes(&self) -> usize {
        self.slots.iter().map(Closed::bytes).sum()
    }

    /// A room's entries as of slot `t`, newest first, younger than `reach` (at most 700) slots: age, slot, place.
    pub(super) fn chain(
        &self,
        line: &Line,
        t: u32,
        reach: u32,
    ) -> impl Iterator<Item = (u32, &Closed, u32)> + '_ {
        let age = t.wrapping_sub(line.last);
        let start = (line.head != NONE && age < reach).then_some((age, line.head));
        std::iter::successors(start, move |&(age, at)| {
            let entry = self.before(t, age).entries[at as usize];
            let back = u32::from(entry.bits & BACK);
            (back > 0 && age + back < reach).then_some((age + back, entry.before))
        })
        .map(move |(age, at)| (age, self.before(t, age), at))
    }
}
