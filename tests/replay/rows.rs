//! Rows of the benchmark on a small file, against an answer counted event by event.

use super::{Scratch, barrage, lines, ok};
use std::collections::BTreeMap;
use std::fmt::Write;

const T0: i64 = 1_700_000_000_000;

/// 100 s of 30 rooms, out of order by at most 400 ms; every tenth room has one burst of 12 s.
fn events(seed: u64) -> Vec<(String, i64)> {
    let mut x = seed;
    let mut below = |n: u64| {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (x >> 33) % n
    };
    let mut events = Vec::new();
    for room in 0..30_u64 {
        let burst = room % 10 == 0;
        let start = 30_000 + below(50_000);
        for ms in (0..100_000_u64).step_by(100) {
            let hot = burst && (start..start + 12_000).contains(&ms);
            for _ in 0..below(if hot { 40 } else { 3 }) {
                let arrival = ms + below(100);
                let late = if below(10) == 0 { below(400) } else { 0 };
                events.push((
                    arrival,
                    format!("r{room}"),
                    T0 + arrival.saturating_sub(late) as i64,
                ));
            }
        }
    }
    events.sort();
    events.into_iter().map(|(_, room, t)| (room, t)).collect()
}

/// The definition, taken literally.
fn expected(events: &[(String, i64)], slide: i64) -> Vec<String> {
    let mut by_room: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    events.iter().for_each(|(room, t)| by_room.entry(room).or_default().push(*t));
    let last = events.iter().map(|e| e.1).max().expect("events");
    let mut rows = Vec::new();
    for (room, times) in by_room {
        let mut end = T0 + slide;
        while end <= last + slide + 60_000 {
            let count = |ms: i64| times.iter().filter(|t| (end - ms..end).contains(*t)).count();
            let (c60, c10) = (count(60_000), count(10_000));
            if c60 > 1_500 && 2 * c10 > c60 {
                rows.push(format!("{room},{end},{c60},{c10}"));
            }
            end += slide;
        }
    }
    rows.sort();
    rows
}

#[test]
fn rows_are_exact_at_both_slides_and_on_any_number_of_workers() {
    let scratch = Scratch::new("rows");
    let seed = 7;
    let events = events(seed);
    let mut text = String::new();
    for (room, t) in &events {
        let _ = writeln!(text, r#"{{"room":"{room}","ts":{t},"class":"chat","ok":true}}"#);
    }
    let input = scratch.write("events.jsonl", &text);
    let input = input.to_str().expect("a path");
    for (slide, workers) in [("1000", "1"), ("1000", "3"), ("100", "1"), ("100", "2")] {
        let out = scratch.path(&format!("rows-{slide}-{workers}.csv"));
        let file = out.to_str().expect("a path");
        let args = ["bench", "rows", input, "--slide-ms", slide, "--workers", workers];
        let json = ok(&barrage([&args[..], &["--out", file, "--json"]].concat()));
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        let mut got = lines(&out);
        got.sort();
        let wanted = expected(&events, slide.parse().expect("a number"));
        assert!(wanted.len() >= 20, "seed {seed}: {} rows", wanted.len());
        assert_eq!(got, wanted, "seed {seed}, slide {slide}, {workers} workers");
        assert_eq!(json["rows"], wanted.len());
        assert_eq!(json["events"], events.len());
        assert!(json["cpu_s_per_million"].is_number(), "{json}");
    }
}

/// A small `bench core`: the hot path and the plain program find the same changes, and every rule fires.
#[test]
fn the_hot_path_finds_what_a_plain_program_finds() {
    for workers in ["1", "3"] {
        let args = ["--rooms", "1000", "--rate", "50000", "--events", "2000000", "--runs", "1"];
        let output =
            barrage([&["bench", "core", "--workers", workers, "--json"], &args[..]].concat());
        let json: serde_json::Value = serde_json::from_str(&ok(&output)).expect("JSON");
        assert!(json["changes"].as_u64().is_some_and(|n| n > 200), "{json}");
        for rule in ["burst", "fast", "micro", "rate", "surge"] {
            assert!(json["fired"][rule].as_u64().is_some_and(|n| n > 0), "{rule}: {json}");
        }
        assert!(json["anon_bytes"].as_u64() <= json["bytes_allowed"].as_u64(), "{json}");
        assert!(json["slot_entries"].as_u64().is_some_and(|n| n > 100_000), "{json}");
    }
}
