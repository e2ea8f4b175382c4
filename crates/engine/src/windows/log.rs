//! The log of closed slots: one entry per non-empty (room, slot), chained per room. It is the only copy of the counts;
//! every window is a sum over it, and what leaves a window is found by reading the slot that leaves.

use crate::features::W70;
use barrage_protocol::ids::{CLASSES, OUTCOMES};

use super::line::{Line, NONE};

/// Slots kept.
pub(super) const KEPT: u32 = W70 as u32;
/// Outcomes other than ok.
pub(super) const BAD: usize = OUTCOMES - 1;

/// The counts stand in the side table `big`; `classes` holds the place.
const BIG: u16 = 1 << 15;
/// There is a line for it in the side table `bad`.
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

/// Counts of a room in a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) classes: [u32; CLASSES],
    pub(super) bad: [u32; BAD],
}

impl Counts {
    pub(super) fn total(&self) -> u32 {
        self.classes.iter().fold(0, |sum, c| sum.wrapping_add(*c))
    }

    fn small(&self) -> bool {
        self.classes.iter().chain(&self.bad).all(|c| *c <= u32::from(u8::MAX))
    }
}

/// One closed slot.
#[derive(Debug, Default)]
pub(super) struct Closed {
    pub(super) entries: Vec<Entry>,
    /// Outcomes other than ok, by place of the entry.
    bad: Vec<(u32, [u8; BAD])>,
    /// Entries with a count that does not fit into a byte.
    big: Vec<Counts>,
    /// Whether `bad` is ordered by place.
    unsorted: bool,
}

impl Entry {
    #[inline(always)]
    fn big(&self) -> Option<usize> {
        let [a, b, c, d, ..] = self.classes;
        (self.bits & BIG != 0).then(|| u32::from_le_bytes([a, b, c, d]) as usize)
    }
}

impl Closed {
    /// Empties the slot for `expected` new entries; memory much larger than needed is given back.
    pub(super) fn clear(&mut self, expected: usize) {
        let cap = self.entries.capacity();
        if cap < expected || (cap > 256 && cap > expected * 4) {
            self.entries = Vec::with_capacity(expected);
        } else {
            self.entries.clear();
        }
        self.bad.clear();
        self.big.clear();
        self.unsorted = false;
        if self.bad.capacity() > 64 + expected {
            self.bad.shrink_to(expected);
        }
        if self.big.capacity() > 64 + expected {
            self.big.shrink_to(expected);
        }
    }

    /// Adds a room's counts; `back` is how many slots ago its previous entry lies (0: none), `before` its place.
    #[inline(always)]
    pub(super) fn push(&mut self, idx: u32, back: u32, before: u32, counts: &Counts) -> u32 {
        let at = self.entries.len() as u32;
        let mut entry = Entry { idx, before, bits: back as u16 & BACK, classes: [0; CLASSES] };
        self.encode(at, &mut entry, counts);
        self.entries.push(entry);
        at
    }

    #[inline(always)]
    fn encode(&mut self, at: u32, entry: &mut Entry, counts: &Counts) {
        if !counts.small() {
            entry.bits |= BIG;
            let [a, b, c, d] = (self.big.len() as u32).to_le_bytes();
            entry.classes = [a, b, c, d, 0, 0];
            self.big.push(*counts);
            return;
        }
        entry.classes = counts.classes.map(|c| c as u8);
        if counts.bad != [0; BAD] {
            entry.bits |= MARKED;
            self.unsorted |= self.bad.last().is_some_and(|(last, _)| *last > at);
            self.bad.push((at, counts.bad.map(|c| c as u8)));
        }
    }

    /// Adds counts to an entry of the slot that is being closed, and returns the sum.
    pub(super) fn merge(&mut self, at: u32, more: &Counts) -> Counts {
        let mut counts = self.counts(at, self.bad_by_scan(at));
        for (sum, n) in counts.classes.iter_mut().zip(more.classes) {
            *sum = sum.wrapping_add(n);
        }
        for (sum, n) in counts.bad.iter_mut().zip(more.bad) {
            *sum = sum.wrapping_add(n);
        }
        let mut entry = self.entries[at as usize];
        if let Some(place) = entry.big() {
            self.big[place] = counts;
            return counts;
        }
        if entry.bits & MARKED != 0 {
            let at_bad = self.bad.iter().rposition(|(of, _)| *of == at);
            if let Some(at_bad) = at_bad {
                self.unsorted |= at_bad + 1 != self.bad.len();
                self.bad.swap_remove(at_bad);
            }
            entry.bits &= !MARKED;
        }
        self.encode(at, &mut entry, &counts);
        self.entries[at as usize] = entry;
        counts
    }

    /// Ends the slot: from here on the side table is searched.
    pub(super) fn seal(&mut self) {
        if self.unsorted {
            self.bad.sort_unstable_by_key(|(at, _)| *at);
            self.unsorted = false;
        }
    }

    /// Events of an entry.
    #[inline(always)]
    pub(super) fn total(&self, entry: &Entry) -> u32 {
        match entry.big() {
            None => entry.classes.iter().map(|c| u32::from(*c)).sum(),
            Some(place) => self.big[place].total(),
        }
    }

    /// Everything counted in an entry of a sealed slot.
    pub(super) fn all(&self, at: u32) -> Counts {
        let marked = self.entries[at as usize].bits & MARKED != 0;
        let place = marked.then(|| self.bad.binary_search_by_key(&at, |(of, _)| *of));
        let bad = place.and_then(Result::ok).map(|place| self.bad[place].1);
        self.counts(at, bad)
    }

    fn counts(&self, at: u32, bad: Option<[u8; BAD]>) -> Counts {
        let entry = &self.entries[at as usize];
        match entry.big() {
            None => Counts {
                classes: entry.classes.map(u32::from),
                bad: bad.map_or([0; BAD], |b| b.map(u32::from)),
            },
            Some(place) => self.big[place],
        }
    }

    fn bad_by_scan(&self, at: u32) -> Option<[u8; BAD]> {
        let marked = self.entries[at as usize].bits & MARKED != 0;
        let found = || self.bad.iter().rev().find(|(of, _)| *of == at);
        marked.then(found).flatten().map(|(_, bad)| *bad)
    }

    fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
            + self.bad.capacity() * size_of::<(u32, [u8; BAD])>()
            + self.big.capacity() * size_of::<Counts>()
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
    /// The slot `back` slots before `t`; what was never closed is empty.
    #[inline(always)]
    pub(super) fn before(&self, t: u32, back: u32) -> &Closed {
        &self.slots[((t % KEPT + KEPT - back % KEPT) % KEPT) as usize]
    }

    #[inline(always)]
    pub(super) fn at_mut(&mut self, t: u32) -> &mut Closed {
        &mut self.slots[(t % KEPT) as usize]
    }

    pub(super) fn bytes(&self) -> usize {
        self.slots.iter().map(Closed::bytes).sum()
    }

    /// A room's entries as of slot `t`, newest first, not older than `reach` slots: age, slot, place.
    pub(super) fn chain(
        &self,
        line: &Line,
        t: u32,
        reach: u32,
    ) -> impl Iterator<Item = (u32, &Closed, u32)> + '_ {
        let age = t.wrapping_sub(line.last);
        let start = (line.head != NONE && age < KEPT).then_some((age, line.head));
        std::iter::successors(start, move |&(age, at)| {
            let entry = self.before(t, age).entries[at as usize];
            let back = u32::from(entry.bits & BACK);
            // What is 700 slots old has been overwritten.
            (back > 0 && age + back < KEPT).then_some((age + back, entry.before))
        })
        .take_while(move |(age, _)| *age < reach.min(KEPT))
        .map(move |(age, at)| (age, self.before(t, age), at))
    }
}
