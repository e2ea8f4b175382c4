//! Closing a slot: what leaves a window is read from the log, what is new is added, and who must be evaluated is told.

use super::blocks::BLOCK;
use super::line::{HOT, Line, NONE, PINNED, QUEUED, WARM};
use super::log::{BAD, KEPT, Log};
use super::rows::{Rows, add, seconds_of_5, sub};
use super::sleep::FORGET;
use super::{Idx, Windows, hole};
use crate::precount::Record;
use crate::prefetch::prefetch;
use barrage_protocol::ids::{CLASSES, RoomKey, Slot};

/// How many entries ahead a room's line is asked for.
const AHEAD: usize = 16;
/// Records looked up before they are applied, so that their lines arrive meanwhile.
const BATCH: usize = 64;
/// Slots of life before a surge may enter (semantics §3: older than 30 s).
const SURGE_LIFE: u32 = 300;
/// Of the last five seconds so many must hold an event.
const SURGE_SECONDS: u8 = 3;

/// What a room's place in the due list depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// A hot room has more events in 60 s.
    pub(super) count_60s: u32,
    /// A slot with more events is evaluated.
    pub(super) count_100ms: u32,
    /// Least `c` of a surge rule.
    pub(super) surge_c: Option<u32>,
    /// A warm room has at least so many events in 10 s: no window of 3 or 5 s can be enough with fewer.
    pub(super) warm_10s: u32,
}

/// Sums of the slot being closed.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) classes: [u32; CLASSES],
    pub(super) by_group: Vec<[u32; CLASSES]>,
}

impl Windows {
    /// Closes slot `next()` with its counts and fills `due` with the rooms that must be evaluated at it, in no order
    /// and each once. Everything that could enter is among them; whether it does is for the rules to say.
    pub fn close(&mut self, records: &[Record], due: &mut Vec<Idx>) {
        due.clear();
        let t = self.rel(self.next);
        self.next = Slot(self.next.0.saturating_add(1));
        self.begin(t);
        self.leave_baseline(t);
        self.leave_10s(t);
        self.leave_60s(t);
        self.leave_short(t);
        self.take(records, t);
        self.forget_silent(t);
        self.give_rows(t);
        if (t + 1).is_multiple_of(BLOCK) {
            self.end_block(t);
        }
        self.tell(t, due);
    }

    fn begin(&mut self, t: u32) {
        self.born.clear();
        self.free.append(&mut self.forgotten);
        self.free.append(&mut self.dropped);
        self.names.turn(t);
        self.tally.classes = [0; CLASSES];
        for group in &mut self.tally.by_group {
            *group = [0; CLASSES];
        }
        for room in std::mem::take(&mut self.released) {
            let line = &self.lines[room];
            if t.saturating_sub(1).saturating_sub(line.last) >= FORGET {
                self.forget(room);
            }
        }
    }

    /// Slot T − 700 leaves the baseline; rooms silent since then lose their windows and go to sleep.
    fn leave_baseline(&mut self, t: u32) {
        let slot = self.log.before(t, KEPT);
        for (i, entry) in slot.entries.iter().enumerate() {
            if let Some(soon) = slot.entries.get(i + AHEAD) {
                self.lines.prefetch(soon.idx);
            }
            let count = slot.total(entry);
            let line = &mut self.lines[entry.idx];
            line.base_sum = line.base_sum.wrapping_sub(count);
            line.base_sumsq = line.base_sumsq.wrapping_sub(square(count));
            if t - line.last == KEPT {
                if line.is(super::line::GONE) {
                    self.dropped.push(entry.idx);
                } else {
                    self.sleep.put(entry.idx, line.last + FORGET);
                }
            }
        }
        self.log.len -= slot.entries.len();
    }

    /// Slot T − 100 goes from the tested ten seconds into the baseline.
    fn leave_10s(&mut self, t: u32) {
        let slot = self.log.before(t, 100);
        for (i, entry) in slot.entries.iter().enumerate() {
            if let Some(soon) = slot.entries.get(i + AHEAD) {
                self.lines.prefetch(soon.idx);
            }
            let count = slot.total(entry);
            let line = &mut self.lines[entry.idx];
            line.count_10s = line.count_10s.wrapping_sub(count);
            line.base_sum = line.base_sum.wrapping_add(count);
            line.base_sumsq = line.base_sumsq.wrapping_add(square(count));
            if line.is(HOT) {
                let hot = &mut self.rows.hot[self.rows.of[entry.idx as usize].hot as usize];
                sub(&mut hot.classes[1], &slot.classes(entry));
            }
        }
        self.leave_bad(t, 100, 1);
    }

    /// Slot T − 600 leaves the minute.
    fn leave_60s(&mut self, t: u32) {
        let slot = self.log.before(t, 600);
        for (i, entry) in slot.entries.iter().enumerate() {
            if let Some(soon) = slot.entries.get(i + AHEAD) {
                self.lines.prefetch(soon.idx);
            }
            let count = slot.total(entry);
            let line = &mut self.lines[entry.idx];
            line.count_60s = line.count_60s.wrapping_sub(count);
            // A room given up by a restore is not counted any more.
            if line.count_60s == 0 && count > 0 && !line.is(super::line::GONE) {
                self.rooms_60s -= 1;
            }
            if line.is(HOT) {
                let hot = &mut self.rows.hot[self.rows.of[entry.idx as usize].hot as usize];
                hot.count_60s = hot.count_60s.wrapping_sub(count);
                sub(&mut hot.classes[2], &slot.classes(entry));
            }
        }
        self.leave_bad(t, 600, 2);
    }

    /// Slots T − 10, T − 30 and T − 50 leave the windows that only some rooms have.
    fn leave_short(&mut self, t: u32) {
        let Self { rows, log, .. } = self;
        let slot = log.before(t, 10);
        for (i, entry) in slot.entries.iter().enumerate() {
            rows.ask(&slot.entries, i);
            let Some(hot) = rows.hot.get_mut(rows.of[entry.idx as usize].hot as usize) else {
                continue;
            };
            let count = slot.total(entry);
            hot.count_1s = hot.count_1s.wrapping_sub(count);
            (hot.left, hot.left_at) = (count, t);
            sub(&mut hot.classes[0], &slot.classes(entry));
        }
        Self::leave_3s_and_5s(rows, log, t);
        self.leave_bad(t, 10, 0);
    }

    fn leave_3s_and_5s(rows: &mut Rows, log: &Log, t: u32) {
        let slot = log.before(t, 30);
        for (i, entry) in slot.entries.iter().enumerate() {
            rows.ask(&slot.entries, i);
            if let Some(warm) = rows.warm.get_mut(rows.of[entry.idx as usize].warm as usize) {
                warm.count_3s = warm.count_3s.wrapping_sub(slot.total(entry));
            }
        }
        let slot = log.before(t, 50);
        for (i, entry) in slot.entries.iter().enumerate() {
            rows.ask(&slot.entries, i);
            if let Some(warm) = rows.warm.get_mut(rows.of[entry.idx as usize].warm as usize) {
                warm.count_5s = warm.count_5s.wrapping_sub(slot.total(entry));
            }
        }
    }

    fn leave_bad(&mut self, t: u32, back: u32, window: usize) {
        let rows = &mut self.rows;
        let slot = self.log.before(t, back);
        // Two readings of the same lines, the first ahead of the second.
        let mut soon = slot.bad_lines().skip(AHEAD);
        for (room, bad) in slot.bad_lines() {
            if let Some((soon, _)) = soon.next() {
                prefetch(&rows.of, soon as usize);
            }
            if let Some(hot) = rows.hot.get_mut(rows.of[room as usize].hot as usize) {
                sub(&mut hot.bad[window], &bad);
            }
        }
    }

    /// The slot's own counts.
    fn take(&mut self, records: &[Record], t: u32) {
        self.spikes.clear();
        self.log.at_mut(t).clear(records.len());
        let mut rooms = [0; BATCH];
        for (i, batch) in records.chunks(BATCH).enumerate() {
            for soon in records.iter().skip((i + 1) * BATCH).take(BATCH) {
                self.table.prefetch(soon.room);
            }
            for (room, record) in rooms.iter_mut().zip(batch) {
                *room = match self.table.find(record.room, |_| true) {
                    Some(found) => found,
                    // A record without events bears nobody.
                    None if empty(record) => NONE,
                    None => self.bear(record.room, t),
                };
                self.lines.prefetch(*room);
            }
            // The lines are here by now: what an event will touch beyond them is asked for.
            for room in rooms.iter().take(batch.len()).filter(|room| **room != NONE) {
                let line = &self.lines[*room];
                if line.last / BLOCK != t / BLOCK {
                    self.colds.prefetch(*room);
                }
                if line.is(WARM | HOT) {
                    prefetch(&self.rows.of, *room as usize);
                }
            }
            for room in rooms.iter().take(batch.len()).filter(|room| **room != NONE) {
                if self.lines[*room].is(WARM | HOT) {
                    self.rows.ask_rows(*room);
                    prefetch(&self.rows.warmth, self.rows.of[*room as usize].warm as usize);
                }
            }
            for (room, record) in rooms.iter().zip(batch).filter(|(room, _)| **room != NONE) {
                let same = self.lines[*room].key_tail == record.room.1 as u32;
                let room = if same { *room } else { self.find_or_bear(record.room, t) };
                self.add(room, record, t);
            }
        }
        let slot = self.log.at_mut(t);
        slot.seal();
        let entries = slot.entries.len();
        self.log.len += entries;
    }

    /// Keys that agree in 96 bits and differ in the rest.
    #[cold]
    fn find_or_bear(&mut self, key: RoomKey, t: u32) -> u32 {
        match self.place_of(key) {
            Some(found) => found,
            None => self.bear(key, t),
        }
    }

    #[inline]
    fn add(&mut self, room: u32, record: &Record, t: u32) {
        let count = record.classes.iter().map(|c| u32::from(*c)).sum::<u32>();
        if count == 0 && empty(record) {
            return;
        }
        let line = &mut self.lines[room];
        let slot = self.log.at_mut(t);
        let more = line.last == t && line.head != NONE;
        let gap = t - line.last;
        let before = if more {
            let before = slot.total(&slot.entries[line.head as usize]);
            slot.merge(line.head, record);
            before
        } else {
            hole::event(line, t);
            if line.last / BLOCK != t / BLOCK {
                self.colds[room].blocks.roll(&mut line.in_block, t / BLOCK);
            }
            let chained = line.head != NONE && gap < KEPT;
            line.head = slot.push(room, if chained { gap } else { 0 }, line.head, record);
            line.last = t;
            0
        };
        line.in_block = line.in_block.wrapping_add(count);
        line.count_10s = line.count_10s.wrapping_add(count);
        if line.count_60s == 0 && count > 0 {
            self.rooms_60s += 1;
        }
        line.count_60s = line.count_60s.wrapping_add(count);
        line.partitions |= record.partitions;
        let classes = record.classes.map(u32::from);
        let group = usize::from(line.group);
        add(&mut self.tally.classes, &classes);
        if let Some(sums) = self.tally.by_group.get_mut(group) {
            add(sums, &classes);
        }
        let limits = self.limits;
        let floor = limits.count_100ms;
        if before <= floor && before.wrapping_add(count) > floor {
            self.spikes.push(room);
        }
        if line.is(WARM | HOT) {
            self.add_to_rows(room, count, record, gap, more);
        }
        let line = &mut self.lines[room];
        let warm = line.count_10s >= limits.warm_10s && !line.is(WARM);
        let hot = line.count_60s > limits.count_60s && !line.is(HOT);
        if (warm || hot) && !line.is(QUEUED) {
            line.put(QUEUED, true);
            self.queued.push(room);
        }
    }

    #[inline]
    fn add_to_rows(&mut self, room: u32, count: u32, record: &Record, gap: u32, more: bool) {
        let place = self.rows.of[room as usize];
        if let Some(warm) = self.rows.warm.get_mut(place.warm as usize) {
            warm.count_3s = warm.count_3s.wrapping_add(count);
            warm.count_5s = warm.count_5s.wrapping_add(count);
            let recent = &mut self.rows.warmth[place.warm as usize].recent;
            if !more {
                *recent = if gap < 64 { *recent << gap } else { 0 } | 1;
            }
        }
        if let Some(hot) = self.rows.hot.get_mut(place.hot as usize) {
            hot.count_60s = hot.count_60s.wrapping_add(count);
            hot.count_1s = hot.count_1s.wrapping_add(count);
            let (classes, bad) = (record.classes.map(u32::from), record.outcomes.map(u32::from));
            for window in 0..3 {
                add(&mut hot.classes[window], &classes);
                add(&mut hot.bad[window], &bad);
            }
        }
    }

    /// Rooms that have become warm or hot get their rows, from their entries.
    fn give_rows(&mut self, t: u32) {
        if std::mem::take(&mut self.rescan) {
            self.queue_all();
        }
        for room in std::mem::take(&mut self.queued) {
            let line = &mut self.lines[room];
            line.put(QUEUED, false);
            if line.is(super::line::GONE) {
                continue;
            }
            let pinned = line.is(PINNED);
            let heat = pinned || line.count_60s > self.limits.count_60s;
            if heat && !line.is(HOT) {
                line.put(HOT, true);
                self.rows.heat_up(room, pinned, line, &self.log, t);
            }
            if (heat || line.count_10s >= self.limits.warm_10s) && !line.is(WARM) {
                line.put(WARM, true);
                self.rows.warm_up(room, line, &self.log, t);
                self.set_enough(room, t);
            }
        }
    }

    /// Other limits hold: every room that they make warm or hot is found, and every threshold is made anew.
    fn queue_all(&mut self) {
        for room in 0..self.lines.len() as u32 {
            let line = &mut self.lines[room];
            let heat = line.is(PINNED) || line.count_60s > self.limits.count_60s;
            let wants = heat || line.count_10s >= self.limits.warm_10s;
            if wants && !line.is(QUEUED | super::line::GONE) {
                line.put(QUEUED, true);
                self.queued.push(room);
            }
        }
        let t = self.rel(self.next) - 1;
        for at in 0..self.rows.warmth.len() {
            self.set_enough(self.rows.warmth[at].room, t);
        }
    }

    /// The end of a 10 s block: rows that nobody needs any more are taken back, the block joins the background.
    fn end_block(&mut self, t: u32) {
        // Not at the very limit: a room about it would lose its row and walk all its entries for a new one, every ten
        // seconds.
        let (hot_least, warm_least) = (self.limits.count_60s / 4 * 3, self.limits.warm_10s / 2);
        for at in (0..self.rows.hot.len()).rev() {
            let hot = &self.rows.hot[at];
            if hot.count_60s <= hot_least && !hot.pinned {
                let room = hot.room;
                self.lines[room].put(HOT, false);
                self.rows.calm_down(room);
            }
        }
        for at in (0..self.rows.warmth.len()).rev() {
            if let Some(soon) = at.checked_sub(AHEAD) {
                let soon = self.rows.warmth[soon].room;
                self.lines.prefetch(soon);
                self.colds.prefetch(soon);
            }
            let room = self.rows.warmth[at].room;
            let line = &mut self.lines[room];
            if line.count_10s < warm_least && !line.is(HOT) {
                line.put(WARM, false);
                self.rows.cool_down(room);
            } else {
                self.set_enough(room, t);
            }
        }
    }

    /// Counts in 3 and 5 s at which a surge of this room could enter after slot `t`: 2.2 × its background, plus c.
    pub(super) fn set_enough(&mut self, room: u32, t: u32) {
        let place = self.rows.of[room as usize].warm;
        let Some(warm) = self.rows.warm.get_mut(place as usize) else { return };
        let cold = &mut self.colds[room];
        cold.blocks.roll(&mut self.lines[room].in_block, (t + 1) / BLOCK);
        let (l, c) = (cold.blocks.background().max(1_000), self.limits.surge_c);
        let fits = |n: u64| u32::try_from(n).unwrap_or(NONE);
        // 50000 · n3 ≥ 33 · L + 50000 · c, and 10000 · n5 ≥ 11 · L + 10000 · c.
        let enough = c.map(u64::from).map(|c| {
            (
                fits((33 * l + 50_000 * c).div_ceil(50_000)),
                fits((11 * l + 10_000 * c).div_ceil(10_000)),
            )
        });
        (warm.enough_3s, warm.enough_5s) = enough.unwrap_or((NONE, NONE));
    }

    /// Who must be evaluated: hot rooms, slots with many events, and rooms in which a surge could enter.
    fn tell(&mut self, t: u32, due: &mut Vec<Idx>) {
        let floor = self.limits.count_60s;
        let hot = self.rows.hot.iter().filter(|h| h.pinned || h.count_60s > floor);
        due.extend(hot.map(|h| Idx(h.room)));
        let unlisted = |room: u32| {
            let hot = self.rows.hot.get(self.rows.of[room as usize].hot as usize);
            !hot.is_some_and(|h| h.pinned || h.count_60s > floor)
        };
        due.extend(self.spikes.iter().copied().filter(|room| unlisted(*room)).map(Idx));
        for (at, warm) in self.rows.warm.iter().enumerate() {
            if warm.count_3s < warm.enough_3s && warm.count_5s < warm.enough_5s {
                continue;
            }
            let warmth = self.rows.warmth[at];
            let line = &self.lines[warmth.room];
            if t - line.first >= SURGE_LIFE
                && seconds_of_5(warmth.recent, t - line.last) >= SURGE_SECONDS
                && unlisted(warmth.room)
                && self.count_now(line, t) <= self.limits.count_100ms
            {
                due.push(Idx(warmth.room));
            }
        }
    }

    /// c(T).
    pub(super) fn count_now(&self, line: &Line, t: u32) -> u32 {
        if line.last != t || line.head == NONE {
            return 0;
        }
        let slot = self.log.before(t, 0);
        slot.total(&slot.entries[line.head as usize])
    }
}

/// A record of outcomes alone is not empty: counts above 65,535 are split over several records.
fn empty(record: &Record) -> bool {
    record.classes == [0; CLASSES] && record.outcomes == [0; BAD]
}

fn square(count: u32) -> u64 {
    u64::from(count) * u64::from(count)
}
