//! The clock of one partition against the oracle.

use crate::oracle::{Fate, fates};
use crate::stream::{BASE, Rng, random};
use barrage_engine::control::{Config, Counters, PartitionClock, Reading};
use barrage_protocol::event::Reason;
use barrage_protocol::ids::Slot;
use std::collections::BTreeMap;

fn adds_up(c: &Counters) -> bool {
    c.read == c.in_slot + c.late + c.rejected + c.skipped + c.overflow + c.held
        && c.rejected == c.reasons.values().sum::<u64>()
}

/// How many of each fate there are, as counters.
fn tally<'a>(fates: impl Iterator<Item = &'a Fate>) -> Counters {
    let mut c = Counters::default();
    for fate in fates {
        c.read += 1;
        match fate {
            Fate::Slot(_) => c.in_slot += 1,
            Fate::Late => c.late += 1,
            Fate::Held => c.held += 1,
            Fate::Rejected(reason) => {
                c.rejected += 1;
                *c.reasons.entry(*reason).or_default() += 1;
            }
        }
    }
    c
}

fn small() -> Config {
    Config { start_need: 5, start_of: 9, parked: 4, ..Config::default() }
}

/// One seed: fates, watermarks, counters at every offset, offsets of slots.
fn one(seed: u64, broker: bool, config: &Config) {
    let mut rng = Rng(seed);
    let n = rng.range(1, 160) as usize;
    let records = random(&mut rng, n, broker);
    let mut raises = Vec::new();
    let mut clock = PartitionClock::new(0);
    let mut slots = BTreeMap::new();
    let mut crossings = Vec::new();
    for (i, record) in records.iter().enumerate() {
        if rng.percent(4) {
            // As a step does: to the end of a slot near the time that is reached.
            let ms = (BASE + rng.range(-2_000, 40_000)) / 100 * 100;
            raises.push((i, ms));
            clock.raise(ms);
            crossings.push((clock.watermark(), clock.next()));
        }
        clock.read(config, *record, &mut |slot, id: u64| {
            assert_eq!(slots.insert(id, slot.0), None, "seed {seed}: counted twice");
        });
        crossings.push((clock.watermark(), record.offset));
        let c = clock.counters();
        assert!(adds_up(c), "seed {seed}, record {i}: {c:?}");
        let (expected, watermarks) = fates(config, &records[..=i], &raises, false);
        assert_eq!(*c, tally(expected.values()), "seed {seed}, record {i}");
        assert_eq!(clock.watermark(), watermarks[i], "seed {seed}, record {i}");
    }
    let ends = rng.percent(50);
    if ends {
        clock.end(config, &mut |slot, id: u64| {
            slots.insert(id, slot.0);
        });
        assert_eq!(clock.counters().held, 0);
        assert!(adds_up(clock.counters()), "seed {seed}");
    }
    let (expected, _) = fates(config, &records, &raises, ends);
    let counted = |(id, fate): (&u64, &Fate)| match fate {
        Fate::Slot(slot) => Some((*id, *slot)),
        _ => None,
    };
    assert_eq!(slots, expected.iter().filter_map(counted).collect(), "seed {seed}");
    if !ends {
        let around = clock.watermark().unwrap_or(BASE) / 100;
        for slot in (around - 300..around + 3).map(|s| Slot(s.unsigned_abs())) {
            let passed = crossings.iter().find(|(w, _)| w.is_some_and(|w| w >= slot.end_ms()));
            let expected = passed.map_or(clock.next(), |(_, offset)| *offset);
            assert_eq!(clock.offset_at(slot), expected, "seed {seed}, slot {}", slot.0);
        }
    }
}

#[test]
fn a_partition_with_a_brokers_clock_agrees_with_the_oracle() {
    (0..400).for_each(|seed| one(seed, true, &Config::default()));
}

#[test]
fn a_partition_with_its_own_times_alone_agrees_with_the_oracle() {
    (0..300).for_each(|seed| one(seed, false, &Config::default()));
    (1_000..1_400).for_each(|seed| one(seed, false, &small()));
}

/// The streams hold what they are meant to hold: each fate, start-ups that fail at first, parked that count.
#[test]
fn the_random_streams_hold_every_fate() {
    let mut total = Counters::default();
    for seed in 0..400 {
        let mut rng = Rng(seed);
        let broker = seed % 2 == 0;
        let records = random(&mut rng, 160, broker);
        let (fates, _) = fates(&small(), &records, &[], seed % 3 == 0);
        let c = tally(fates.values());
        (total.in_slot, total.late, total.held) =
            (total.in_slot + c.in_slot, total.late + c.late, total.held + c.held);
        for (reason, n) in c.reasons {
            *total.reasons.entry(reason).or_default() += n;
        }
    }
    assert!(total.in_slot > 10_000 && total.late > 100 && total.held > 10, "{total:?}");
    for reason in [Reason::Past, Reason::Future, Reason::Outside, Reason::Json, Reason::RoomMissing]
    {
        assert!(total.reasons[&reason] > 10, "{reason:?}: {total:?}");
    }
}

fn good(n: u64, every_ms: i64, broker: bool) -> Vec<Reading<u64>> {
    (0..n)
        .map(|i| {
            let t = BASE + i as i64 * every_ms;
            Reading { offset: i, append_ms: broker.then_some(t + 20), t: Some(t), event: Ok(i) }
        })
        .collect()
}

/// Slots of the good events, and the watermark at the end.
fn read_all(records: &[Reading<u64>]) -> (BTreeMap<u64, Slot>, Option<i64>, Counters) {
    let mut clock = PartitionClock::new(0);
    let mut slots = BTreeMap::new();
    for record in records {
        clock.read(&Config::default(), *record, &mut |slot, id: u64| {
            slots.insert(id, slot);
        });
    }
    (slots, clock.watermark(), clock.counters().clone())
}

/// False clocks of 1970 and 2099 once a second, and garbage, change nothing for the good events.
#[test]
fn false_clocks_once_a_second_move_nothing() {
    for broker in [true, false] {
        let clean = good(3_000, 20, broker);
        let mut dirty = Vec::new();
        for (i, record) in clean.iter().enumerate() {
            dirty.push(Reading { offset: dirty.len() as u64, ..*record });
            let false_t = match i % 50 {
                10 => Some(5),
                30 => Some(4_070_908_800_000),
                _ => continue,
            };
            let offset = dirty.len() as u64;
            dirty.push(Reading { offset, t: false_t, event: Ok(u64::MAX), ..*record });
        }
        let (slots, watermark, counters) = read_all(&clean);
        let (dirty_slots, dirty_watermark, dirty_counters) = read_all(&dirty);
        assert_eq!(slots.len(), 3_000);
        assert_eq!((slots, watermark), (dirty_slots, dirty_watermark), "broker's clock: {broker}");
        assert_eq!(counters.rejected, 0);
        assert_eq!(dirty_counters.rejected, 120, "{dirty_counters:?}");
        // Where there is no broker's clock, the first 1970 falls into the start.
        assert_eq!(dirty_counters.reasons[&Reason::Past], if broker { 60 } else { 59 });
        assert_eq!(dirty_counters.reasons.contains_key(&Reason::Outside), !broker);
        assert_eq!(dirty_counters.reasons[&Reason::Future], 60);
    }
}

/// One record in a hundred is garbage: no good event is lost.
#[test]
fn garbage_costs_no_good_event() {
    for broker in [true, false] {
        let mut records = good(5_000, 20, broker);
        for record in records.iter_mut().step_by(100) {
            (record.t, record.event) = (None, Err(Reason::Json));
        }
        let (slots, _, counters) = read_all(&records);
        assert_eq!((slots.len(), counters.late, counters.rejected), (4_950, 0, 50));
    }
}

#[test]
fn edges_of_what_is_believed() {
    let config = Config::default();
    let fate = |t: i64, append: i64| {
        let mut clock = PartitionClock::new(0);
        let mut slot = None;
        let reading = Reading { offset: 0, append_ms: Some(append), t: Some(t), event: Ok(()) };
        clock.read(&config, reading, &mut |s, ()| slot = Some(s));
        (slot, clock.counters().reasons.keys().next().copied(), clock.watermark().unwrap())
    };
    let slot = |t: i64| Some(Slot::of_ms(t));
    for (t, expected) in [
        (BASE - 10_001, (None, Some(Reason::Past), BASE - 2_500)),
        (BASE - 10_000, (slot(BASE - 10_000), None, BASE - 2_500)),
        (BASE - 2_000, (slot(BASE - 2_000), None, BASE - 2_500)),
        (BASE - 1, (slot(BASE - 1), None, BASE - 501)),
        (BASE, (slot(BASE), None, BASE - 500)),
        (BASE + 1_000, (slot(BASE + 1_000), None, BASE - 500)),
        (BASE + 1_001, (None, Some(Reason::Future), BASE - 500)),
    ] {
        assert_eq!(fate(t, BASE), expected, "t = BASE + {}", t - BASE);
    }
    for extreme in [i64::MIN, i64::MAX] {
        let _ = (fate(extreme, BASE), fate(BASE, extreme), fate(extreme, extreme));
    }
}

#[test]
fn an_event_is_late_from_the_end_of_its_slot_on() {
    // Watermark exactly at the slot's end, and one millisecond before it.
    for (w, late) in [(BASE + 100, 1), (BASE + 99, 0)] {
        let mut clock = PartitionClock::new(0);
        let at = |offset, t| Reading { offset, append_ms: Some(t), t: Some(t), event: Ok(()) };
        clock.read(&Config::default(), at(0, w + 500), &mut |_, ()| {});
        let straggler = Reading { t: Some(BASE + 50), ..at(1, w + 500) };
        clock.read(&Config::default(), straggler, &mut |_, ()| {});
        assert_eq!(clock.counters().late, late);
    }
}

#[test]
fn offsets_met_again_are_passed_over() {
    // K01: a committed offset goes back.
    let mut clock = PartitionClock::new(0);
    let records = good(100, 20, true);
    for record in records[..60].iter().chain(&records[30..]) {
        clock.read(&Config::default(), *record, &mut |_, _| {});
    }
    let c = clock.counters();
    assert_eq!((c.read, c.in_slot, c.repeated), (100, 100, 30));
}

#[test]
fn a_clock_holds_little_however_long_it_runs() {
    for broker in [true, false] {
        let mut rng = Rng(9);
        let mut clock = PartitionClock::new(0);
        let mut largest = 0;
        for record in random(&mut rng, 20_000, broker) {
            clock.read(&Config::default(), record, &mut |_, _| {});
            // A leader closes, and reads no further than 30 s ahead.
            let closed = clock.watermark().unwrap_or(0) / 100 - 300;
            clock.forget(Slot(closed.max(0).unsigned_abs()));
            largest = largest.max(serde_json::to_string(&clock).unwrap().len());
        }
        assert!(largest < 12_000, "{largest} bytes");
    }
}
