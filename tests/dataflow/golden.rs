//! The golden cases of semantics §3, through the dataflow on 1 and 3 workers.

use crate::oracle::Oracle;
use crate::stream::{START, Stream, bytes, decide};
use barrage_engine::rules::RuleSet;
use barrage_protocol::decision::{Decision, Kind};
use std::sync::Arc;

/// Decisions about one room fed with these segments (events per second, milliseconds), the same on 1 and 3 workers
/// and by the oracle; times in slots after the end of the first `before` segments.
fn golden(segments: &[(u64, u64)], before: usize) -> Vec<(i64, Kind, String)> {
    let rules = Arc::new(RuleSet::shipped());
    let mut stream = Stream::default();
    stream.steady("golden", 0, segments);
    let quiet = 0;
    let expected = Oracle::decide(&rules, &stream, quiet);
    for (workers, batch) in [(1, 1), (1, 0), (3, 1), (3, 0)] {
        let log = decide(&stream, &rules, workers, batch, quiet);
        assert_eq!(bytes(&log), bytes(&expected), "{workers} workers, batch {batch}");
    }
    let step: u64 = segments[..before].iter().map(|s| s.1).sum();
    expected.iter().map(|d| (after(d, step), d.kind, d.to.clone())).collect()
}

/// Slots from the step to the end of the decision's slot.
fn after(decision: &Decision, step_ms: u64) -> i64 {
    decision.slot.0 as i64 + 1 - (START + step_ms / 100) as i64
}

fn of(log: &[(i64, Kind, String)], kind: Kind) -> Vec<(i64, &str)> {
    log.iter().filter(|d| d.1 == kind).map(|d| (d.0, d.2.as_str())).collect()
}

#[test]
fn a_little_more_than_usual_is_normal() {
    assert_eq!(golden(&[(120, 70_000), (135, 10_000)], 1), []);
}

#[test]
fn four_times_the_usual_is_level_1() {
    let log = golden(&[(120, 70_000), (480, 10_000)], 1);
    assert_eq!(of(&log, Kind::Level), [(67, "1")]);
    assert_eq!(of(&log, Kind::Surge), [(13, "on")]);
    assert_eq!(log.len(), 2);
}

#[test]
fn six_times_the_usual_is_level_2() {
    let log = golden(&[(120, 70_000), (720, 10_000)], 1);
    assert_eq!(of(&log, Kind::Level), [(41, "1"), (81, "2")]);
    assert_eq!(of(&log, Kind::Surge), [(8, "on")]);
}

#[test]
fn twelve_times_the_usual_climbs_to_3_and_comes_down() {
    let log = golden(&[(120, 70_000), (1_440, 20_000), (120, 60_000)], 1);
    let levels = of(&log, Kind::Level);
    assert_eq!(levels[..3], [(6, "1"), (37, "2"), (73, "3")]);
    let (last, to) = levels[levels.len() - 1];
    assert!(to == "0" && last <= 600, "{levels:?}");
    assert_eq!(of(&log, Kind::Micro)[0], (1, "on"));
    assert_eq!(of(&log, Kind::Surge)[0], (4, "on"));
}

#[test]
fn a_small_room_surges_without_a_level() {
    let log = golden(&[(4, 70_000), (16, 10_000)], 1);
    assert_eq!(of(&log, Kind::Level), []);
    let surge = of(&log, Kind::Surge);
    assert!(matches!(surge[0], (19 | 20, "on")), "{surge:?}");
}

#[test]
fn a_new_room_warms_up() {
    assert_eq!(golden(&[(100, 30_000)], 0), []);
}

#[test]
fn a_new_flood_is_caught_by_the_rate_rule() {
    let log = golden(&[(3_000, 10_000)], 0);
    assert_eq!(of(&log, Kind::Level), [(67, "2")]);
}

#[test]
fn the_second_burst_is_found_as_the_first_was() {
    let parts = [(120, 70_000), (480, 10_000), (120, 60_000), (480, 10_000)];
    let log = golden(&parts, 3);
    let ups: Vec<_> =
        log.iter().filter(|d| d.1 == Kind::Level && d.2 == "1").map(|d| d.0).collect();
    // The first step lies 70 s before the second.
    assert_eq!(ups, [67 - 700, 67]);
    let on: Vec<_> = of(&log, Kind::Surge).into_iter().filter(|d| d.1 == "on").collect();
    assert_eq!(on, [(13 - 700, "on"), (13, "on")]);
}

#[test]
fn the_return_from_a_hole_is_no_burst() {
    assert_eq!(golden(&[(120, 70_000), (0, 30_000), (120, 20_000)], 1), []);
}

#[test]
fn a_spike_of_a_fifth_of_a_second_is_a_micro_burst() {
    let log = golden(&[(5_000, 70_000), (60_000, 200)], 1);
    let micro = of(&log, Kind::Micro);
    assert_eq!(micro.iter().find(|m| m.0 > 0), Some(&(1, "on")));
}
