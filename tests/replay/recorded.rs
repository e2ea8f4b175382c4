//! Recorded chat through the whole program: the spans of `surge` are those of the plain reference, all of them.

use super::{Scratch, barrage, lines, ok, shared};
use std::path::Path;
use std::process::Command;

/// Runs a Python script and returns what it printed.
fn python(script: &Path, args: &[&str]) -> String {
    let output = Command::new("python3").arg(script).args(args).output();
    let output = output.expect("python3 runs the reference");
    ok(&output)
}

/// `room,start,end` of the lines of one rule, sorted.
fn spans(alarms: &Path, rule: Option<&str>) -> Vec<String> {
    let mut spans: Vec<String> = lines(alarms)
        .iter()
        .skip(1)
        .filter(|line| rule.is_none_or(|rule| line.ends_with(&format!(",{rule}"))))
        .map(|line| line.splitn(4, ',').take(3).collect::<Vec<_>>().join(","))
        .collect();
    spans.sort();
    spans
}

/// Replays a trace and compares its surges with the reference's.
fn compare(name: &str, file: &str, ours: &[&str], reference: &[&str], expected: usize) {
    let Some(shared) = shared() else { return };
    let scratch = Scratch::new(name);
    let trace = shared.join("traces").join(file);
    let trace = trace.to_str().expect("a path");
    let wanted = scratch.path("reference.csv");
    let script = shared.join("traces/surge_rule.py");
    let out = wanted.to_str().expect("a path");
    python(&script, &[&[trace, "--alarms", out], reference].concat());
    let wanted = spans(&wanted, None);
    assert_eq!(wanted.len(), expected, "the reference finds what it found when this was written");
    let mut hashes = Vec::new();
    for workers in ["1", "3"] {
        let alarms = scratch.path(&format!("{workers}.csv"));
        let out = alarms.to_str().expect("a path");
        let args = ["replay", trace, "--group", "chat", "--workers", workers, "--alarms", out];
        let output = barrage([&args, ours, &["--json"]].concat());
        let summary: serde_json::Value = serde_json::from_str(&ok(&output)).expect("JSON");
        assert_eq!(summary["files"][0]["rejected"], serde_json::json!({}));
        hashes.push(summary["decisions_hash"].clone());
        let got = spans(&alarms, Some("surge"));
        let missing: Vec<_> = wanted.iter().filter(|s| !got.contains(s)).take(5).collect();
        let extra: Vec<_> = got.iter().filter(|s| !wanted.contains(s)).take(5).collect();
        assert!(
            got == wanted,
            "{workers} workers: {} spans, {} wanted; missing {missing:?}, extra {extra:?}",
            got.len(),
            wanted.len()
        );
    }
    assert_eq!(hashes[0], hashes[1], "the same decisions on one and three workers");
}

#[test]
fn surges_of_51_rooms_are_those_of_the_reference_and_score_as_it_does() {
    let map = ["--map", "ts=rel_ms,room=room,user=user", "--ts-base", "1700000000000"];
    compare("51rooms", "esports_chat_51rooms.csv.gz", &map, &[], EXPECTED_51);
    let Some(shared) = shared() else { return };
    let scratch = Scratch::new("score");
    let alarms = scratch.path("alarms.csv");
    let out = alarms.to_str().expect("a path");
    let trace = shared.join("traces/esports_chat_51rooms.csv.gz");
    let trace = trace.to_str().expect("a path");
    let args = ["replay", trace, "--group", "chat", "--alarms", out];
    ok(&barrage([&args[..], &map].concat()));
    // Every rule may alarm; the score is that of this one.
    let surges = spans(&alarms, Some("surge")).join("\n");
    let surges = scratch.write("surges.csv", &format!("room,start_s,end_s\n{surges}\n"));
    let truth = shared.join("traces/esports_chat.truth.json");
    let files = [&truth, &surges].map(|p| p.to_str().expect("a path"));
    let score = python(&shared.join("traces/score.py"), &files);
    let score: serde_json::Value = serde_json::from_str(&score).expect("JSON");
    assert_eq!(score["must_recall"], 0.983, "{score}");
    assert_eq!(score["false_per_h"], 0.5, "{score}");
    assert_eq!(score["delay_median_s"], 4.4, "{score}");
}

#[test]
fn surges_of_the_busiest_12_are_those_of_the_reference() {
    let base = "1700000000000";
    compare(
        "busiest12",
        "esports_chat_busiest12.jsonl.gz",
        &["--zero", base],
        &["--base", base],
        EXPECTED_12,
    );
}

#[test]
fn surges_of_pools_that_are_out_of_order_are_those_of_the_reference_when_sorted() {
    // The second in the video is the time; the rows stand in the order in which they were posted.
    for (pool, expected) in [("bv-1", 1), ("bv-2", 0), ("bv-3", 0), ("bv-4", 0), ("bv-5", 1)] {
        compare(
            pool,
            &format!("bilibili_danmaku/{pool}.csv"),
            &["--sort", "--map", "ts=video_ms", "--ts-base", "1700000000000"],
            &["--base", "0"],
            expected,
        );
    }
}

/// Spans that the reference finds in the two traces.
const EXPECTED_51: usize = 738;
const EXPECTED_12: usize = 100;
