//! The close of a slot: what leaves, what comes, who is due, who cools down.

use super::line::{GONE, HOT, NONE, PINNED, QUEUED, WARM};
use super::log::Counts;
use super::{FORGET, Idx, Windows, blocks, expired, hole_is_open};
use crate::precount::Record;
use barrage_protocol::ids::CLASSES;

/// How far ahead a room's line is asked for.
const AHEAD: usize = 16;
/// Rooms that have cooled down lose their rows at every so many slots.
const DEMOTE_EVERY: u32 = 100;
/// The sweep for silent rooms comes round in so many slots.
const SWEEP_SLOTS: usize = 600;

impl Windows {
    pub(super) fn close_slot(&mut self, records: &[Record]) {
        self.t += 1;
        let t = self.t;
        self.free.extend(self.forgotten.drain(..).map(|idx| idx.0));
        self.born.clear();
        self.busy.clear();
        self.count = 0;
        self.classes = [0; CLASSES];
        self.by_group.clear();
        self.warm.pass();
        self.leave_long(t);
        self.leave_short(t);
        let leaving = self.log.before(t, 700).entries.len();
        self.log.len -= leaving;
        self.log.at_mut(t).clear(records.len());
        self.sweep(t);
        self.take(t, records);
        let closed = self.log.at_mut(t);
        closed.seal();
        let entries = closed.entries.len();
        self.log.len += entries;
        self.tell_hot(t);
        let mut rising = std::mem::take(&mut self.rising);
        for at in rising.drain(..) {
            self.lines[at].put(QUEUED, false);
            self.raise(at);
        }
        self.rising = rising;
        if (t + 1).is_multiple_of(blocks::BLOCK) {
            for row in 0..self.warm.len() {
                self.judge(row);
            }
        }
    }

    /// What leaves 10 s, 60 s, and what enters and leaves the baseline.
    fn leave_long(&mut self, t: u32) {
        let Self { log, lines, hot, rooms_60s, .. } = self;
        let closed = log.before(t, 700);
        for (i, entry) in closed.entries.iter().enumerate() {
            if let Some(ahead) = closed.entries.get(i + AHEAD) {
                lines.prefetch(ahead.idx);
            }
            let n = closed.total(entry);
            let line = &mut lines[entry.idx];
            line.base_sum = line.base_sum.wrapping_sub(n);
            line.base_sumsq = line.base_sumsq.wrapping_sub(u64::from(n) * u64::from(n));
        }
        let closed = log.before(t, 600);
        for (i, entry) in closed.entries.iter().enumerate() {
            if let Some(ahead) = closed.entries.get(i + AHEAD) {
                lines.prefetch(ahead.idx);
            }
            let line = &mut lines[entry.idx];
            line.count_60s = line.count_60s.wrapping_sub(closed.total(entry));
            *rooms_60s -= u64::from(line.count_60s == 0);
            if line.is(HOT)
                && let Some(row) = hot.row(entry.idx)
            {
                hot.detail[row].leave(2, &closed.all(i as u32));
            }
        }
        let closed = log.before(t, 100);
        for (i, entry) in closed.entries.iter().enumerate() {
            if let Some(ahead) = closed.entries.get(i + AHEAD) {
                lines.prefetch(ahead.idx);
            }
            let n = closed.total(entry);
            let line = &mut lines[entry.idx];
            line.count_10s = line.count_10s.wrapping_sub(n);
            line.base_sum = line.base_sum.wrapping_add(n);
            line.base_sumsq = line.base_sumsq.wrapping_add(u64::from(n) * u64::from(n));
            if line.is(HOT)
                && let Some(row) = hot.row(entry.idx)
            {
                hot.detail[row].leave(1, &closed.all(i as u32));
            }
        }
    }

    /// What leaves 1, 3 and 5 s, of warm rooms.
    fn leave_short(&mut self, t: u32) {
        let Self { log, warm, hot, .. } = self;
        for (i, entry) in log.before(t, 10).entries.iter().enumerate() {
            let closed = log.before(t, 10);
            if let Some(row) = warm.row(entry.idx) {
                warm.n1[row] = warm.n1[row].wrapping_sub(closed.total(entry));
            }
            if let Some(row) = hot.row(entry.idx) {
                hot.detail[row].leave(0, &closed.all(i as u32));
            }
        }
        let closed = log.before(t, 30);
        for entry in &closed.entries {
            if let Some(row) = warm.row(entry.idx) {
                warm.n3[row] = warm.n3[row].wrapping_sub(closed.total(entry));
            }
        }
        let closed = log.before(t, 50);
        for entry in &closed.entries {
            if let Some(row) = warm.row(entry.idx) {
                warm.n5[row] = warm.n5[row].wrapping_sub(closed.total(entry));
            }
        }
    }

    /// Forgets silent rooms: hot ones at once, so that nothing is decided about them any more, the others as the sweep
    /// comes round.
    fn sweep(&mut self, t: u32) {
        for row in (0..self.hot.len()).rev() {
            let at = self.hot.idx[row];
            if expired(&self.lines[at], t) {
                self.forget(at);
            }
        }
        let len = self.lines.len();
        for _ in 0..(len / SWEEP_SLOTS + 1).min(len) {
            self.sweep = if self.sweep as usize + 1 < len { self.sweep + 1 } else { 0 };
            let line = &self.lines[self.sweep];
            if !line.is(GONE) && expired(line, t) {
                self.forget(self.sweep);
            }
        }
        debug_assert!(FORGET > 700, "a room that is forgotten has no entries in the log");
    }

    /// Takes the slot's counts in.
    fn take(&mut self, t: u32, records: &[Record]) {
        for (i, record) in records.iter().enumerate() {
            if let Some(ahead) = records.get(i + AHEAD) {
                self.table.prefetch(ahead.room);
            }
            if let Some(ahead) = records.get(i + AHEAD / 2)
                && let Some(at) = self.place(ahead.room)
            {
                self.lines.prefetch(at);
            }
            let counts = Counts {
                classes: record.classes.map(u32::from),
                bad: record.outcomes.map(u32::from),
            };
            let n = counts.total();
            if n > 0 {
                let at = self.owner(record, t);
                self.add(at, t, record.partitions, &counts, n);
            }
        }
    }

    /// The place of a record's room, born if need be.
    fn owner(&mut self, record: &Record, t: u32) -> u32 {
        if let Some(at) = self.place(record.room) {
            if !expired(&self.lines[at], t) {
                return at;
            }
            self.forget(at);
        }
        let at = self.bear(record.room, t);
        self.born.push(Idx(at));
        at
    }

    fn add(&mut self, at: u32, t: u32, partitions: u32, counts: &Counts, n: u32) {
        let line = &mut self.lines[at];
        line.partitions |= partitions;
        let closed = self.log.at_mut(t);
        let total = if line.last == t && line.head != NONE {
            closed.merge(line.head, counts).total()
        } else {
            let silence = t - line.last;
            if silence > 50 && hole_is_open(line, t - 1) {
                line.kept_until = t + 700;
            }
            if t >= line.kept_until {
                line.set_at_last(line.sliding(t));
            }
            if t / blocks::BLOCK != line.last / blocks::BLOCK {
                self.cold[at].blocks.roll(&mut line.in_block, t / blocks::BLOCK);
            }
            let has = line.head != NONE && silence < 700;
            let (back, before) = if has { (silence, line.head) } else { (0, 0) };
            line.head = closed.push(at, back, before, counts);
            line.last = t;
            n
        };
        line.in_block = line.in_block.wrapping_add(n);
        self.rooms_60s += u64::from(line.count_60s == 0);
        line.count_10s = line.count_10s.wrapping_add(n);
        line.count_60s = line.count_60s.wrapping_add(n);
        let warm = line.is(WARM);
        let least = self.floors.surge_c.map_or(u32::MAX, |c| c.saturating_add(1));
        let rises = (line.count_60s > self.floors.count_60s && !line.is(HOT))
            || (line.count_10s >= least && !warm);
        if rises && !line.is(QUEUED) {
            line.put(QUEUED, true);
            self.rising.push(at);
        }
        let group = line.group;
        if warm && let Some(row) = self.warm.row(at) {
            self.warm.n1[row] = self.warm.n1[row].wrapping_add(n);
            self.warm.n3[row] = self.warm.n3[row].wrapping_add(n);
            self.warm.n5[row] = self.warm.n5[row].wrapping_add(n);
            self.warm.seen[row] |= 1;
        }
        if total > self.floors.count_100ms {
            self.busy.push(at);
        }
        self.count += u64::from(n);
        for (sum, c) in self.classes.iter_mut().zip(counts.classes) {
            *sum = sum.wrapping_add(c);
        }
        self.tally(group, &counts.classes, u32::wrapping_add);
    }

    /// Adds the slot just taken in to the rows per class and outcome; from the log, where each room stands once.
    fn tell_hot(&mut self, t: u32) {
        let closed = self.log.before(t, 0);
        for row in 0..self.hot.len() {
            let line = &self.lines[self.hot.idx[row]];
            if line.last == t && line.head != NONE {
                self.hot.detail[row].add(0, &closed.all(line.head));
            }
        }
    }

    pub(super) fn fill_due(&mut self, due: &mut Vec<Idx>) {
        due.clear();
        for &at in &self.hot.idx {
            let line = &mut self.lines[at];
            if line.count_60s > self.floors.count_60s || line.is(PINNED) {
                line.put(QUEUED, true);
                due.push(Idx(at));
            }
        }
        let warm = &self.warm;
        let columns = warm.n3.iter().zip(&warm.least3).zip(warm.n5.iter().zip(&warm.least5));
        for (row, ((n3, least3), (n5, least5))) in columns.enumerate() {
            if n3 >= least3 || n5 >= least5 {
                let line = &mut self.lines[warm.idx[row]];
                if !line.is(QUEUED) {
                    line.put(QUEUED, true);
                    due.push(Idx(warm.idx[row]));
                }
            }
        }
        for &at in &self.busy {
            let line = &mut self.lines[at];
            if !line.is(QUEUED) {
                line.put(QUEUED, true);
                due.push(Idx(at));
            }
        }
        for idx in due.iter() {
            self.lines[idx.0].put(QUEUED, false);
        }
    }

    /// Takes the rows of rooms that have cooled down.
    pub(super) fn demote(&mut self) {
        if !self.t.is_multiple_of(DEMOTE_EVERY) {
            return;
        }
        for row in (0..self.hot.len()).rev() {
            let at = self.hot.idx[row];
            let line = &mut self.lines[at];
            if line.count_60s <= self.floors.count_60s && !line.is(PINNED) {
                line.put(HOT, false);
                self.hot.remove(row);
            }
        }
        let least = self.floors.surge_c.map_or(u32::MAX, |c| c.saturating_add(1));
        for row in (0..self.warm.len()).rev() {
            let at = self.warm.idx[row];
            let line = &mut self.lines[at];
            if line.count_10s < least && !line.is(HOT) {
                line.put(WARM, false);
                self.warm.remove(row);
            }
        }
    }
}
