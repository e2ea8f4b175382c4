//! From Kafka to etcd and Postgres: the golden cases of semantics §3 in one run, equal to a replay of the same records.

use super::controller::Cluster;
use super::services::eventually;
use barrage_protocol::decision::{Decision, Kind};
use std::collections::BTreeMap;

const T0: i64 = 1_700_000_000_000;

/// Events evenly over a stretch: event k at floor(k · 1000 / rate) ms after its start.
fn evenly(
    room: &'static str,
    from_ms: i64,
    ms: i64,
    rate: i64,
    out: &mut Vec<(&'static str, i64)>,
) {
    out.extend(
        (0..).map(|k| k * 1_000 / rate).take_while(|t| *t < ms).map(|t| (room, T0 + from_ms + t)),
    );
}

/// All golden rooms side by side, in order of time.
pub(crate) fn golden() -> Vec<(&'static str, i64)> {
    let mut all = Vec::new();
    let step = 80_000;
    for (room, base, then, ms) in [
        ("calm", 120, 135, 10_000),
        ("burst", 120, 480, 10_000),
        ("steps", 120, 720, 10_000),
        ("storm", 120, 1_440, 20_000),
        ("small", 4, 16, 10_000),
    ] {
        evenly(room, 0, step, base, &mut all);
        evenly(room, step, ms, then, &mut all);
        evenly(room, step + ms, 70_000, base, &mut all);
    }
    evenly("young", step, 20_000, 100, &mut all);
    evenly("flood", step, 10_000, 3_000, &mut all);
    evenly("again", 0, step, 120, &mut all);
    evenly("again", step, 10_000, 480, &mut all);
    evenly("again", step + 10_000, 60_000, 120, &mut all);
    evenly("again", step + 70_000, 10_000, 480, &mut all);
    evenly("hole", 0, 70_000, 120, &mut all);
    evenly("hole", 100_000, 40_000, 120, &mut all);
    all.sort_by_key(|(room, t)| (*t, *room));
    all
}

/// Moves upward and other beginnings: (room, kind, to) → tenths of a second after the step.
fn rises(lines: &[String]) -> BTreeMap<(String, Kind, String), i64> {
    let mut first = BTreeMap::new();
    for line in lines {
        let d: Decision = serde_json::from_str(line).expect("a decision");
        let tenths = (d.slot.end_ms() - T0 - 80_000) / 100;
        first.entry((d.subject, d.kind, d.to)).or_insert(tenths);
    }
    first
}

#[tokio::test(flavor = "multi_thread")]
async fn the_golden_cases_from_kafka_to_etcd_and_postgres_equal_their_replay() {
    let cluster = Cluster::new(4, "").await;
    let controller = cluster.start("a");
    cluster.append(golden());
    let end = barrage_protocol::ids::Slot::of_ms(T0 + 158_000);
    eventually("everything is out", || cluster.done() >= end);
    eventually("the rows are there", || !cluster.audited(&controller.config).is_empty());
    let metrics = controller.get("ops", "/metrics").expect("metrics");
    for metric in [
        "barrage_leader 1",
        "barrage_publish_txn_total{result=\"ok\"}",
        "barrage_audit_rows_total{result=\"written\"}",
    ] {
        assert!(metrics.contains(metric), "{metric}\n{metrics}");
    }
    assert!(controller.get("ops", "/readyz").is_some());
    controller.stop();
    let config = cluster.dir().join("a.toml");
    let audited = cluster.audited(&config);
    let first = rises(&audited);
    let at =
        |room: &str, kind, to: &str| first.get(&(room.to_owned(), kind, to.to_owned())).copied();
    for (room, level, tenths) in [
        ("burst", "1", 67),
        ("steps", "1", 41),
        ("steps", "2", 81),
        ("storm", "1", 6),
        ("storm", "2", 37),
        ("storm", "3", 73),
        ("flood", "2", 67),
        ("again", "1", 67),
    ] {
        assert_eq!(at(room, Kind::Level, level), Some(tenths), "{room} to {level}");
    }
    for (room, tenths) in [("burst", 13), ("steps", 8), ("storm", 4), ("again", 13)] {
        assert_eq!(at(room, Kind::Surge, "on"), Some(tenths), "{room}");
    }
    assert_eq!(at("storm", Kind::Micro, "on"), Some(1));
    for room in ["calm", "young", "hole"] {
        assert!(!first.keys().any(|(r, kind, _)| r == room && *kind == Kind::Level), "{room}");
    }
    let n = super::takeover::nothing_twice(&cluster, &config, 4, &golden());
    assert!(n > 20, "{n}");
}
