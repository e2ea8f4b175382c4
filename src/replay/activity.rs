//! Rooms by heat, with their rate over time, in bounded memory.

use barrage_engine::precount::Record;
use barrage_protocol::ids::{RoomKey, Slot};
use std::collections::HashMap;

/// Most rooms that are told apart; further ones are only counted together.
const ROOMS: usize = 2_000_000;
/// A room's curve is kept from this many events on; what came before would not be seen in it.
const CURVE_FROM: u64 = 64;
/// Points of a curve.
pub const POINTS: usize = 48;
/// Slots of a block: the peak is the fullest one.
const BLOCK: u64 = 100;

/// What is kept of one room.
#[derive(Clone, Debug)]
struct Room {
    key: RoomKey,
    name: Option<Box<str>>,
    events: u64,
    block: u64,
    in_block: u64,
    peak: u64,
    curve: Option<Box<Curve>>,
}

/// Events per point; a point is `width` slots.
#[derive(Clone, Debug)]
struct Curve {
    width: u64,
    points: [u32; POINTS],
}

impl Curve {
    /// Doubles the width until it is that of all.
    fn widen(&mut self, width: u64) {
        while self.width < width {
            for i in 0..POINTS {
                let pair = [2 * i, 2 * i + 1].map(|j| self.points.get(j).copied().unwrap_or(0));
                self.points[i] = pair[0].saturating_add(pair[1]);
            }
            self.width *= 2;
        }
    }
}

/// A room as the summary shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hot {
    /// The room's id.
    pub room: String,
    /// Its events.
    pub events: u64,
    /// Events of its fullest block of ten seconds.
    pub peak_10s: u64,
    /// Events per point of time, from the first slot of the run to the last.
    pub curve: Vec<u32>,
}

/// Events of all rooms, slot by slot.
#[derive(Clone, Debug)]
pub struct Activity {
    index: HashMap<RoomKey, u32>,
    rooms: Vec<Room>,
    first: Option<Slot>,
    last: Slot,
    width: u64,
    events: u64,
    /// Events of rooms that are not told apart.
    pub beyond: u64,
}

impl Default for Activity {
    fn default() -> Self {
        Self {
            index: HashMap::new(),
            rooms: Vec::new(),
            first: None,
            last: Slot(0),
            width: 1,
            events: 0,
            beyond: 0,
        }
    }
}

impl Activity {
    /// Takes in the counts of one partition in a slot about to close. Slots come in order.
    pub fn counts(&mut self, slot: Slot, records: &[Record], names: &[(RoomKey, Box<str>)]) {
        let first = *self.first.get_or_insert(slot);
        self.last = self.last.max(slot);
        while slot.0.saturating_sub(first.0) / self.width >= POINTS as u64 {
            self.width *= 2;
        }
        let point = (slot.0.saturating_sub(first.0) / self.width) as usize;
        for record in records {
            let count: u64 = record.classes.iter().map(|c| u64::from(*c)).sum();
            self.events += count;
            match self.room(record.room) {
                Some(room) => self.rooms[room].add(slot, count, self.width, point),
                None => self.beyond += count,
            }
        }
        for (key, name) in names {
            if let Some(room) = self.room(*key) {
                self.rooms[room].name.get_or_insert_with(|| name.clone());
            }
        }
    }

    fn room(&mut self, key: RoomKey) -> Option<usize> {
        if let Some(at) = self.index.get(&key) {
            return Some(*at as usize);
        }
        if self.rooms.len() >= ROOMS {
            return None;
        }
        self.index.insert(key, u32::try_from(self.rooms.len()).ok()?);
        self.rooms.push(Room {
            key,
            name: None,
            events: 0,
            block: 0,
            in_block: 0,
            peak: 0,
            curve: None,
        });
        Some(self.rooms.len() - 1)
    }

    /// Rooms told apart.
    #[must_use]
    pub fn rooms(&self) -> usize {
        self.rooms.len()
    }

    /// Events counted.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The first and the last slot that held an event.
    #[must_use]
    pub fn span(&self) -> Option<(Slot, Slot)> {
        self.first.map(|first| (first, self.last))
    }

    /// The `n` rooms with the fullest ten seconds, fullest first; ties by events, then by id.
    #[must_use]
    pub fn hottest(&self, n: usize) -> Vec<Hot> {
        let mut order: Vec<&Room> = self.rooms.iter().collect();
        let key = |r: &&Room| (std::cmp::Reverse((r.peak, r.events)), r.name.clone(), r.key);
        order.sort_by_cached_key(key);
        let points = self.span().map_or(0, |(first, last)| (last.0 - first.0) / self.width + 1);
        let hot = |room: &&Room| {
            let mut curve = vec![0; (points as usize).min(POINTS)];
            if let Some(kept) = &room.curve {
                let mut kept = kept.clone();
                kept.widen(self.width);
                curve.iter_mut().zip(kept.points).for_each(|(out, n)| *out = n);
            }
            Hot {
                room: room.name.as_deref().unwrap_or("?").to_owned(),
                events: room.events,
                peak_10s: room.peak,
                curve,
            }
        };
        order.iter().take(n).map(hot).collect()
    }
}

impl Room {
    fn add(&mut self, slot: Slot, count: u64, width: u64, point: usize) {
        self.events += count;
        if self.block != slot.0 / BLOCK {
            self.block = slot.0 / BLOCK;
            self.in_block = 0;
        }
        self.in_block += count;
        self.peak = self.peak.max(self.in_block);
        if self.events < CURVE_FROM {
            return;
        }
        let fresh = || Box::new(Curve { width, points: [0; POINTS] });
        let curve = self.curve.get_or_insert_with(fresh);
        curve.widen(width);
        if let Some(n) = curve.points.get_mut(point) {
            *n = n.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(room: &str, count: u16) -> Record {
        Record { room: RoomKey::of(room), classes: [0, 0, 0, 0, count, 0], ..Record::default() }
    }

    #[test]
    fn the_hottest_are_those_with_the_fullest_ten_seconds() {
        let mut activity = Activity::default();
        let names: Vec<_> = ["a", "b"].iter().map(|r| (RoomKey::of(r), Box::from(*r))).collect();
        for n in 0..10_000_u64 {
            let mut records = vec![record("a", 2)];
            if (5_000..5_100).contains(&n) {
                records.push(record("b", 10));
            }
            activity.counts(Slot(1_000 + n), &records, if n == 0 { &names } else { &[] });
        }
        let hot = activity.hottest(5);
        assert_eq!(hot.len(), 2);
        let short: Vec<_> = hot.iter().map(|h| (h.room.as_str(), h.events, h.peak_10s)).collect();
        assert_eq!(short, [("b", 1_000, 1_000), ("a", 20_000, 200)]);
        assert_eq!(activity.events(), 21_000);
        // 10,000 slots in points of 256: 40 of them, the last one short.
        assert_eq!(hot[1].curve.len(), 40);
        assert_eq!(hot[1].curve[20], 512);
        assert_eq!(hot[1].curve[39], 2 * (10_000 - 39 * 256));
        let outside: u32 =
            hot[0].curve.iter().enumerate().filter(|(i, _)| *i != 19).map(|c| c.1).sum();
        assert!(outside == 0 && hot[0].curve[19] > 900, "{:?}", hot[0].curve);
    }
}
