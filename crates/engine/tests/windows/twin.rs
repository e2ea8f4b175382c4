//! The twin: keeps the raw counts of every slot of every room and recounts whatever is asked, at every slot.

use barrage_engine::features::{Baseline, Features};
use barrage_engine::precount::Record;
use barrage_engine::rules::Floors;
use barrage_engine::windows::{Totals, Windows};
use barrage_protocol::ids::{CLASSES, OUTCOMES, RoomKey, Slot};
use std::collections::BTreeMap;

/// Counts of one room in one slot.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cell {
    pub(crate) classes: [u64; CLASSES],
    pub(crate) bad: [u64; OUTCOMES - 1],
    pub(crate) partitions: u32,
}

impl Cell {
    fn total(&self) -> u64 {
        self.classes.iter().sum()
    }
}

/// A room as the twin knows it.
#[derive(Clone)]
pub(crate) struct Room {
    pub(crate) cells: BTreeMap<u64, Cell>,
    first: u64,
    last: u64,
    partitions: u32,
    at_last: Baseline,
    kept_until: u64,
    blocks: Vec<u64>,
    surge: Option<u64>,
    held: bool,
    pub(crate) pinned: bool,
    pub(crate) group: u16,
}

/// All rooms.
#[derive(Clone)]
pub(crate) struct Twin {
    pub(crate) rooms: BTreeMap<RoomKey, Room>,
    pub(crate) next: u64,
    pub(crate) forgotten: Vec<RoomKey>,
    pub(crate) born: Vec<RoomKey>,
}

impl Room {
    fn new(t: u64) -> Self {
        Self {
            cells: BTreeMap::new(),
            first: t,
            last: t,
            partitions: 0,
            at_last: Baseline::default(),
            kept_until: 0,
            blocks: Vec::new(),
            surge: None,
            held: false,
            pinned: false,
            group: 0,
        }
    }

    fn at(&self, slot: u64) -> Cell {
        self.cells.get(&slot).copied().unwrap_or_default()
    }

    /// Σ over the `n` slots that end with `t`.
    fn sum(&self, t: u64, n: u64) -> Cell {
        let mut sum = Cell::default();
        for (_, cell) in self.cells.range((t + 1).saturating_sub(n)..=t) {
            for (to, from) in sum.classes.iter_mut().zip(cell.classes) {
                *to += from;
            }
            for (to, from) in sum.bad.iter_mut().zip(cell.bad) {
                *to += from;
            }
        }
        sum
    }

    fn sliding(&self, t: u64) -> Baseline {
        let from = t.saturating_sub(699).max(self.first);
        let Some(to) = t.checked_sub(100).filter(|to| *to >= from) else {
            return Baseline::default();
        };
        let mut b = Baseline { n: (to - from + 1) as u16, ..Baseline::default() };
        for (_, cell) in self.cells.range(from..=to) {
            let c = cell.total();
            (b.sum, b.sumsq) = (b.sum + c, b.sumsq + c * c);
        }
        b
    }

    fn hole(&self, silence: u64) -> bool {
        let b = self.at_last;
        b.n >= 300 && silence >= 50 && b.sum * silence >= 12 * u64::from(b.n)
    }

    fn background(&self) -> u64 {
        let start = self.blocks.len().saturating_sub(18);
        let mut last = self.blocks[start..].to_vec();
        last.sort_unstable();
        match last.len() {
            0 => 0,
            n if n % 2 == 1 => last[n / 2] * 1_000,
            n => (last[n / 2 - 1] + last[n / 2]) * 500,
        }
    }

    pub(crate) fn features(&self, t: u64) -> Features {
        let hole = t < self.kept_until || self.hole(t - self.last);
        let windows = [10, 100, 600].map(|n| self.sum(t, n));
        let total = |n: u64| self.sum(t, n).total() as u32;
        let second = |k: u64| t.checked_sub(10 * k).is_some_and(|t| self.sum(t, 10).total() > 0);
        Features {
            slot: Slot(t),
            first: Slot(self.first),
            last: Slot(self.last),
            count: total(1),
            before_1s: t.checked_sub(1).map_or(0, |t| self.sum(t, 10).total() as u32),
            count_1s: total(10),
            count_3s: total(30),
            count_5s: total(50),
            count_10s: total(100),
            count_60s: total(600),
            seconds_of_5: (0..5).filter(|k| second(*k)).count() as u8,
            baseline: if hole { self.at_last } else { self.sliding(t) },
            hole,
            background: self.background(),
            classes: windows.map(|w| w.classes.map(|c| c as u32)),
            outcomes: windows.map(|w| {
                let bad = w.bad.map(|c| c as u32);
                let ok = w.total() as u32 - bad.iter().sum::<u32>();
                [ok, bad[0], bad[1], bad[2], bad[3]]
            }),
        }
    }

    /// Whether it must be evaluated: what the rules could enter on, from the features alone.
    fn must_be_due(&self, floors: &Floors, f: &Features) -> bool {
        let l = f.background.max(1_000);
        let surge = floors.surge_c.map(u64::from).is_some_and(|c| {
            let (n3, n5) = (u64::from(f.count_3s), u64::from(f.count_5s));
            f.slot.0 - f.first.0 >= 300
                && f.seconds_of_5 >= 3
                && (50_000 * n3 >= 33 * l + 50_000 * c || 10_000 * n5 >= 11 * l + 10_000 * c)
        });
        self.pinned || surge || f.count_60s > floors.count_60s || f.count > floors.count_100ms
    }
}

impl Twin {
    pub(crate) fn new(next: u64) -> Self {
        Self { rooms: BTreeMap::new(), next, forgotten: Vec::new(), born: Vec::new() }
    }

    fn forget(&mut self, now: u64) {
        let silent = |r: &Room| !r.held && now.saturating_sub(r.last) >= 6_000;
        let gone: Vec<RoomKey> =
            self.rooms.iter().filter(|(_, r)| silent(r)).map(|(k, _)| *k).collect();
        for key in gone {
            self.rooms.remove(&key);
            self.forgotten.push(key);
        }
    }

    pub(crate) fn close(&mut self, counts: &BTreeMap<RoomKey, Cell>) {
        let t = self.next;
        self.next += 1;
        self.forgotten.clear();
        self.born.clear();
        self.forget(t.saturating_sub(1));
        for (key, cell) in counts {
            if !self.rooms.contains_key(key) {
                self.born.push(*key);
            }
            let room = self.rooms.entry(*key).or_insert_with(|| Room::new(t));
            let silence = (t - room.last).saturating_sub(1);
            if room.hole(silence) {
                room.kept_until = t + 700;
            } else if t >= room.kept_until {
                room.at_last = room.sliding(t);
            }
            room.cells.insert(t, *cell);
            room.last = t;
            room.partitions |= cell.partitions;
        }
        self.forget(t);
        for room in self.rooms.values_mut() {
            if (t + 1).is_multiple_of(100) {
                let young = room.surge.is_some_and(|since| (t + 1) - (since + 1) < 100);
                if !young {
                    let block = room.sum(t, 100).total();
                    room.blocks.push(block);
                }
                let old = t.saturating_sub(800);
                room.cells.retain(|slot, _| *slot >= old);
            }
        }
    }

    fn totals(&self) -> Totals {
        let t = self.next - 1;
        let mut totals = Totals { slot: Slot(t), ..Totals::default() };
        let mut by_group = BTreeMap::<u16, [u32; CLASSES]>::new();
        for room in self.rooms.values() {
            totals.rooms_60s += u64::from(room.sum(t, 600).total() > 0);
            let cell = room.at(t);
            totals.count += cell.total();
            let group = by_group.entry(room.group).or_default();
            for (class, count) in cell.classes.iter().enumerate() {
                totals.classes[class] += *count as u32;
                group[class] += *count as u32;
            }
        }
        by_group.retain(|_, sums| *sums != [0; CLASSES]);
        totals.by_group = by_group.into_iter().collect();
        totals
    }

    /// Everything the windows say must be what the recount says.
    pub(crate) fn compare(
        &self,
        windows: &mut Windows,
        due: &[barrage_engine::windows::Idx],
        floors: &Floors,
        case: &str,
    ) {
        let t = self.next - 1;
        let case = format!("{case}, slot {t}");
        let sorted = |mut keys: Vec<RoomKey>| {
            keys.sort_unstable();
            keys
        };
        let listed = sorted(windows.rooms().map(|i| windows.key(i)).collect());
        assert!(listed.iter().eq(self.rooms.keys()), "{case}: rooms");
        let forgotten: Vec<_> = windows.forgotten().collect();
        let forgotten = sorted(forgotten.into_iter().map(|i| windows.key(i)).collect());
        assert_eq!(forgotten, sorted(self.forgotten.clone()), "{case}: forgotten");
        let born = sorted(windows.born().iter().map(|i| windows.key(*i)).collect());
        assert_eq!(born, sorted(self.born.clone()), "{case}: born");
        assert_eq!(windows.totals(), self.totals(), "{case}: totals");
        let due = sorted(due.iter().map(|i| windows.key(*i)).collect());
        assert!(due.windows(2).all(|w| w[0] < w[1]), "{case}: a room is due twice");
        for (key, room) in &self.rooms {
            let idx = windows.find(*key).expect("a known room is found");
            let want = room.features(t);
            assert_eq!(windows.features(idx), want, "{case}: features of {key:?}");
            assert_eq!(windows.count_10s(idx), want.count_10s);
            assert_eq!(windows.partitions(idx), room.partitions, "{case}: partitions");
            let is_due = due.binary_search(key).is_ok();
            assert!(is_due || !room.must_be_due(floors, &want), "{case}: {key:?} is not due");
        }
    }

    /// Sets what a controller would set, in both.
    pub(crate) fn toggle(&mut self, windows: &mut Windows, key: RoomKey, what: u64, on: bool) {
        let t = self.next - 1;
        let idx = windows.find(key).expect("a known room is found");
        let room = self.rooms.get_mut(&key).expect("a known room is found");
        match what {
            0 => {
                room.pinned = on;
                windows.pin(idx, on);
            }
            1 => {
                room.held = on;
                windows.hold(idx, on);
            }
            _ => {
                room.surge = on.then_some(t);
                windows.surge(idx, room.surge.map(Slot));
            }
        }
    }

    pub(crate) fn held(&self, key: RoomKey) -> bool {
        self.rooms[&key].held
    }

    pub(crate) fn surge(&self, key: RoomKey) -> Option<u64> {
        self.rooms[&key].surge
    }
}

/// The counts of a slot as records: split at random, in random order, with at least what a record can hold.
pub(crate) fn records(counts: &BTreeMap<RoomKey, Cell>, rng: &mut crate::Rng) -> Vec<Record> {
    let mut records = Vec::new();
    for (room, cell) in counts {
        let mut left = *cell;
        let parts = 1 + rng.below(3);
        let mut part = 0;
        while left.total() > 0 || left.bad.iter().any(|b| *b > 0) || part == 0 {
            part += 1;
            let mut record =
                Record { room: *room, partitions: cell.partitions, ..Record::default() };
            let mut share = |left: &mut u64, put: &mut u16| {
                let some = if part >= parts { *left } else { rng.below(*left + 1) };
                *put = some.min(u64::from(u16::MAX)) as u16;
                *left -= u64::from(*put);
            };
            for (left, put) in left.classes.iter_mut().zip(&mut record.classes) {
                share(left, put);
            }
            for (left, put) in left.bad.iter_mut().zip(&mut record.outcomes) {
                share(left, put);
            }
            records.push(record);
        }
    }
    for i in (1..records.len()).rev() {
        records.swap(i, rng.below(i as u64 + 1) as usize);
    }
    records
}
