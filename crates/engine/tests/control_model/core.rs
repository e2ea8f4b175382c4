//! A toy that decides: few rooms, short windows, and slow state that depends on everything it was told.

use barrage_protocol::control::{Control, Record};
use barrage_protocol::ids::Slot;
use std::collections::{BTreeMap, BTreeSet};

/// Rooms of the model.
pub(crate) const ROOMS: usize = 3;
/// Slots that the toy looks back.
pub(crate) const WINDOW: u64 = 12;

/// Events of open slots and of the windows, by slot and room.
pub(crate) type Counts = BTreeMap<Slot, [u64; ROOMS]>;

/// Counts one event.
pub(crate) fn count(counts: &mut Counts) -> impl FnMut(u32, Slot, u8) + '_ {
    |_, slot, room| counts.entry(slot).or_default()[usize::from(room)] += 1
}

/// Splitmix64's mixing step.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn hash(a: u64, b: u64) -> u64 {
    mix(a.rotate_left(17) ^ b.wrapping_mul(0xD6E8_FEB8_6659_FD93) ^ 0x0123_4567)
}

#[derive(Clone, Debug, Default)]
struct Room {
    level: u64,
    since: u64,
    leave: u64,
    frozen: Option<u64>,
    life: u64,
    moves: u64,
}

/// Slow state and hash of a slot: what a checkpoint holds of the toy.
#[derive(Clone, Debug)]
pub(crate) struct Slow {
    rooms: Vec<Room>,
    pub(crate) hash: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Core {
    pub(crate) counts: Counts,
    next: Slot,
    rules: u64,
    absent: BTreeSet<u32>,
    slow: Slow,
    /// Closed without deciding up to this slot, then this is taken.
    quiet: Option<(Slot, Slow)>,
}

impl Core {
    pub(crate) fn new() -> Self {
        Self {
            counts: BTreeMap::new(),
            next: Slot(0),
            rules: 0,
            absent: BTreeSet::new(),
            slow: Slow { rooms: vec![Room::default(); ROOMS], hash: 7 },
            quiet: None,
        }
    }

    /// Rebuilds its windows from the slot after `base`, and takes `slow` at `slot`.
    pub(crate) fn restore(base: Slot, slot: Slot, slow: Slow) -> Self {
        let mut core = Self::new();
        core.next = base.next();
        if base >= slot {
            core.slow = slow;
        } else {
            core.quiet = Some((slot, slow));
        }
        core
    }

    pub(crate) fn slow(&self) -> Slow {
        self.slow.clone()
    }

    pub(crate) fn hash(&self) -> String {
        format!("{:016x}", self.slow.hash)
    }

    pub(crate) fn take(&mut self, record: &Record) {
        match &record.control {
            Control::Start { levels, .. } => {
                let counts = std::mem::take(&mut self.counts);
                let rules = self.rules;
                *self = Self::new();
                self.counts = counts;
                self.rules = rules;
                self.next = record.from;
                self.slow.hash = hash(record.from.0, 99);
                for (room, level) in levels {
                    let i: usize = room.parse().unwrap();
                    self.slow.rooms[i].level = u64::from(level.0);
                    self.slow.rooms[i].since = record.from.0;
                }
            }
            Control::Absent { partition } => {
                self.absent.insert(*partition);
            }
            Control::Back { partition } => {
                self.absent.remove(partition);
            }
            Control::Rules { hash, .. } => self.rules = hash.parse().unwrap(),
            Control::Rebase { room, .. } => {
                self.slow.rooms[room.parse::<usize>().unwrap()].frozen = None;
            }
            Control::Partitions { .. } | Control::Skip { .. } | Control::Unknown => {}
        }
    }

    /// Closes the next slot; a digest of what was decided, with the evidence, unless it only rebuilds.
    pub(crate) fn close(&mut self, offsets: &BTreeMap<u32, u64>) -> (Slot, Option<u64>) {
        let slot = self.next;
        self.next = slot.next();
        let decided = match self.quiet.take() {
            Some((to, slow)) if slot == to => {
                self.slow = slow;
                None
            }
            Some(quiet) => {
                self.quiet = Some(quiet);
                None
            }
            None => Some(self.decide(slot, offsets)),
        };
        self.counts = self.counts.split_off(&slot.minus(WINDOW));
        (slot, decided)
    }

    fn decide(&mut self, slot: Slot, offsets: &BTreeMap<u32, u64>) -> u64 {
        let t = slot.0;
        let mut digest = hash(t, self.rules);
        for (p, offset) in offsets {
            digest = hash(hash(digest, u64::from(*p)), *offset);
        }
        for p in &self.absent {
            digest = hash(digest, 1_000 + u64::from(*p));
        }
        for (r, room) in self.slow.rooms.iter_mut().enumerate() {
            let c = |back: u64| self.counts.get(&slot.minus(back)).map_or(0, |c| c[r]);
            let fast: u64 = (0..3).map(c).sum();
            let base: u64 = (3..WINDOW).map(c).sum();
            if room.life == 0 && fast > 0 {
                room.life = t;
            }
            if self.absent.is_empty() {
                if fast * 3 > room.frozen.unwrap_or(base) + 4 + self.rules {
                    if room.level < 3 && t - room.since >= 2 {
                        (room.level, room.since, room.moves) = (room.level + 1, t, room.moves + 1);
                    }
                    room.leave = 0;
                    room.frozen = room.frozen.or(Some(base));
                } else {
                    room.leave += 1;
                }
                if room.level > 0 && room.leave >= 8 && t - room.since >= 5 {
                    (room.level, room.since) = (room.level - 1, t);
                }
                if room.level == 0 && t - room.since > WINDOW {
                    room.frozen = None;
                }
            }
            let frozen = room.frozen.unwrap_or(u64::MAX);
            for x in [
                c(0),
                fast,
                base,
                frozen,
                room.level,
                room.since,
                room.leave,
                room.life,
                room.moves,
            ] {
                digest = hash(digest, x);
            }
        }
        self.slow.hash = hash(self.slow.hash, digest);
        digest
    }
}
