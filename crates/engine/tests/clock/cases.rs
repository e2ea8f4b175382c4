//! Reported faults of systems like ours, under their ids: T02, T03, T04, T09. The files are read where they stand
//! (`BARRAGE_SHARED`, else `../shared` beside the workspace).

use crate::leading::Alone;
use barrage_engine::control::{Config, PartitionClock, Reading};
use barrage_protocol::event::{self, Reason};
use barrage_protocol::ids::Slot;
use serde_json::Value;
use std::path::PathBuf;

/// T0 of the cases.
const T0: i64 = 1_700_000_000_000;

/// The records of a case, without its header; nothing where there are no recorded inputs (never so in CI).
fn case(name: &str) -> Option<Vec<Value>> {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let shared = std::env::var_os("BARRAGE_SHARED").map_or(here, PathBuf::from);
    let Ok(text) = std::fs::read_to_string(shared.join("cases").join(name)) else {
        assert!(
            std::env::var_os("CI").is_none_or(|ci| ci != "true"),
            "{name}: no recorded streams at {shared:?}"
        );
        println!("not run: no recorded streams");
        return None;
    };
    Some(text.lines().skip(1).map(|l| serde_json::from_str(l).unwrap()).collect())
}

fn int(row: &Value, key: &str) -> i64 {
    row[key].as_i64().unwrap()
}

/// T02: 41 events from the future, up to 50 days, and 4 from the past, at the very beginning. The header counts with
/// 60 s of lateness and asks for 255 or 256 accepted; the design's 10 s and 1 s give 255, the first of the past ones
/// being told by the broker's clock.
#[test]
fn t02_one_event_from_the_future_makes_no_other_late() {
    let Some(rows) = case("T02-future-event-poisons-watermark.jsonl") else { return };
    let mut clock = PartitionClock::new(0);
    let mut counted = 0;
    for (offset, row) in (0..).zip(&rows) {
        let append_ms = Some(int(row, "true_ts"));
        let reading = Reading { offset, append_ms, t: Some(int(row, "ts")), event: Ok(()) };
        clock.read(&Config::default(), reading, &mut |_, ()| counted += 1);
        assert!(clock.watermark().unwrap() <= int(row, "true_ts") - 500, "moved by a false clock");
    }
    let c = clock.counters();
    assert_eq!((c.reasons[&Reason::Future], c.reasons[&Reason::Past]), (41, 4));
    assert_eq!((c.in_slot, counted, c.late), (255, 255, 0));
}

/// T02 without a broker's clock: of the first 40 rows none agree (they lie days apart), so that the clock starts with
/// the 20th of the good ones, and those of the false that are still held are rejected.
#[test]
fn t02_without_a_brokers_clock() {
    let Some(rows) = case("T02-future-event-poisons-watermark.jsonl") else { return };
    let mut clock = PartitionClock::new(0);
    for (offset, row) in (0..).zip(&rows) {
        let reading = Reading { offset, append_ms: None, t: Some(int(row, "ts")), event: Ok(()) };
        clock.read(&Config::default(), reading, &mut |_, ()| {});
    }
    let c = clock.counters();
    assert_eq!((c.in_slot, c.late, c.reasons[&Reason::Outside]), (255, 0, 45));
}

/// Feeds rows as they arrive, the arrival being the broker's clock and the monotonic one, and goes on to `until`;
/// `closed` sees how far slots are closed at each instant.
fn arrivals(rows: &[Value], partitions: u32, until: i64, mut closed: impl FnMut(i64, &Alone)) {
    let mut alone = Alone::new(partitions, T0);
    let mut rows = rows.iter().filter(|r| r.get("arrive_ms").is_some()).peekable();
    let mut next = vec![0; partitions as usize];
    for now in (T0..=until).step_by(10) {
        alone.turn(now);
        let mut due = Vec::new();
        while let Some(row) = rows.next_if(|r| int(r, "arrive_ms") <= now) {
            due.push(row);
        }
        for row in due {
            let p = int(row, "part") as u32;
            let t = Some(int(row, "ts"));
            let offset = next[p as usize];
            next[p as usize] += 1;
            assert!(alone.leader.can_read(p) || offset > 0);
            alone.read(p, &[Reading { offset, append_ms: Some(now), t, event: Ok(offset) }]);
        }
        (0..partitions).for_each(|p| alone.leader.answered(p, now, true));
        alone.close(now);
        closed(now, &alone);
    }
}

/// T03: partition 1 falls silent after 5 s, partition 2 never says anything. The header allows 3 s of idleness and
/// asks for room r1's windows (to 59.9 s) by 65 s; with the design's 1 s they close within 2 s of the last event, and
/// before that slots never lag by more than the disorder allowed once the silent are idle.
#[test]
fn t03_a_silent_partition_does_not_hold_back_the_others() {
    let Some(rows) = case("T03-idle-partition.jsonl") else { return };
    let mut done = None;
    arrivals(&rows, 3, T0 + 65_000, |now, alone| {
        let closed = alone.leader.last_closed().map_or(T0, Slot::end_ms);
        if (T0 + 10_000..T0 + 59_900).contains(&now) {
            assert!(closed >= now - 800, "at {} closed {}", now - T0, closed - T0);
        }
        if closed >= T0 + 60_000 && done.is_none() {
            done = Some(now - T0);
        }
        if now == T0 + 65_000 {
            let r1 = alone.counted.keys().filter(|(p, _)| *p == 0).count();
            assert_eq!((r1, alone.leader.counters(0).unwrap().late), (600, 0));
        }
    });
    let done = done.expect("r1's windows close");
    assert!((60_900..=62_000).contains(&done), "{done}");
}

/// T04: a burst, then silence for 220 s. Slots go on closing by the monotonic clock, so that whoever counts slots
/// comes to rest: here a level that stands while 10 s hold more than 200 events and leaves after 10 s below.
#[test]
fn t04_slots_go_on_closing_when_all_is_silent() {
    let Some(rows) = case("T04-all-idle-recovery.jsonl") else { return };
    let until = rows.last().map(|r| int(r, "_tick_to_ms")).unwrap();
    assert_eq!(until, T0 + 300_000);
    let (mut level, mut highest, mut calm, mut at) = (0, 0, 0, Slot::of_ms(T0));
    arrivals(&rows, 1, until, |now, alone| {
        let Some(closed) = alone.leader.last_closed() else { return };
        while at <= closed {
            let window = at.minus(99)..=at;
            let n = alone.counted.values().filter(|s| window.contains(s)).count();
            calm = if n > 200 { 0 } else { calm + 1 };
            level = if n > 200 {
                1
            } else if calm >= 100 {
                0
            } else {
                level
            };
            highest = highest.max(level);
            at = at.next();
        }
        if now == until {
            // A second until it is idle, half a second of disorder, not more, however long the silence.
            assert!(closed.end_ms() >= until - 2_000, "{}", closed.end_ms() - T0);
            assert_eq!(alone.leader.counters(0).unwrap().late, 0);
        }
    });
    assert_eq!((highest, level), (1, 0));
}

/// T09: missing, zero, negative and sentinel times, as parsed: none is in a window, all nine are dead letters, and
/// they do not stop the partition's clock.
#[test]
fn t09_times_that_are_none() {
    let Some(rows) = case("T09-missing-zero-negative.jsonl") else { return };
    for append_ms in [Some(T0), None] {
        let mut clock = PartitionClock::new(0);
        for (offset, row) in (0..).zip(&rows) {
            let text = serde_json::to_vec(row).unwrap();
            let event = event::parse(&text).map(|_| ()).map_err(|r| r.reason);
            let t = row["ts"].as_i64().filter(|t| (event::TS_MIN..event::TS_MAX).contains(t));
            clock.read(
                &Config::default(),
                Reading { offset, append_ms, t, event },
                &mut |_, ()| {
                    panic!("counted: {row}");
                },
            );
        }
        let c = clock.counters();
        assert_eq!((c.read, c.rejected, c.in_slot, c.held), (9, 9, 0, 0));
        assert_eq!(clock.watermark(), append_ms.map(|a| a - 2_500));
    }
}
