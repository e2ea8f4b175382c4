//! Sliding sums per room as a log of closed slots (semantics §2): the state behind every feature.
//!
//! The log is the timer wheel: closing slot T appends its counts once, and reads again what leaves a window: T − 10,
//! T − 30 and T − 50 (only for warm rooms), T − 100, T − 600, T − 700. Memory follows non-empty (room, slot) pairs.
//!
//! Three temperatures, only for speed; what is asked about a room is the same at each of them:
//! * cold: one cache line with the sums of 10 s, 60 s and the baseline;
//! * warm (10 s hold enough events for a surge): a row with sums of 1, 3 and 5 s, see [`rows`];
//! * hot (60 s hold enough for a rule, or pinned): a row with sums per class and outcome as well.

mod blocks;
mod close;
mod line;
mod log;
mod rows;
mod slow;
mod table;

pub use slow::Slow;

use crate::features::Features;
use crate::precount::Record;
use crate::rules::Floors;
use barrage_protocol::ids::{CLASSES, OUTCOMES, RoomKey, Slot};
use blocks::Blocks;
use line::{Chunks, Cold, GONE, HELD, HOT, Line, NONE, PINNED, WARM};
use log::Log;
use rows::{Detail, Hot, Short, Warm};
use std::collections::BTreeMap;
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
    /// Bytes allocated for all of it, estimated from capacities.
    pub bytes: usize,
    /// Rooms born without a name so far.
    pub nameless: u64,
    /// Names not kept because too many were waiting for their room's first counts, so far.
    pub names_dropped: u64,
}

/// A silent room at level 0 is forgotten after so many slots.
const FORGET: u32 = 6_000;
/// Names that may wait for their room's first counts.
const NAMES: usize = 1 << 20;
/// Relative slots count from so many slots before the first one: rooms of a checkpoint are older than it.
const PAST: u64 = 1 << 31;

/// The windows of the rooms of one worker.
///
/// Everything about a room is the same for any order of the records of a slot and any split of its counts into
/// records. The order of indices, of `due` and of `rooms` is not.
#[derive(Debug)]
pub struct Windows {
    /// Absolute slot of relative slot 0, a multiple of a block's length; may lie before the epoch.
    origin: i128,
    /// The last closed slot, relative.
    t: u32,
    floors: Floors,
    table: Table,
    lines: Chunks<Line>,
    cold: Chunks<Cold>,
    log: Log,
    warm: Warm,
    hot: Hot,
    /// Names of rooms without counts yet. Looked up only, never walked.
    names: BTreeMap<RoomKey, Box<str>>,
    names_dropped: u64,
    nameless: u64,
    born: Vec<Idx>,
    forgotten: Vec<Idx>,
    /// Places to be used again, from the next close on those in `forgotten`.
    free: Vec<u32>,
    /// Where the sweep for silent rooms goes on.
    sweep: u32,
    /// Rooms with more events in the slot being closed than the floor of micro rules.
    busy: Vec<u32>,
    /// Rooms to be looked at for a row at the end of the close.
    rising: Vec<u32>,
    count: u64,
    classes: [u32; CLASSES],
    by_group: Vec<[u32; CLASSES]>,
    rooms_60s: u64,
    /// While a restore is on: which rooms were imported.
    imported: Vec<bool>,
}

impl Windows {
    /// Empty windows whose first slot to close is `next`.
    #[must_use]
    pub fn new(next: Slot) -> Self {
        let behind = i128::from(next.0) - i128::from(PAST);
        let origin = behind.div_euclid(i128::from(blocks::BLOCK)) * i128::from(blocks::BLOCK);
        let none = Floors { count_60s: u32::MAX, count_100ms: u32::MAX, surge_c: None };
        Self {
            origin,
            t: (i128::from(next.0) - origin - 1) as u32,
            floors: none,
            table: Table::default(),
            lines: Chunks::new(Line::EMPTY),
            cold: Chunks::new(Cold::default()),
            log: Log::default(),
            warm: Warm::default(),
            hot: Hot::default(),
            names: BTreeMap::new(),
            names_dropped: 0,
            nameless: 0,
            born: Vec::new(),
            forgotten: Vec::new(),
            free: Vec::new(),
            sweep: 0,
            busy: Vec::new(),
            rising: Vec::new(),
            count: 0,
            classes: [0; CLASSES],
            by_group: Vec::new(),
            rooms_60s: 0,
            imported: Vec::new(),
        }
    }

    fn slot(&self, relative: u32) -> Slot {
        Slot(u64::try_from(self.origin + i128::from(relative)).unwrap_or(0))
    }

    /// Slots before the origin count as it: they lie further back than any window or limit reaches.
    fn relative(&self, slot: Slot) -> u32 {
        (i128::from(slot.0) - self.origin).clamp(0, i128::from(u32::MAX - 1)) as u32
    }

    /// The slot that the next `close` closes.
    #[must_use]
    pub fn next(&self) -> Slot {
        self.slot(self.t + 1)
    }

    /// Least values at which a live rule could enter; holds from the next close on.
    pub fn set_floors(&mut self, floors: Floors) {
        if floors == self.floors {
            return;
        }
        self.floors = floors;
        for at in 0..self.lines.len() as u32 {
            self.raise(at);
        }
        for row in 0..self.warm.len() {
            self.judge(row);
        }
    }

    /// The id of a room: kept (bounded) until the room's first counts.
    pub fn name(&mut self, room: RoomKey, id: &str) {
        if let Some(idx) = self.find(room) {
            let cold = &mut self.cold[idx.0];
            if cold.name.is_empty() {
                cold.name = id.into();
            }
        } else if self.names.len() < NAMES {
            self.names.insert(room, id.into());
        } else {
            self.names_dropped += 1;
        }
    }

    /// Closes slot `next()` with its counts and fills `due` with the rooms that must be evaluated at it.
    pub fn close(&mut self, records: &[Record], due: &mut Vec<Idx>) {
        self.close_slot(records);
        self.fill_due(due);
        self.demote();
    }

    /// Rooms born at the last close: their group must be set before anything is asked about them.
    #[must_use]
    pub fn born(&self) -> &[Idx] {
        &self.born
    }

    /// Rooms forgotten at the last close; a room that returned in the same slot is also among `born`.
    /// `key` and `room` still answer for them until the next close.
    pub fn forgotten(&mut self) -> impl Iterator<Item = Idx> + '_ {
        self.forgotten.iter().copied()
    }

    /// All rooms known.
    pub fn rooms(&self) -> impl Iterator<Item = Idx> + '_ {
        (0..self.lines.len() as u32).filter(|at| self.is_known(*at)).map(Idx)
    }

    /// Whether the place is a room that is not to be forgotten yet (the sweep comes round only now and then).
    fn is_known(&self, at: u32) -> bool {
        let line = &self.lines[at];
        !line.is(GONE) && !expired(line, self.t)
    }

    /// The room of that key.
    #[must_use]
    pub fn find(&self, room: RoomKey) -> Option<Idx> {
        self.place(room).filter(|at| self.is_known(*at)).map(Idx)
    }

    fn place(&self, room: RoomKey) -> Option<u32> {
        self.table.find(room, |at| self.lines[at].key_tail == room.1 as u32)
    }

    /// Key of a room.
    #[must_use]
    pub fn key(&self, idx: Idx) -> RoomKey {
        self.cold[idx.0].key
    }

    /// Id of a room; empty if its name never came.
    #[must_use]
    pub fn room(&self, idx: Idx) -> &str {
        &self.cold[idx.0].name
    }

    /// Everything the rules may ask about a room at the slot just closed.
    #[must_use]
    pub fn features(&self, idx: Idx) -> Features {
        let (line, t) = (&self.lines[idx.0], self.t);
        let short = match self.warm.row(idx.0) {
            Some(row) => self.warm.short(row),
            None => self.short(idx.0),
        };
        let detail = match self.hot.row(idx.0) {
            Some(row) => self.hot.detail[row],
            None => self.detail(idx.0),
        };
        let background = match self.warm.row(idx.0) {
            Some(row) => self.warm.background[row],
            None => self.rolled(idx.0).0.background(),
        };
        let count = if line.last == t && line.head != NONE {
            self.log.before(t, 0).all(line.head).total()
        } else {
            0
        };
        let hole = t < line.kept_until || hole_is_open(line, t);
        let baseline = if hole { line.at_last() } else { line.sliding(t) };
        let ok = |w: usize| {
            let all = detail.classes[w].iter().fold(0u32, |sum, c| sum.wrapping_add(*c));
            detail.bad[w].iter().fold(all, |left, b| left.wrapping_sub(*b))
        };
        let outcomes = [0, 1, 2].map(|w| {
            let mut outcomes = [0; OUTCOMES];
            outcomes[0] = ok(w);
            outcomes[1..].copy_from_slice(&detail.bad[w]);
            outcomes
        });
        Features {
            slot: self.slot(t),
            first: self.slot(line.first),
            last: self.slot(line.last),
            count,
            before_1s: short.before,
            count_1s: short.n1,
            count_3s: short.n3,
            count_5s: short.n5,
            count_10s: line.count_10s,
            count_60s: line.count_60s,
            seconds_of_5: short.seconds(),
            baseline,
            hole,
            background,
            classes: detail.classes,
            outcomes,
        }
    }

    /// Events of the room in the last 100 slots: one look at its line, where `features` may walk its chain.
    #[must_use]
    pub fn count_10s(&self, idx: Idx) -> u32 {
        self.lines[idx.0].count_10s
    }

    /// Sums of up to five seconds along the room's chain.
    fn short(&self, at: u32) -> Short {
        let mut short = Short::default();
        for (age, closed, place) in self.log.chain(&self.lines[at], self.t, 64) {
            short.add(age, closed.total(&closed.entries[place as usize]));
        }
        short
    }

    /// Sums per class and outcome along the room's chain.
    fn detail(&self, at: u32) -> Detail {
        let mut detail = Detail::default();
        for (age, closed, place) in self.log.chain(&self.lines[at], self.t, 600) {
            detail.add(age, &closed.all(place));
        }
        detail
    }

    /// The room's blocks and unfinished count as they stand after the slot just closed.
    fn rolled(&self, at: u32) -> (Blocks, u32) {
        let mut blocks = self.cold[at].blocks.clone();
        let mut in_block = self.lines[at].in_block;
        blocks.roll(&mut in_block, (self.t + 1) / blocks::BLOCK);
        (blocks, in_block)
    }

    /// Group of a room (0 until set).
    #[must_use]
    pub fn group(&self, idx: Idx) -> u16 {
        self.lines[idx.0].group
    }

    /// Puts a room into a group; the totals of the slot just closed follow.
    pub fn set_group(&mut self, idx: Idx, group: u16) {
        let line = self.lines[idx.0];
        if line.group == group {
            return;
        }
        self.lines[idx.0].group = group;
        if line.last == self.t && line.head != NONE {
            let counts = self.log.before(self.t, 0).all(line.head);
            self.tally(line.group, &counts.classes, u32::wrapping_sub);
            self.tally(group, &counts.classes, u32::wrapping_add);
        }
    }

    fn tally(&mut self, group: u16, classes: &[u32; CLASSES], f: fn(u32, u32) -> u32) {
        let group = usize::from(group);
        if self.by_group.len() <= group {
            self.by_group.resize(group + 1, [0; CLASSES]);
        }
        for (sum, n) in self.by_group[group].iter_mut().zip(classes) {
            *sum = f(*sum, *n);
        }
    }

    /// Bits (`partition % 32`) of the partitions that the room's events came from.
    #[must_use]
    pub fn partitions(&self, idx: Idx) -> u32 {
        self.lines[idx.0].partitions
    }

    /// Whether the room is due in every slot, whatever its counts.
    pub fn pin(&mut self, idx: Idx, on: bool) {
        self.lines[idx.0].put(PINNED, on);
        self.raise(idx.0);
    }

    /// Whether the room must not be forgotten (its level is above 0).
    pub fn hold(&mut self, idx: Idx, on: bool) {
        self.lines[idx.0].put(HELD, on);
    }

    /// The slot whose close opened the surge that is on, or none.
    pub fn surge(&mut self, idx: Idx, since: Option<Slot>) {
        let since = since.map_or(NONE, |slot| self.relative(slot));
        self.roll(idx.0);
        self.cold[idx.0].blocks.surge = since;
    }

    /// Takes in the blocks that have ended.
    fn roll(&mut self, at: u32) {
        let to = (self.t + 1) / blocks::BLOCK;
        self.cold[at].blocks.roll(&mut self.lines[at].in_block, to);
    }

    /// Sums of the slot just closed.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let some = |(_, classes): &(u16, [u32; CLASSES])| *classes != [0; CLASSES];
        let by_group = (0..).zip(self.by_group.iter().copied());
        Totals {
            slot: self.slot(self.t),
            count: self.count,
            classes: self.classes,
            rooms_60s: self.rooms_60s,
            by_group: by_group.filter(some).collect(),
        }
    }

    /// Sizes.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let names: usize = self.names.len() * (size_of::<(RoomKey, Box<str>)>() + 32);
        let fixed = self.table.bytes() + self.lines.bytes() + self.cold.bytes();
        Stats {
            rooms: self.table.len(),
            warm: self.warm.len(),
            hot: self.hot.len(),
            entries: self.log.len,
            bytes: fixed + self.log.bytes() + self.warm.bytes() + self.hot.bytes() + names,
            nameless: self.nameless,
            names_dropped: self.names_dropped,
        }
    }

    /// The slow state of a room, as of the slot just closed.
    #[must_use]
    pub fn export(&self, idx: Idx) -> Slow {
        let line = &self.lines[idx.0];
        let (blocks, in_block) = self.rolled(idx.0);
        let number = self.origin / i128::from(blocks::BLOCK) + i128::from(blocks.number());
        Slow {
            first: self.slot(line.first),
            last: self.slot(line.last),
            partitions: line.partitions,
            block: u64::try_from(number).unwrap_or(0),
            in_block,
            blocks: blocks.finished(),
            at_last: line.at_last(),
            kept_until: (self.t < line.kept_until).then(|| self.slot(line.kept_until)),
            surge: (blocks.surge != NONE).then(|| self.slot(blocks.surge)),
        }
    }

    /// Takes the slow state of a room as exported at the slot just closed, after the slots of the 70 s up to it were
    /// closed again with their counts. When all are in, `retain_imported` lets go of the others.
    pub fn import(&mut self, room: RoomKey, id: &str, slow: &Slow) -> Idx {
        let at = self.place(room).unwrap_or_else(|| self.bear(room, self.t));
        let surge = slow.surge.map_or(NONE, |slot| self.relative(slot));
        let number = i128::from(slow.block) - self.origin / i128::from(blocks::BLOCK);
        let number = number.clamp(0, i128::from(u32::MAX)) as u32;
        let (first, last) = (self.relative(slow.first), self.relative(slow.last));
        let kept_until = slow.kept_until.map_or(0, |slot| self.relative(slot));
        let line = &mut self.lines[at];
        (line.first, line.last, line.kept_until) = (first, last, kept_until);
        line.partitions = slow.partitions;
        line.in_block = slow.in_block;
        line.set_at_last(slow.at_last);
        self.cold[at].name = id.into();
        self.cold[at].blocks = Blocks::from_finished(&slow.blocks, number, surge);
        if self.imported.len() <= at as usize {
            self.imported.resize(at as usize + 1, false);
        }
        self.imported[at as usize] = true;
        if let Some(row) = self.warm.row(at) {
            self.judge(row);
        }
        Idx(at)
    }

    /// Ends a restore: rooms that have counts but were not imported had been forgotten, and are dropped.
    pub fn retain_imported(&mut self) {
        let imported = std::mem::take(&mut self.imported);
        for at in 0..self.lines.len() as u32 {
            if !self.lines[at].is(GONE) && !imported.get(at as usize).copied().unwrap_or(false) {
                self.forget(at);
            }
        }
    }

    /// Bears a room at relative slot `t`.
    fn bear(&mut self, room: RoomKey, t: u32) -> u32 {
        let name = self.names.remove(&room).unwrap_or_default();
        self.nameless += u64::from(name.is_empty());
        let cold = Cold { key: room, name, blocks: Blocks::young(t / blocks::BLOCK) };
        let line = Line::born(room, t);
        let at = match self.free.pop() {
            Some(at) => {
                self.lines[at] = line;
                self.cold[at] = cold;
                at
            }
            None => {
                self.cold.push(cold);
                self.lines.push(line)
            }
        };
        self.table.insert(room, at);
        at
    }

    /// Forgets a room; its place is used again from the next close on.
    fn forget(&mut self, at: u32) {
        let room = self.cold[at].key;
        self.table.remove(room, at);
        if let Some(row) = self.warm.row(at) {
            self.warm.remove(row);
        }
        if let Some(row) = self.hot.row(at) {
            self.hot.remove(row);
        }
        if self.lines[at].count_60s > 0 {
            self.rooms_60s -= 1;
        }
        let line = &mut self.lines[at];
        line.put(HELD | PINNED | WARM | HOT, false);
        line.put(GONE, true);
        self.forgotten.push(Idx(at));
    }

    /// Gives a room the rows that its counts call for.
    fn raise(&mut self, at: u32) {
        let line = self.lines[at];
        if line.is(GONE) {
            return;
        }
        let hot = line.count_60s > self.floors.count_60s || line.is(PINNED);
        let least = self.floors.surge_c.map_or(u32::MAX, |c| c.saturating_add(1));
        if hot && !line.is(HOT) {
            let detail = self.detail(at);
            self.hot.push(at, detail);
            self.lines[at].put(HOT, true);
        }
        if (hot || line.count_10s >= least) && !line.is(WARM) {
            let short = self.short(at);
            self.warm.push(at, short);
            self.lines[at].put(WARM, true);
            self.judge(self.warm.len() - 1);
        }
    }

    /// Sets a warm room's background, and what a surge needs at least: `50000 · n3 ≥ 33 · L + 50000 · c` or
    /// `10000 · n5 ≥ 11 · L + 10000 · c`, with the least `c` in force (semantics §3).
    fn judge(&mut self, row: usize) {
        let at = self.warm.idx[row];
        self.roll(at);
        let background = self.cold[at].blocks.background();
        self.warm.background[row] = background;
        let Some(c) = self.floors.surge_c.map(u64::from) else {
            (self.warm.least3[row], self.warm.least5[row]) = (u32::MAX, u32::MAX);
            return;
        };
        let l = background.max(1_000);
        let fit = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        self.warm.least3[row] = fit((33 * l + 50_000 * c).div_ceil(50_000));
        self.warm.least5[row] = fit((11 * l + 10_000 * c).div_ceil(10_000));
    }
}

/// Whether a room is to be forgotten at relative slot `t`.
fn expired(line: &Line, t: u32) -> bool {
    !line.is(HELD) && t.saturating_sub(line.last) >= FORGET
}

/// Whether a silence that lasts until relative slot `t` is a hole (semantics §2): at least 50 slots, in which the
/// baseline of the last event would have brought at least 12 events; a room in warm-up opens none.
fn hole_is_open(line: &Line, t: u32) -> bool {
    let silence = u64::from(t.saturating_sub(line.last));
    let base = line.at_last();
    silence >= 50 && base.known() && base.sum * silence >= 12 * u64::from(base.n)
}
