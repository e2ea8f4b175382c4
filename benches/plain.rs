//! The plain program: one thread, no dataflow, nothing of ours but the types of an event and the hint to the
//! processor. It does by hand what the hot path does (counts per slot, sliding sums by class and outcome, baselines,
//! which rules would enter) as fast as a plain program can, and is both the reference of `bench core` and its oracle:
//! the changes it finds, with the sums they were found on, must be those of the hot path.
//!
//! Rules as shipped for the last group, in the order of their ids: burst, fast, micro, rate; without surges. Shorter
//! than ten minutes, so that no room is forgotten.

use barrage_protocol::ids::{CLASSES, Class, OUTCOMES, Outcome, RoomKey};

/// Slots of the log: what any window reaches back, and the slot being closed.
const KEPT: u32 = 701;
/// Slots that may be open at once.
const OPEN: usize = 4;
/// How far ahead a place is asked for.
const AHEAD: usize = 16;
/// A room with more events in 60 s is looked at in every slot: the least count at which a rule could enter.
const LISTED: u32 = 800;
/// A slot with more events is looked at: 1,000 a second.
const SPIKE: u32 = 100;
/// Outcomes that are counted: all but ok, which is the rest.
const BAD: usize = OUTCOMES - 1;
const BURST: u8 = 1;
const FAST: u8 = 2;
const MICRO: u8 = 4;
const RATE: u8 = 8;

/// A change of which rules would enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Change {
    /// The room.
    pub(super) room: RoomKey,
    /// Bits: burst, fast, micro, rate.
    pub(super) mask: u8,
    /// Events by class and by outcome in the last 10, 100 and 600 slots.
    pub(super) sums: Sums,
}

/// Events by class and by outcome other than ok, in the last 10, 100 and 600 slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C, align(64))]
pub(super) struct Sums {
    pub(super) classes: [[u32; CLASSES]; 3],
    pub(super) bad: [[u32; BAD]; 3],
}

/// Counts of a room in an open slot.
#[derive(Clone, Copy, Default)]
struct Count {
    room: RoomKey,
    classes: [u16; CLASSES],
    bad: [u16; BAD],
    generation: u16,
}

/// An open slot: a table that is cleared by counting its generation up.
struct Open {
    counts: Vec<Count>,
    used: Vec<u32>,
    generation: u16,
}

impl Open {
    fn new(bits: u32) -> Self {
        Self { counts: vec![Count::default(); 1 << bits], used: Vec::new(), generation: 1 }
    }

    fn home(&self, room: RoomKey) -> usize {
        (room.0 >> (64 - self.counts.len().trailing_zeros())) as usize
    }

    #[inline]
    fn add(&mut self, room: RoomKey, class: Class, outcome: Outcome) {
        let mask = self.counts.len() - 1;
        let mut at = self.home(room);
        loop {
            let count = &mut self.counts[at];
            if count.generation != self.generation {
                *count = Count { room, generation: self.generation, ..Count::default() };
                self.used.push(at as u32);
            }
            let count = &mut self.counts[at];
            if count.room == room {
                count.classes[class as usize] += 1;
                if outcome != Outcome::Ok {
                    count.bad[outcome as usize - 1] += 1;
                }
                break;
            }
            at = (at + 1) & mask;
        }
        if self.used.len() * 2 > self.counts.len() {
            self.grow();
        }
    }

    fn grow(&mut self) {
        let mut wide = Self::new(self.counts.len().trailing_zeros() + 1);
        for at in &self.used {
            let count = self.counts[*at as usize];
            let mut to = wide.home(count.room);
            while wide.counts[to].generation == wide.generation {
                to = (to + 1) & (wide.counts.len() - 1);
            }
            wide.counts[to] = Count { generation: wide.generation, ..count };
            wide.used.push(to as u32);
        }
        *self = wide;
    }

    fn clear(&mut self) {
        self.used.clear();
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 {
            self.counts.fill(Count::default());
            self.generation = 1;
        }
    }
}

/// A room: one cache line.
#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
struct Room {
    count_1s: u32,
    count_10s: u32,
    count_60s: u32,
    base_sum: u32,
    base_squares: u64,
    kept_squares: u64,
    kept_sum: u32,
    kept_life: u16,
    mask: u8,
    listed: bool,
    kept_until: u32,
    first: u32,
    last: u32,
    /// Events of the last slot that had any.
    now: u32,
    /// What left the second, and when.
    left: u32,
    left_at: u32,
}

/// A room in a closed slot.
#[derive(Clone, Copy)]
struct Entry {
    room: u32,
    count: u32,
    classes: [u16; CLASSES],
    bad: [u16; BAD],
}

impl Sums {
    /// Events by outcome in one of the windows: what is not otherwise was ok.
    pub(super) fn outcomes(&self, window: usize) -> [u32; OUTCOMES] {
        let [error, timeout, rejected, ignored] = self.bad[window];
        let all: u32 = self.classes[window].iter().sum();
        [all - error - timeout - rejected - ignored, error, timeout, rejected, ignored]
    }

    fn take(&mut self, entry: &Entry) {
        for window in 0..3 {
            self.classes[window]
                .iter_mut()
                .zip(entry.classes)
                .for_each(|(s, n)| *s += u32::from(n));
            self.bad[window].iter_mut().zip(entry.bad).for_each(|(s, n)| *s += u32::from(n));
        }
    }

    fn leave(&mut self, window: usize, entry: &Entry) {
        self.classes[window].iter_mut().zip(entry.classes).for_each(|(s, n)| *s -= u32::from(n));
        self.bad[window].iter_mut().zip(entry.bad).for_each(|(s, n)| *s -= u32::from(n));
    }
}

/// The baseline that a room is judged by.
#[derive(Clone, Copy)]
struct Base {
    life: i64,
    sum: i64,
    squares: u64,
}

impl Room {
    fn sliding(&self, t: u32) -> Base {
        let life = (i64::from(t) - 99 - i64::from(self.first)).clamp(0, 600);
        Base { life, sum: self.base_sum.into(), squares: self.base_squares }
    }

    fn kept(&self) -> Base {
        Base { life: self.kept_life.into(), sum: self.kept_sum.into(), squares: self.kept_squares }
    }

    /// Whether a silence of so many slots is a hole: at least 50 slots, in which 12 events would have come.
    fn hole(&self, silence: u32) -> bool {
        let kept = self.kept();
        silence >= 50 && kept.life >= 300 && kept.sum * i64::from(silence) >= 12 * kept.life
    }

    fn base(&self, t: u32) -> Base {
        let kept = t < self.kept_until || self.hole(t - self.last);
        if kept { self.kept() } else { self.sliding(t) }
    }

    /// An event at `t`: which baseline is in force at it, and is remembered.
    fn event(&mut self, t: u32) {
        let gap = t - self.last;
        if gap > 50 && self.hole(gap - 1) {
            self.kept_until = t + 700;
        } else if t >= self.kept_until {
            let base = self.sliding(t);
            self.kept_until = 0;
            self.kept_life = base.life as u16;
            self.kept_sum = base.sum as u32;
            self.kept_squares = base.squares;
        }
        self.last = t;
    }

    fn judge(&self, t: u32) -> u8 {
        let base = self.base(t);
        let (c1, c10) = (i64::from(self.count_1s), i64::from(self.count_10s));
        let mut mask = 0;
        if base.life >= 300 {
            // max(baseline, 1) × life, in tenths.
            let floored = (10 * base.sum).max(base.life);
            let excess = c10 * base.life - 100 * base.sum;
            if self.count_60s > 1_500 && excess > 20 * floored && z_above_4(&base, excess, floored)
            {
                mask |= BURST;
            }
            if c1 > 800 && c1 * base.life > 4 * floored {
                mask |= FAST;
            }
        }
        let count = if self.last == t { i64::from(self.now) } else { 0 };
        let left = if self.left_at == t { i64::from(self.left) } else { 0 };
        let before = c1 - count + left;
        if count > i64::from(SPIKE) && t - self.first >= 10 && 10 * count > 5 * before {
            mask |= MICRO;
        }
        if c10 > 20_000 {
            mask |= RATE;
        }
        mask
    }
}

/// z > 4: (excess / 10n)² > 16 · sigma² · 1.6 · (1/10 + 1/60), both sides × 100·n²; sigma² at least the floored baseline.
fn z_above_4(base: &Base, excess: i64, floored: i64) -> bool {
    let (n, sum) = (i128::from(base.life), i128::from(base.sum));
    let variance = 10 * (n * i128::from(base.squares) - sum * sum);
    let spread = variance.max(i128::from(floored) * n);
    // 1.6 · 7/60 = 14/75.
    i128::from(excess) * i128::from(excess) * 75 > 16 * 14 * 100 * spread
}

/// The program.
pub(super) struct Plain {
    open: [Open; OPEN],
    /// Places of rooms by key: open addressing, 0 is empty, else place + 1, with some bits of the key.
    index: Vec<(u32, u32)>,
    keys: Vec<RoomKey>,
    rooms: Vec<Room>,
    sums: Vec<Sums>,
    log: Vec<Vec<Entry>>,
    listed: Vec<u32>,
    on: Vec<u32>,
    spikes: Vec<u32>,
    /// Slots closed so far.
    t: u32,
    first: u64,
}

fn ask<T>(items: &[T], at: usize) {
    barrage_engine::prefetch::prefetch(items, at);
}

impl Plain {
    /// A program whose first slot is `first`.
    pub(super) fn new(first: u64) -> Self {
        Self {
            open: std::array::from_fn(|_| Open::new(10)),
            index: vec![(0, 0); 1 << 12],
            keys: Vec::new(),
            rooms: Vec::new(),
            sums: Vec::new(),
            log: vec![Vec::new(); KEPT as usize],
            listed: Vec::new(),
            on: Vec::new(),
            spikes: Vec::new(),
            t: 0,
            first,
        }
    }

    /// Counts an event of a slot not closed.
    #[inline]
    pub(super) fn add(&mut self, slot: u64, room: RoomKey, class: Class, outcome: Outcome) {
        self.open[slot as usize % OPEN].add(room, class, outcome);
    }

    /// Asks for the place of an event that comes soon.
    #[inline]
    pub(super) fn soon(&self, slot: u64, room: RoomKey) {
        let open = &self.open[slot as usize % OPEN];
        ask(&open.counts, open.home(room));
    }

    fn place(&mut self, room: RoomKey) -> u32 {
        if self.keys.len() * 2 > self.index.len() {
            let wide = vec![(0, 0); self.index.len() * 2];
            self.index = wide;
            for place in 0..self.keys.len() {
                self.put(self.keys[place], place as u32);
            }
        }
        let mask = self.index.len() - 1;
        let mut at = room.0 as usize & mask;
        loop {
            let (place, tag) = self.index[at];
            if place == 0 {
                break;
            }
            if tag == room.1 as u32 && self.keys[place as usize - 1] == room {
                return place - 1;
            }
            at = (at + 1) & mask;
        }
        let place = self.keys.len() as u32;
        self.keys.push(room);
        self.rooms.push(Room { first: self.t, last: self.t, ..Room::default() });
        self.sums.push(Sums::default());
        self.put(room, place);
        place
    }

    fn put(&mut self, room: RoomKey, place: u32) {
        let mask = self.index.len() - 1;
        let mut at = room.0 as usize & mask;
        while self.index[at].0 != 0 {
            at = (at + 1) & mask;
        }
        self.index[at] = (place + 1, room.1 as u32);
    }

    /// Closes the next slot and adds its changes.
    pub(super) fn close(&mut self, changes: &mut Vec<Change>) {
        let t = self.t;
        self.leave(t);
        self.take(t);
        self.look(t, changes);
        self.t += 1;
    }

    fn leave(&mut self, t: u32) {
        for back in [700, 100, 600, 10] {
            let Some(slot) = t.checked_sub(back) else { continue };
            let entries = &self.log[(slot % KEPT) as usize];
            for (i, entry) in entries.iter().enumerate() {
                if let Some(soon) = entries.get(i + AHEAD) {
                    ask(&self.rooms, soon.room as usize);
                    if back != 700 {
                        barrage_engine::prefetch::prefetch_whole(&self.sums, soon.room as usize);
                    }
                }
                let room = &mut self.rooms[entry.room as usize];
                let square = u64::from(entry.count) * u64::from(entry.count);
                match back {
                    700 => {
                        room.base_sum -= entry.count;
                        room.base_squares -= square;
                    }
                    100 => {
                        room.count_10s -= entry.count;
                        room.base_sum += entry.count;
                        room.base_squares += square;
                        self.sums[entry.room as usize].leave(1, entry);
                    }
                    600 => {
                        room.count_60s -= entry.count;
                        self.sums[entry.room as usize].leave(2, entry);
                    }
                    _ => {
                        room.count_1s -= entry.count;
                        self.sums[entry.room as usize].leave(0, entry);
                        (room.left, room.left_at) = (entry.count, t);
                    }
                }
            }
        }
    }

    fn take(&mut self, t: u32) {
        let at = (self.first + u64::from(t)) as usize % OPEN;
        let mut open = std::mem::replace(
            &mut self.open[at],
            Open { counts: Vec::new(), used: Vec::new(), generation: 0 },
        );
        let mut entries = std::mem::take(&mut self.log[(t % KEPT) as usize]);
        entries.clear();
        // Places first, so that the rooms' lines arrive before they are needed.
        for (i, used) in open.used.iter().enumerate() {
            if let Some(soon) = open.used.get(i + AHEAD) {
                let key = open.counts[*soon as usize].room;
                ask(&self.index, key.0 as usize & (self.index.len() - 1));
            }
            let Count { room, classes, bad, .. } = open.counts[*used as usize];
            let count = classes.iter().map(|n| u32::from(*n)).sum();
            entries.push(Entry { room: self.place(room), count, classes, bad });
        }
        open.clear();
        self.open[at] = open;
        for (i, entry) in entries.iter().enumerate() {
            if let Some(soon) = entries.get(i + AHEAD) {
                ask(&self.rooms, soon.room as usize);
                barrage_engine::prefetch::prefetch_whole(&self.sums, soon.room as usize);
            }
            let room = &mut self.rooms[entry.room as usize];
            room.event(t);
            room.count_1s += entry.count;
            room.count_10s += entry.count;
            room.count_60s += entry.count;
            room.now = entry.count;
            self.sums[entry.room as usize].take(entry);
            if room.count_60s > LISTED && !room.listed {
                room.listed = true;
                self.listed.push(entry.room);
            }
            if entry.count > SPIKE {
                self.spikes.push(entry.room);
            }
        }
        self.log[(t % KEPT) as usize] = entries;
    }

    fn look(&mut self, t: u32, changes: &mut Vec<Change>) {
        let rooms = &mut self.rooms;
        self.listed.retain(|room| {
            let room = &mut rooms[*room as usize];
            room.listed = room.count_60s > LISTED;
            room.listed
        });
        let off = std::mem::take(&mut self.on);
        for room in self.listed.iter().chain(&self.spikes).chain(&off) {
            let state = &mut rooms[*room as usize];
            let mask = state.judge(t);
            if mask != state.mask {
                state.mask = mask;
                let (room, sums) = (self.keys[*room as usize], self.sums[*room as usize]);
                changes.push(Change { room, mask, sums });
            }
        }
        let lit = |room: &&u32| rooms[**room as usize].mask != 0;
        self.on.extend(self.listed.iter().chain(&self.spikes).chain(&off).filter(lit));
        self.on.sort_unstable();
        self.on.dedup();
        self.spikes.clear();
    }
}
