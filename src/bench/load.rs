//! The load of `bench core`: events in memory as ingest hands them on, the same for the same seed, made slot by slot.

use barrage_protocol::ids::{Class, Outcome, RoomKey, SLOT_MS, Slot};

/// One event, as the clocks let it through: 32 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// Hash of the room's id.
    pub room: RoomKey,
    /// Event time in milliseconds.
    pub t: i64,
    /// Class.
    pub class: Class,
    /// Outcome.
    pub outcome: Outcome,
}

/// Shape of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Rooms at a time.
    pub rooms: u32,
    /// Events in a slot.
    pub per_slot: usize,
    /// Slots after which other rooms take the places of all; 0: never.
    pub churn: u64,
}

/// Rooms by Zipf's law (rank k with a share of 1/k), six classes, and bursts that move from room to room.
#[derive(Debug)]
pub struct Load {
    shape: Shape,
    keys: Vec<RoomKey>,
    /// Which rooms those are: counted up with each change of all rooms.
    era: u64,
    /// Rooms born since they were last asked for.
    names: Vec<(RoomKey, Box<str>)>,
    alias: Vec<(u32, u32)>,
    state: u64,
}

/// Rooms that burst at a time, and the part of the events that they get together: one in so many.
const BURSTS: usize = 50;
const BURST_SHARE: usize = 10;
/// Slots for which they do, of so many slots.
const BURST: (u64, u64) = (100, 200);
/// Part of a slot's events that make a micro-burst once a second: one in so many.
const SPIKE_SHARE: usize = 40;
/// One event in so many comes a slot late, which the lateness allows.
const LATE_SHARE: u64 = 16;

impl Load {
    /// A load of that shape.
    #[must_use]
    pub fn new(shape: Shape, seed: u64) -> Self {
        let alias = alias(shape.rooms as usize);
        let (keys, names) = (Vec::new(), Vec::new());
        let mut load = Self { shape, keys, era: 0, names, alias, state: seed };
        load.rename();
        load
    }

    /// Rooms that have come in since the last call, with their ids.
    pub fn names(&mut self) -> Vec<(RoomKey, Box<str>)> {
        std::mem::take(&mut self.names)
    }

    fn rename(&mut self) {
        let id = |rank: u32| format!("r{}_{rank}", self.era).into_boxed_str();
        self.names = (0..self.shape.rooms).map(id).map(|id| (RoomKey::of(&id), id)).collect();
        self.keys = self.names.iter().map(|(key, _)| *key).collect();
    }

    /// The events read while slot `first + slot` is open, in no order of rooms; slots are asked for one after another.
    /// The last events of a slot come with the next one.
    pub fn slot(&mut self, first: Slot, slot: u64, out: &mut Vec<Event>) {
        let era = slot.checked_div(self.shape.churn).unwrap_or(0);
        if era != self.era {
            self.era = era;
            self.rename();
        }
        let base = (first.0 + slot) * SLOT_MS;
        let per_slot = self.shape.per_slot;
        let hot = if slot % BURST.1 < BURST.0 { per_slot / BURST_SHARE } else { 0 };
        let spike = if slot.is_multiple_of(10) { per_slot / SPIKE_SHARE } else { 0 };
        for i in 0..per_slot {
            let dice = self.next();
            let rank = if i < hot {
                self.ordinary(slot / BURST.1 * BURSTS as u64 + (dice >> 8) % BURSTS as u64)
            } else if i < hot + spike {
                self.ordinary(slot.wrapping_mul(7_919))
            } else {
                self.ranked()
            };
            let late = slot > 0 && dice >> 33 & 0xff < 256 / LATE_SHARE;
            let t = (base + dice % SLOT_MS - if late { SLOT_MS } else { 0 }) as i64;
            out.push(event(self.keys[rank], t, dice >> 41));
        }
        self.shuffle(out);
    }

    /// A room in the middle of the field.
    fn ordinary(&self, salt: u64) -> usize {
        let rooms = self.keys.len() as u64;
        ((rooms / 20 + salt.wrapping_mul(0x9e37_79b9) % 1_000_003) % rooms) as usize
    }

    /// A rank by Zipf's law.
    fn ranked(&mut self) -> usize {
        let dice = self.next();
        let column = (((dice >> 32) * self.alias.len() as u64) >> 32) as usize;
        let (threshold, other) = self.alias[column];
        if (dice as u32) < threshold { column } else { other as usize }
    }

    /// Bursts do not come in a row.
    fn shuffle(&mut self, events: &mut [Event]) {
        for i in (1..events.len()).rev() {
            let j = ((self.next() >> 32) * (i as u64 + 1)) >> 32;
            events.swap(i, j as usize);
        }
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

fn event(room: RoomKey, t: i64, dice: u64) -> Event {
    let class = match dice % 100 {
        0 => Class::System,
        1..=2 => Class::Broadcast,
        3..=12 => Class::Gift,
        13..=19 => Class::Command,
        20..=89 => Class::Chat,
        _ => Class::Heartbeat,
    };
    let outcome = match (dice >> 8) % 100 {
        0 => Outcome::Error,
        1 => Outcome::Timeout,
        2 => Outcome::Rejected,
        _ => Outcome::Ok,
    };
    Event { room, t, class, outcome }
}

/// Walker's alias table of the weights 1/k: a draw costs two numbers, however many rooms there are.
fn alias(n: usize) -> Vec<(u32, u32)> {
    let sum: f64 = (1..=n).map(|k| 1.0 / k as f64).sum();
    let mut weights: Vec<f64> = (1..=n).map(|k| n as f64 / (k as f64 * sum)).collect();
    let mut table = vec![(u32::MAX, 0); n];
    // Weights fall: those above 1 stand in front, and the ones behind are filled up from them.
    let mut rich = 0;
    for poor in (0..n).rev() {
        if weights[poor] >= 1.0 || rich >= poor {
            continue;
        }
        table[poor] = ((weights[poor] * f64::from(u32::MAX)) as u32, rich as u32);
        weights[rich] -= 1.0 - weights[poor];
        // One that has become poor itself is filled up from the next.
        while rich + 1 < poor && weights[rich] < 1.0 {
            let next = rich + 1;
            table[rich] = ((weights[rich] * f64::from(u32::MAX)) as u32, next as u32);
            weights[next] -= 1.0 - weights[rich];
            rich = next;
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn ranks_follow_zipf() {
        let shape = Shape { rooms: 50, per_slot: 0, churn: 0 };
        let mut load = Load::new(shape, 1);
        let mut seen = [0u32; 50];
        for _ in 0..1_000_000 {
            seen[load.ranked()] += 1;
        }
        let sum: f64 = (1..=50).map(|k| 1.0 / f64::from(k)).sum();
        for (k, n) in (1..).zip(seen) {
            let expected = 1_000_000.0 / (f64::from(k) * sum);
            assert!(
                (f64::from(n) - expected).abs() < 6.0 * expected.sqrt(),
                "rank {k}: {n}, {expected}"
            );
        }
    }

    #[test]
    fn a_slot_has_its_events_and_the_same_seed_the_same_ones() {
        let shape = Shape { rooms: 2_000, per_slot: 5_000, churn: 100 };
        let (mut a, mut b) = (Load::new(shape, 3), Load::new(shape, 3));
        assert_eq!(a.names().len(), 2_000);
        let mut rooms = BTreeMap::<RoomKey, u32>::new();
        for slot in 0..200 {
            let (mut x, mut y) = (Vec::new(), Vec::new());
            a.slot(Slot(1_000), slot, &mut x);
            b.slot(Slot(1_000), slot, &mut y);
            assert_eq!(x.len(), 5_000);
            for (e, f) in x.iter().zip(&y) {
                assert_eq!((e.room, e.t, e.class, e.outcome), (f.room, f.t, f.class, f.outcome));
                let behind = (1_000 + slot) as i64 - e.t / SLOT_MS as i64;
                assert!((0..=1).contains(&behind), "slot {slot}: {e:?}");
                *rooms.entry(e.room).or_default() += 1;
            }
        }
        assert!(rooms.len() > 2_000, "other rooms in the second hundred slots");
        assert_eq!(a.names().len(), 2_000);
    }
}
