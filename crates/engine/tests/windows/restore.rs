//! Restart: slow state at slot S, the counts of slots S − 699 … S again, then everything as if nothing had happened.

use crate::Rng;
use crate::twin::{Cell, Twin, records};
use barrage_engine::rules::Floors;
use barrage_engine::windows::{Slow, Windows};
use barrage_protocol::ids::{RoomKey, Slot};
use std::collections::BTreeMap;

const FLOORS: Floors = Floors { count_60s: 100, count_100ms: 20, surge_c: Some(8) };

fn slot_of(seed: u64, t: u64, keys: &[RoomKey]) -> BTreeMap<RoomKey, Cell> {
    let mut counts = BTreeMap::new();
    for (i, key) in keys.iter().enumerate() {
        // Each room has its own rhythm of talk and silence, a function of seed and slot alone.
        let mut rng = Rng(seed ^ (i as u64) << 32 ^ t);
        let (talk, rest) = ([900, 200, 40, 2_500][i % 4], [30, 80, 800, 6_100][(i / 4) % 4]);
        let busy = (t + 37 * i as u64) % (talk + rest) < talk;
        if busy && rng.chance([3, 20, 60, 90][(i / 2) % 4]) {
            let mut cell = Cell { partitions: 1 << (i % 4), ..Cell::default() };
            cell.classes[(i + t as usize) % 6] = 1 + rng.below([2, 5, 400][i % 3]);
            cell.bad[i % 4] = rng.below(2);
            counts.insert(*key, cell);
        }
    }
    counts
}

/// Rooms with windows, silent ones, held ones, one in a surge; the restored windows and the undisturbed twin agree on.
#[test]
fn a_restored_room_is_the_room() {
    for seed in 0..12u64 {
        let mut rng = Rng(seed);
        let keys: Vec<RoomKey> = (0..16).map(|i| RoomKey::of(&format!("room {i}"))).collect();
        let start = 1_000_000 + rng.below(100);
        let (mut windows, mut twin) = (Windows::new(Slot(start)), Twin::new(start));
        windows.set_floors(FLOORS);
        let (mut due, end) = (Vec::new(), start + 2_000 + rng.below(5_000));
        for t in start..=end {
            let counts = slot_of(seed, t, &keys);
            windows.close(&records(&counts, &mut rng), &mut due);
            twin.close(&counts);
            let key = keys[rng.below(16) as usize];
            if t + 60 > end && twin.rooms.contains_key(&key) && twin.surge(key).is_none() {
                twin.toggle(&mut windows, key, 2, true);
            }
            if t + 30 > end && twin.rooms.contains_key(&key) {
                twin.toggle(&mut windows, key, 1, true);
            }
        }
        let kept: Vec<(RoomKey, Slow)> =
            windows.rooms().map(|i| (windows.key(i), windows.export(i))).collect();
        let text = serde_json::to_string(&kept).expect("slow state is plain data");
        let kept: Vec<(RoomKey, Slow)> = serde_json::from_str(&text).expect("and comes back");

        let mut again = Windows::new(Slot(end - 699));
        again.set_floors(FLOORS);
        // One room has counts but no slow state: it had been forgotten.
        let ghost = RoomKey::of("ghost");
        for t in end - 699..=end {
            let mut counts = slot_of(seed, t, &keys);
            if t < end - 40 {
                counts.insert(ghost, Cell { classes: [0, 0, 0, 0, 30, 0], ..Cell::default() });
            }
            again.close(&records(&counts, &mut rng), &mut due);
        }
        for (key, slow) in &kept {
            let idx = again.import(*key, "name", slow);
            if twin.held(*key) {
                again.hold(idx, true);
            }
        }
        again.retain_imported();
        assert_eq!(again.find(ghost), None, "seed {seed}");
        for (key, slow) in &kept {
            let idx = again.find(*key).expect("imported");
            assert_eq!(again.export(idx), *slow, "seed {seed}: export after import");
            assert_eq!(again.room(idx), "name");
        }
        for t in end + 1..end + 7_500 {
            let counts = slot_of(seed, t, &keys);
            again.close(&records(&counts, &mut rng), &mut due);
            twin.close(&counts);
            if t % 53 == 0 || (t + 1) % 100 == 0 || !twin.forgotten.is_empty() {
                twin.compare(&mut again, &due, &FLOORS, &format!("seed {seed}"));
            }
            if t == end + 6_500 {
                for key in
                    keys.iter().filter(|k| twin.rooms.contains_key(k)).copied().collect::<Vec<_>>()
                {
                    if twin.held(key) {
                        twin.toggle(&mut again, key, 1, false);
                    }
                }
            }
        }
    }
}
