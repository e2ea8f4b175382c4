//! Random streams: silences of all lengths, huge counts, churn, floors moved in mid-flight, surges toggled.

use crate::Rng;
use crate::twin::{Cell, Twin, records};
use barrage_engine::rules::Floors;
use barrage_engine::windows::Windows;
use barrage_protocol::ids::{CLASSES, RoomKey, Slot};
use std::collections::BTreeMap;

/// How one room behaves for a while.
#[derive(Clone, Copy)]
struct Mood {
    /// Percent of slots with events.
    busy: u64,
    /// Events per class at most.
    most: u64,
    /// The mood holds until this slot.
    until: u64,
}

fn mood(rng: &mut Rng, t: u64) -> Mood {
    let lengths = [20, 49, 50, 51, 60, 120, 300, 699, 700, 701, 1_500, 5_990, 6_000, 6_010, 7_000];
    let until = t + 1 + lengths[rng.below(lengths.len() as u64) as usize] - rng.below(3).min(1);
    let (busy, most) = match rng.below(8) {
        0..=2 => (0, 0),
        3 => (2, 1),
        4 => (30, 2),
        5 => (80, 4),
        6 => (95, 40),
        _ => (10, 200_000),
    };
    // A room that thunders does so shortly, else the case takes long.
    let until = if busy > 50 { until.min(t + 800) } else { until };
    Mood { busy, most, until }
}

fn floors(rng: &mut Rng) -> Floors {
    Floors {
        count_60s: [0, 10, 100, 1_500, 40_000][rng.below(5) as usize],
        count_100ms: [3, 20, 100, u32::MAX][rng.below(4) as usize],
        surge_c: [None, Some(0), Some(3), Some(8)][rng.below(4) as usize],
    }
}

fn cell(rng: &mut Rng, most: u64) -> Cell {
    let mut cell = Cell { partitions: 1 << rng.below(3), ..Cell::default() };
    let class = rng.below(CLASSES as u64) as usize;
    cell.classes[class] = 1 + rng.below(most);
    if rng.chance(30) {
        cell.classes[(class + 1) % CLASSES] = rng.below(most + 1);
    }
    let mut left: u64 = cell.classes.iter().sum();
    if rng.chance(20) {
        for bad in &mut cell.bad {
            *bad = rng.below(left + 1).min(left);
            left -= *bad;
        }
    }
    cell
}

/// One stream; `every`: the recount of all rooms is compared in every so many slots (and around what is delicate).
fn stream(seed: u64, rooms: u64, slots: u64, every: u64) {
    let case = format!("seed {seed}, {rooms} rooms");
    let mut rng = Rng(seed);
    let start = [0, 1, 99, 5_000, 17_000_000_000][rng.below(5) as usize] + rng.below(200);
    let (mut windows, mut twin) = (Windows::new(Slot(start)), Twin::new(start));
    let mut held = floors(&mut rng);
    windows.set_floors(held);
    let keys: Vec<RoomKey> = (0..rooms).map(|i| RoomKey::of(&format!("room {i}"))).collect();
    for (i, key) in keys.iter().enumerate() {
        windows.name(*key, &format!("room {i}"));
    }
    let mut moods = vec![Mood { busy: 0, most: 0, until: 0 }; keys.len()];
    let mut due = Vec::new();
    for t in start..start + slots {
        let mut counts = BTreeMap::new();
        for (key, now) in keys.iter().zip(&mut moods) {
            if t >= now.until {
                *now = mood(&mut rng, t);
            }
            if rng.chance(now.busy) {
                counts.insert(*key, cell(&mut rng, now.most));
            }
        }
        if rng.chance(1) {
            held = floors(&mut rng);
            windows.set_floors(held);
        }
        let records = records(&counts, &mut rng);
        windows.close(&records, &mut due);
        twin.close(&counts);
        let delicate = rooms < 10 && !(twin.forgotten.is_empty() && twin.born.is_empty());
        for idx in windows.born().to_vec() {
            let group = (windows.key(idx).1 % 3) as u16;
            windows.set_group(idx, group);
            twin.rooms.get_mut(&windows.key(idx)).expect("born in both").group = group;
        }
        if delicate || t % every == 0 || (t + 1) % 100 < 2 && rooms < 10 {
            twin.compare(&mut windows, &due, &held, &case);
        }
        control(&mut twin, &mut windows, &keys, &mut rng);
    }
}

/// What a controller does now and then; a surge lasts at least 10 s, a held room is let go some day.
fn control(twin: &mut Twin, windows: &mut Windows, keys: &[RoomKey], rng: &mut Rng) {
    let key = keys[rng.below(keys.len() as u64) as usize];
    if !rng.chance(5) || !twin.rooms.contains_key(&key) {
        return;
    }
    let what = rng.below(3);
    let on = match what {
        0 => !twin.rooms[&key].pinned,
        1 => !twin.held(key),
        _ => match twin.surge(key) {
            Some(since) if twin.next - since < 100 => return,
            Some(_) => false,
            None => true,
        },
    };
    twin.toggle(windows, key, what, on);
}

/// Some rooms, up to every slot recounted.
#[test]
fn equals_the_recount_at_every_slot() {
    for seed in 0..160 {
        stream(seed, 1 + seed % 5, 1_700, 1 + seed % 7);
    }
}

/// Long enough to forget and to be born again.
#[test]
fn equals_the_recount_over_forgetting() {
    for seed in 1_000..1_040 {
        stream(seed, 2, 14_000, 31);
    }
}

/// Thousands of rooms that come and go.
#[test]
fn equals_the_recount_with_thousands_of_rooms() {
    for seed in 2_000..2_003 {
        stream(seed, 2_000, 900, 171);
    }
}
