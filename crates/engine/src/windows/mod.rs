//! Sliding sums per room as a log of closed slots (semantics §2): the state behind every feature.
//!
//! Closing a slot appends its counts to the [`log`] once. What leaves a window is then found by reading the slot that
//! leaves it: the log is the timer wheel, and memory follows the non-empty (room, slot) pairs of 70 s. A room is one
//! cache line ([`line`]); windows that only rules need are kept in compact [`rows`] for the rooms that a rule could
//! trip, and rebuilt from a room's chain of entries when it becomes one of them. All sums are exact integers.

mod blocks;
mod close;
mod glance;
mod hole;
mod line;
mod log;
mod names;
mod rooms;
mod rows;
mod sleep;
mod slow;
mod table;

pub use glance::Glance;
pub use slow::Slow;

use crate::features::Features;
use crate::rules::Floors;
use barrage_protocol::ids::{CLASSES, OUTCOMES, RoomKey, Slot};
use blocks::BLOCK;
use close::{Limits, Tally};
use line::{Chunks, Cold, GONE, HOT, Line, NONE, PINNED, QUEUED};
use log::Log;
use names::Names;
use rows::{Hot, Rows};
use sleep::Sleep;
use table::Table;

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
    /// Bytes allocated for all of it, estimated from capacities; names not counted.
    pub bytes: usize,
    /// Names that wait for their room's first counts.
    pub names_waiting: usize,
    /// Rooms born without a name so far.
    pub nameless: u64,
    /// Names not kept because too many were waiting, so far.
    pub names_dropped: u64,
}

/// Slots between the origin of relative slots and the first one closed: lives that began so long ago fit.
const PAST: u64 = 1 << 31;

/// The windows of the rooms of one worker.
///
/// Everything about a room is the same for any order of the records of a slot and any split of its counts into
/// records. The order of indices, of `due` and of `rooms` is not.
#[derive(Debug)]
pub struct Windows {
    next: Slot,
    /// Slot 0 of relative slots, a multiple of 100. 32 bits of 100 ms last for 13 years.
    origin: u64,
    lines: Chunks<Line>,
    colds: Chunks<Cold>,
    table: Table,
    log: Log,
    rows: Rows,
    sleep: Sleep,
    names: Names,
    limits: Limits,
    tally: Tally,
    rooms_60s: u64,
    nameless: u64,
    /// Other limits hold since the last close.
    rescan: bool,
    born: Vec<Idx>,
    forgotten: Vec<u32>,
    /// Places of dropped rooms whose last entry has left the log.
    dropped: Vec<u32>,
    free: Vec<u32>,
    /// Rooms no longer held that have been silent long enough to be forgotten.
    released: Vec<u32>,
    /// Rooms that wait for a row.
    queued: Vec<u32>,
    /// Rooms with more events in the slot than the floor.
    spikes: Vec<u32>,
    imported: Vec<u32>,
}

impl Windows {
    /// Empty windows whose first slot to close is `next`. Until floors are set, every room is evaluated in each slot
    /// with an event in its last 60 s.
    #[must_use]
    pub fn new(next: Slot) -> Self {
        let mut windows = Self {
            next,
            origin: next.0.saturating_sub(PAST) / u64::from(BLOCK) * u64::from(BLOCK),
            lines: Chunks::new(Line::EMPTY),
            colds: Chunks::new(Cold::default()),
            table: Table::default(),
            log: Log::default(),
            rows: Rows::default(),
            sleep: Sleep::default(),
            names: Names::default(),
            limits: Limits { count_60s: 0, count_100ms: 0, surge_c: None, warm_10s: NONE },
            tally: Tally::default(),
            rooms_60s: 0,
            nameless: 0,
            rescan: false,
            born: Vec::new(),
            forgotten: Vec::new(),
            dropped: Vec::new(),
            free: Vec::new(),
            released: Vec::new(),
            queued: Vec::new(),
            spikes: Vec::new(),
            imported: Vec::new(),
        };
        windows.tally.by_group.push([0; CLASSES]);
        windows
    }

    /// The slot that the next `close` closes.
    #[must_use]
    pub fn next(&self) -> Slot {
        self.next
    }

    /// Least values at which a live rule could enter; holds from the next close on.
    pub fn set_floors(&mut self, floors: Floors) {
        let Floors { count_60s, count_100ms, surge_c } = floors;
        // With L at its least, 3 s need c + 1 events and 5 s c + 2; both are within the last 10 s.
        let warm_10s = surge_c.map_or(NONE, |c| c.saturating_add(1));
        self.limits = Limits { count_60s, count_100ms, surge_c, warm_10s };
        self.rescan = true;
    }

    /// Rooms born at the last close: their group must be set before anything is asked about them.
    #[must_use]
    pub fn born(&self) -> &[Idx] {
        &self.born
    }

    /// Rooms forgotten at the last close; a room that returned in the same slot is also among `born`.
    /// `key` and `room` still answer for them until the next close.
    pub fn forgotten(&mut self) -> impl Iterator<Item = Idx> + '_ {
        self.forgotten.iter().map(|room| Idx(*room))
    }

    /// All rooms known.
    pub fn rooms(&self) -> impl Iterator<Item = Idx> + '_ {
        (0..self.lines.len() as u32).filter(|room| !self.lines[*room].is(GONE)).map(Idx)
    }

    /// Rooms with a window that some rule watches: every room with at least [`Self::watched_from`] events in ten
    /// seconds is among them.
    pub fn watched(&self) -> impl Iterator<Item = Idx> + '_ {
        self.rows.warmth.iter().map(|w| Idx(w.room))
    }

    /// Events in ten seconds from which on a room is watched; the greatest number if no rule watches any.
    #[must_use]
    pub fn watched_from(&self) -> u32 {
        self.limits.warm_10s
    }

    /// The room of that key.
    #[must_use]
    pub fn find(&self, room: RoomKey) -> Option<Idx> {
        self.place_of(room).map(Idx)
    }

    /// Key of a room.
    #[must_use]
    pub fn key(&self, idx: Idx) -> RoomKey {
        self.colds[idx.0].key
    }

    /// Id of a room; empty if its name never came.
    #[must_use]
    pub fn room(&self, idx: Idx) -> &str {
        &self.colds[idx.0].name
    }

    /// Events of the last 100 slots: the one number about a room that is cheap for every room.
    #[must_use]
    pub fn count_10s(&self, idx: Idx) -> u32 {
        self.lines[idx.0].count_10s
    }

    /// Everything the rules may ask about a room at the slot just closed. Cheap for rooms that are due, a walk over up
    /// to 600 entries for others.
    #[must_use]
    pub fn features(&self, idx: Idx) -> Features {
        let t = self.rel(self.next).saturating_sub(1);
        let line = &self.lines[idx.0];
        let place = self.rows.of[idx.0 as usize];
        let measured;
        let hot: &Hot = if line.is(HOT) {
            &self.rows.hot[place.hot as usize]
        } else {
            measured = rows::measure(line, &self.log, t);
            &measured
        };
        let (count_3s, count_5s, seconds_of_5) = self.short(line, place.warm, t);
        let count = self.count_now(line, t);
        let left = if hot.left_at == t { hot.left } else { 0 };
        let (baseline, hole) = hole::in_force(line, t);
        let (mut blocks, mut in_block) = (self.colds[idx.0].blocks.clone(), line.in_block);
        blocks.roll(&mut in_block, (t + 1) / BLOCK);
        Features {
            slot: self.abs(t),
            first: self.abs(line.first),
            last: self.abs(line.last),
            count,
            before_1s: hot.count_1s.wrapping_sub(count).wrapping_add(left),
            count_1s: hot.count_1s,
            count_3s,
            count_5s,
            count_10s: line.count_10s,
            count_60s: line.count_60s,
            seconds_of_5,
            baseline,
            hole,
            background: blocks.background(),
            classes: hot.classes,
            outcomes: [0, 1, 2].map(|w| outcomes(&hot.classes[w], &hot.bad[w])),
        }
    }

    fn short(&self, line: &Line, warm: u32, t: u32) -> (u32, u32, u8) {
        if let Some(row) = self.rows.warm.get(warm as usize) {
            let recent = self.rows.warmth[warm as usize].recent;
            let seconds = rows::seconds_of_5(recent, t - line.last);
            return (row.count_3s, row.count_5s, seconds);
        }
        let (mut count_3s, mut count_5s, mut seen) = (0u32, 0u32, [false; 5]);
        for (age, slot, at) in self.log.chain(line, t, 50) {
            let count = slot.total(&slot.entries[at as usize]);
            count_5s = count_5s.wrapping_add(count);
            if age < 30 {
                count_3s = count_3s.wrapping_add(count);
            }
            seen[age as usize / 10] = true;
        }
        (count_3s, count_5s, seen.iter().filter(|s| **s).count() as u8)
    }

    /// Group of a room (0 until set).
    #[must_use]
    pub fn group(&self, idx: Idx) -> u16 {
        self.lines[idx.0].group
    }

    /// Puts a room into a group; the totals of the slot just closed follow.
    pub fn set_group(&mut self, idx: Idx, group: u16) {
        let t = self.rel(self.next).wrapping_sub(1);
        let line = &mut self.lines[idx.0];
        let old = std::mem::replace(&mut line.group, group);
        let sums = &mut self.tally.by_group;
        if sums.len() <= usize::from(group) {
            sums.resize(usize::from(group) + 1, [0; CLASSES]);
        }
        if old != group && line.last == t && line.head != NONE {
            let slot = self.log.before(t, 0);
            let classes = slot.classes(&slot.entries[line.head as usize]);
            rows::sub(&mut sums[usize::from(old)], &classes);
            rows::add(&mut sums[usize::from(group)], &classes);
        }
    }

    /// Bits (`partition % 32`) of the partitions that the room's events came from.
    #[must_use]
    pub fn partitions(&self, idx: Idx) -> u32 {
        self.lines[idx.0].partitions
    }

    /// Whether the room is due in every slot, whatever its counts.
    pub fn pin(&mut self, idx: Idx, on: bool) {
        let line = &mut self.lines[idx.0];
        line.put(PINNED, on);
        let hot = self.rows.of[idx.0 as usize].hot;
        if let Some(hot) = self.rows.hot.get_mut(hot as usize) {
            hot.pinned = on;
        } else if on && !line.is(QUEUED) {
            line.put(QUEUED, true);
            self.queued.push(idx.0);
        }
    }

    /// The slot whose close opened the surge that is on, or none. A block that ends less than 10 s after it is left out
    /// of the background.
    pub fn surge(&mut self, idx: Idx, since: Option<Slot>) {
        let next = self.rel(self.next);
        let surge = since.map_or(NONE, |s| self.rel(s));
        // What has ended so far was taken in, or not, as things stood then.
        let blocks = &mut self.colds[idx.0].blocks;
        blocks.roll(&mut self.lines[idx.0].in_block, next / BLOCK);
        blocks.surge = surge;
    }

    /// Sums of the slot just closed.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let classes = self.tally.classes;
        let by_group = self.tally.by_group.iter().enumerate();
        let some = by_group.filter(|(_, sums)| **sums != [0; CLASSES]);
        Totals {
            slot: self.next.minus(1),
            count: classes.iter().map(|c| u64::from(*c)).sum(),
            classes,
            rooms_60s: self.rooms_60s,
            by_group: some.map(|(group, sums)| (group as u16, *sums)).collect(),
        }
    }

    /// Sizes.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats {
            rooms: self.table.len(),
            warm: self.rows.warm.len(),
            hot: self.rows.hot.len(),
            entries: self.log.len,
            bytes: self.lines.bytes()
                + self.colds.bytes()
                + self.table.bytes()
                + self.log.bytes()
                + self.rows.bytes()
                + self.sleep.bytes(),
            names_waiting: self.names.len(),
            nameless: self.nameless,
            names_dropped: self.names.dropped,
        }
    }
}

/// Events per outcome: what is not otherwise was ok.
fn outcomes(classes: &[u32; CLASSES], bad: &[u32; OUTCOMES - 1]) -> [u32; OUTCOMES] {
    let all = classes.iter().fold(0u32, |sum, c| sum.wrapping_add(*c));
    let [error, timeout, rejected, ignored] = *bad;
    let ok = bad.iter().fold(all, |left, b| left.wrapping_sub(*b));
    [ok, error, timeout, rejected, ignored]
}
