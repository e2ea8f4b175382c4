//! The demo decides as a replay of what it was fed: of a recorded stream through a pipe, and of its own night.

use super::{Scratch, barrage, lines, ok, shared};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs the demo fast until its input has ended or its time is over. Returns its decisions.
fn demo(scratch: &Scratch, args: &[&str], input: Option<&Path>) -> Vec<String> {
    let out = scratch.path("demo.jsonl");
    let mut child = Command::new(env!("CARGO_BIN_EXE_barrage"))
        .args(["demo", "--listen", "127.0.0.1:0", "--decisions", out.to_str().expect("a path")])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut pipe = child.stdin.take().expect("a pipe");
    if let Some(path) = input {
        let mut text = Vec::new();
        let file = std::fs::File::open(path).expect("the recorded stream");
        flate2::read::GzDecoder::new(file).read_to_end(&mut text).expect("gzip");
        pipe.write_all(&text).expect("the demo reads all of it");
    }
    drop(pipe);
    let output = child.wait_with_output().expect("the demo ends by itself");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{err}");
    assert!(input.is_none() || err.contains("the input has ended"), "{err}");
    lines(&out)
}

/// A decision without the offsets of its evidence, which tell of the source and not of what was decided.
fn decided(line: &str) -> serde_json::Value {
    let mut decision: serde_json::Value = serde_json::from_str(line).expect("JSON");
    decision.as_object_mut().expect("an object").remove("offsets");
    decision
}

#[test]
fn a_stream_piped_into_the_demo_shows_what_its_replay_shows() {
    let Some(shared) = shared() else { return };
    let scratch = Scratch::new("piped");
    let trace = shared.join("traces/esports_chat_51rooms.csv.gz");
    let map = ["--map", "ts=rel_ms,room=room,user=user", "--ts-base", "1700000000000"];
    let fast = ["--group", "chat", "--input", "-", "--speed", "1000", "--for", "40s"];
    let shown = demo(&scratch, &[&map[..], &fast].concat(), Some(&trace));
    let out = scratch.path("replay.jsonl");
    let files = [trace.to_str().expect("a path"), "--decisions", out.to_str().expect("a path")];
    ok(&barrage([&["replay", "--group", "chat"][..], &map, &files].concat()));
    let replayed = lines(&out);
    assert!(replayed.len() > 2 * 738, "both ends of all surges, and more: {}", replayed.len());
    let differ = shown.iter().zip(&replayed).position(|(a, b)| a != b);
    assert_eq!(differ, None, "decision by decision");
    assert_eq!(shown.len(), replayed.len());
}

#[test]
fn a_replay_of_the_same_seed_has_the_arithmetic_of_the_demos_first_decision() {
    let scratch = Scratch::new("seed");
    let shown = demo(&scratch, &["--seed", "11", "--speed", "20", "--for", "10s"], None);
    let (night, out) = (scratch.path("night.jsonl"), scratch.path("replay.jsonl"));
    let (night, to) = (night.to_str().expect("a path"), out.to_str().expect("a path"));
    let made = barrage(["gen", night, "--seed", "11"]);
    assert!(made.status.success(), "{made:?}");
    ok(&barrage(["replay", night, "--decisions", to]));
    let (first, replayed) = (decided(&shown[0]), lines(&out));
    assert_eq!(decided(&replayed[0]), first, "every number that was compared");
    assert!(first["evidence"].as_object().is_some_and(|e| e.len() > 5), "{first}");
    // And so do all that the demo came to.
    let same = shown.iter().zip(&replayed).filter(|(a, b)| decided(a) == decided(b)).count();
    assert_eq!(same, shown.len());
}
