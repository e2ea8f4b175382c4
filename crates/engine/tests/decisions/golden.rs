//! The golden cases of semantics §3, every row, exact to the slot.

use crate::fixture::{Run, evenly, shipped};
use barrage_protocol::decision::{Decision, Kind};

/// A slot on a block's edge, as every golden case is tried from this one and from two others.
const START: u64 = 17_000_000_000;

/// Runs the segments one after the other; the last `tail` of them begin at the zero of the times.
fn run(segments: &[(u64, u64)], before: usize, offset: u64) -> (Run, u64) {
    let mut run = Run::new(shipped(), START + offset);
    for count in evenly(segments) {
        run.close(count);
    }
    let slots: u64 = segments[..before].iter().map(|s| s.1 / 100).sum();
    (run, START + offset + slots)
}

/// (tenths of a second, level before, level after) from the zero on.
fn levels(run: &Run, zero: u64) -> Vec<(u64, String, String)> {
    let all = run.said_from(zero).into_iter().filter(|s| s.1 == Kind::Level);
    all.map(|s| (s.0, s.2, s.3)).collect()
}

/// Tenths of a second at which a surge or micro-burst began.
fn begun(run: &Run, zero: u64, kind: Kind) -> Vec<u64> {
    run.said_from(zero).into_iter().filter(|s| s.1 == kind && s.3 == "on").map(|s| s.0).collect()
}

fn expect(all: &[(u64, &str, &str)]) -> Vec<(u64, String, String)> {
    all.iter().map(|(t, a, b)| (*t, (*a).to_owned(), (*b).to_owned())).collect()
}

const OFFSETS: [u64; 3] = [0, 37, 99];

#[test]
fn from_120_to_135_nothing_happens() {
    for offset in OFFSETS {
        let (run, zero) = run(&[(120, 80_000), (135, 10_000)], 1, offset);
        assert_eq!(run.said_from(0), [], "from slot {zero}");
        let f =
            run.state.next_threshold(&run.config, &last_features(&[(120, 80_000), (135, 10_000)]));
        assert_eq!(f, Some(360_000), "three times the baseline is the next threshold");
    }
    let f = last_features(&[(120, 80_000), (135, 10_000)]);
    assert_eq!((f.count_60s, f.count_10s), (7_350, 1_350));
    let ratio = Run::new(shipped(), START).state.burst_ratio(&shipped(), &f);
    assert_eq!(ratio, Some(125_000), "0.125");
}

fn last_features(segments: &[(u64, u64)]) -> barrage_engine::features::Features {
    let mut twin = crate::twin::Twin::new(START);
    evenly(segments).into_iter().map(|c| twin.close(c, None)).last().expect("a slot")
}

#[test]
fn from_120_to_480_is_level_1() {
    for offset in OFFSETS {
        let (run, zero) = run(&[(120, 80_000), (480, 10_000)], 1, offset);
        assert_eq!(levels(&run, zero), expect(&[(67, "0", "1")]));
        assert_eq!(begun(&run, zero, Kind::Surge), [13]);
        assert!(begun(&run, zero, Kind::Micro).is_empty());
        assert_eq!(run.said_from(0).len(), 2);
    }
    let f = last_features(&[(120, 80_000), (480, 10_000)]);
    assert_eq!(f.count_60s, 10_800);
    assert_eq!(Run::new(shipped(), START).state.burst_ratio(&shipped(), &f), Some(3_000_000));
}

#[test]
fn from_120_to_720_is_level_1_and_2() {
    for offset in OFFSETS {
        let (run, zero) = run(&[(120, 80_000), (720, 10_000)], 1, offset);
        assert_eq!(levels(&run, zero), expect(&[(41, "0", "1"), (81, "1", "2")]));
        assert_eq!(begun(&run, zero, Kind::Surge), [8]);
    }
}

#[test]
fn from_120_to_1440_is_every_level_and_back() {
    for offset in OFFSETS {
        let (run, zero) = run(&[(120, 80_000), (1_440, 20_000), (120, 60_000)], 1, offset);
        let expected = [
            (6, "0", "1"),
            (37, "1", "2"),
            (73, "2", "3"),
            // The ratio is below 0.8 from 29.3 s on; the hundredth such slot is 39.2 s.
            (392, "3", "2"),
            (492, "2", "1"),
            (592, "1", "0"),
        ];
        assert_eq!(levels(&run, zero), expect(&expected));
        assert_eq!(begun(&run, zero, Kind::Micro), [1]);
        assert_eq!(begun(&run, zero, Kind::Surge), [4]);
        let rules: Vec<&str> = level_decisions(&run).map(|d| d.rule.as_str()).collect();
        assert_eq!(rules, ["fast", "burst", "burst", "ladder", "ladder", "ladder"]);
    }
}

fn level_decisions(run: &Run) -> impl Iterator<Item = &Decision> {
    run.decisions.iter().filter(|d| d.kind == Kind::Level)
}

#[test]
fn from_4_to_16_is_a_surge_and_no_burst() {
    for offset in OFFSETS {
        for lead in [80_000, 80_100, 80_200, 80_300, 80_400] {
            let (run, zero) = run(&[(4, lead), (16, 10_000)], 1, offset);
            assert_eq!(levels(&run, 0), []);
            let at = begun(&run, zero, Kind::Surge);
            assert!(at == [19] || at == [20], "offset {offset}, lead {lead}: {at:?}");
            assert_eq!(run.said_from(0).len(), 1);
        }
    }
    let f = last_features(&[(4, 80_000), (16, 10_000)]);
    assert_eq!(f.count_60s, 360);
    assert_eq!(Run::new(shipped(), START).state.burst_ratio(&shipped(), &f), Some(3_000_000));
}

#[test]
fn a_new_room_at_100_is_warming_up() {
    for offset in OFFSETS {
        let (run, _) = run(&[(0, 80_000), (100, 60_000)], 1, offset);
        assert_eq!(run.said_from(0), []);
    }
}

#[test]
fn a_new_room_at_3000_is_caught_by_its_rate() {
    for offset in OFFSETS {
        let (run, zero) = run(&[(0, 80_000), (3_000, 10_000)], 1, offset);
        assert_eq!(levels(&run, zero), expect(&[(67, "0", "2")]));
        assert_eq!(run.said_from(0).len(), 1);
        assert_eq!(run.decisions[0].rule, "rate");
    }
}

#[test]
fn the_second_burst_is_found_as_the_first_was() {
    let segments = [(120, 80_000), (480, 10_000), (120, 60_000), (480, 10_000)];
    for offset in OFFSETS {
        let (run, zero) = run(&segments, 1, offset);
        let expected = [(67, "0", "1"), (273, "1", "0"), (767, "0", "1")];
        assert_eq!(levels(&run, zero), expect(&expected));
        assert_eq!(begun(&run, zero, Kind::Surge), [13, 713]);
        let rises: Vec<_> = level_decisions(&run).filter(|d| d.rule == "burst").collect();
        assert_eq!(rises[0].evidence["burst_ratio"], rises[1].evidence["burst_ratio"]);
        assert_eq!(rises[0].evidence["baseline"], rises[1].evidence["baseline"]);
    }
}

#[test]
fn the_return_from_a_hole_is_nothing() {
    for offset in OFFSETS {
        let (run, _) = run(&[(120, 70_000), (0, 30_000), (120, 80_000)], 1, offset);
        assert_eq!(run.said_from(0), []);
    }
}

#[test]
fn a_micro_burst_is_seen_in_its_first_slot() {
    for offset in OFFSETS {
        let (run, zero) = run(&[(5_000, 70_000), (60_000, 200), (5_000, 10_000)], 1, offset);
        assert_eq!(run.said_from(0)[0].3, "2", "level 2 by the rate rule, long before");
        assert_eq!(run.decisions[0].rule, "rate");
        assert_eq!(begun(&run, zero, Kind::Micro), [1]);
        let ends: Vec<_> = run
            .said_from(zero)
            .into_iter()
            .filter(|s| s.1 == Kind::Micro && s.3 == "off")
            .collect();
        // Both slots enter; then fifty in a row do not.
        assert_eq!(ends[0].0, 2 + 50);
    }
}
