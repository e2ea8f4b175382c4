//! The worked example of docs/decision.md: every number on the page is one that the engine arrives at.

use crate::fixture::{Run, evenly, shipped};
use barrage_protocol::decision::{Decision, Kind, Value};
use std::path::PathBuf;

pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn number(d: &Decision, name: &str) -> f64 {
    match d.evidence.get(name) {
        Some(Value::Int(i)) => *i as f64,
        Some(Value::Dec(x)) => *x,
        other => panic!("{name} of {}: {other:?}", d.kind as u8),
    }
}

#[test]
fn the_worked_example_is_what_the_engine_does() {
    let start = 17_000_000_000;
    let mut run = Run::new(shipped(), start);
    for count in evenly(&[(120, 80_000), (480, 10_000)]) {
        run.close(count);
    }
    let find = |kind| run.decisions.iter().find(|d| d.kind == kind).expect("decided");
    let (level, surge) = (find(Kind::Level), find(Kind::Surge));
    let k = level.slot.0 + 1 - start - 800;
    assert_eq!(k, 67);
    let n = |name: &str| number(level, name);
    // The sums by hand: 33 slots of 12 and 67 of 48; 533 of 12 and 67 of 48; 600 of 12; 600 of 12².
    assert_eq!(n("count_10s"), f64::from(33 * 12 + 67 * 48));
    assert_eq!(n("count_60s"), f64::from(533 * 12 + 67 * 48));
    assert_eq!((n("baseline_n"), n("baseline_sum")), (600.0, 7_200.0));
    assert_eq!(n("baseline_sum_of_squares"), f64::from(600 * 144));
    assert_eq!((n("baseline"), n("rate_10s"), n("burst_ratio")), (120.0, 361.2, 2.01));
    assert_eq!((n("ratio_level_1"), n("ratio_level_2"), n("ratio_level_3")), (2.0, 4.0, 8.0));
    assert_eq!((n("sigma_squared"), n("z_above"), n("min_count_60s")), (120.0, 4.0, 1_500.0));
    // 241.2 / sqrt(120 · 1.6 · 7/60) = 241.2 / sqrt(22.4): 50.9627…
    assert_eq!(n("z"), 50.963);
    assert_eq!(n("window_to") as u64, level.slot.0);
    assert_eq!(n("window_10s_from") as u64, level.slot.0 - 99);
    assert_eq!(n("baseline_to") as u64, level.slot.0 - 100);
    assert_eq!(n("baseline_from") as u64, level.slot.0 - 699);
    let enough = number(surge, "count_3s_enough");
    let s = surge.slot.0 + 1 - start - 800;
    assert_eq!((s, enough, number(surge, "count_3s")), (13, 800.0, 828.0));
    assert_eq!(number(surge, "background_milli_per_10s"), 1_200_000.0);
    let page = std::fs::read_to_string(root().join("docs/decision.md")).expect("docs/decision.md");
    let on_the_page = [
        format!("k ≥ {k}"),
        format!("At k = {} the ratio is {:.2}", k - 1, 0.03 * (k - 1) as f64),
        format!("7200 + 36 · {k} = {}", n("count_60s")),
        format!("sigma² = max(0, baseline) = {}", n("sigma_squared")),
        format!("= {:.2}`", n("z")),
        format!("{:.1} / sqrt(120 · 1.6 · 0.11667)", n("rate_10s") - n("baseline")),
        format!("{}.{} s after the step", k / 10, k % 10),
        format!("`n3 ≥ {enough}`, at k = {s}: a surge, {}.{} s", s / 10, s % 10),
    ];
    for text in on_the_page {
        assert!(page.contains(&text), "docs/decision.md does not say `{text}`");
    }
}
