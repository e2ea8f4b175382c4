//! Files as users have them: faults are named with file and line and stop nothing; what is unusable ends with 1.

use super::{Scratch, barrage, lines, ok};
use std::fmt::Write;

const T0: i64 = 1_700_000_000_000;

/// A room with one event every 500 ms for 80 s, then 40 a second for 5 s, then as before for 20 s; CSV.
fn surge(header: &str) -> String {
    let mut text = format!("{header}\n");
    let mut put = |ms: i64| {
        let _ = writeln!(text, "{},r_1,u", T0 + ms);
    };
    (0..160).for_each(|n| put(n * 500));
    (0..200).for_each(|n| put(80_000 + n * 25));
    (0..40).for_each(|n| put(85_000 + n * 500));
    text
}

#[test]
fn faults_are_named_with_their_line_and_stop_nothing() {
    let scratch = Scratch::new("faults");
    let mut text = surge("ts,room,user");
    text.push_str("soon,r_1,u\n1700000100,r_1,u\n");
    let file = scratch.write("events.csv", &text);
    let alarms = scratch.path("alarms.csv");
    let args = ["replay", "--map", "user=nick", "--json", "--alarms"].map(std::ffi::OsStr::new);
    let output = barrage(args.into_iter().chain([alarms.as_os_str(), file.as_os_str()]));
    let summary: serde_json::Value = serde_json::from_str(&ok(&output)).expect("JSON");
    let err = String::from_utf8_lossy(&output.stderr);
    let named = |end: &str| format!("{}:{end}", file.display());
    for told in [
        named("1: no column `nick` for user, read without it"),
        named("402: time is not an integer (ts_type, field `ts`); `soon`"),
        named(
            "403: time is not in milliseconds (ts_unit, field `ts`); `1700000100` looks like --ts-unit s",
        ),
    ] {
        assert!(err.contains(&told), "{told}\n{err}");
    }
    assert_eq!(summary["files"][0]["counted"], 400);
    assert_eq!(summary["files"][0]["rejected"], serde_json::json!({"ts_type": 1, "ts_unit": 1}));
    assert_eq!(summary["spans"]["surge"], 1);
    let spans = lines(&alarms);
    assert_eq!((spans[0].as_str(), spans.len()), ("room,start_s,end_s,rule", 2));
    assert!(spans[1].starts_with("r_1,80.") && spans[1].ends_with(",surge"), "{spans:?}");
}

#[test]
fn a_span_still_open_at_the_end_is_printed() {
    let scratch = Scratch::new("open");
    let text = surge("ts,room,user");
    let text: Vec<&str> = text.lines().take(1 + 160 + 120).collect();
    let file = scratch.write("events.csv", &text.join("\n"));
    let alarms = scratch.path("alarms.csv");
    let args = ["replay", "--alarms"].map(std::ffi::OsStr::new);
    ok(&barrage(args.into_iter().chain([alarms.as_os_str(), file.as_os_str()])));
    let spans = lines(&alarms);
    assert_eq!(spans.len(), 2, "{spans:?}");
    assert!(spans[1].ends_with(",83.0,surge"), "{spans:?}");
}

#[test]
fn several_files_are_partitions_and_a_pipe_is_a_file() {
    let scratch = Scratch::new("parts");
    let text = surge("ts,room,user");
    // A quiet room in a file of its own that ends long before the other one, as JSON lines.
    let mut quiet = String::new();
    for n in 0..50 {
        let _ = writeln!(quiet, r#"{{"room":"r_2","ts":{}}}"#, T0 + n * 1_000);
    }
    let (first, second) = (scratch.write("1.csv", &text), scratch.write("2.jsonl", &quiet));
    let (both, piped) = (scratch.path("both.csv"), scratch.path("piped.csv"));
    let args = ["replay", "--json", "--workers", "2", "--alarms"].map(std::ffi::OsStr::new);
    let files = [both.as_os_str(), first.as_os_str(), second.as_os_str()];
    let summary = ok(&barrage(args.into_iter().chain(files)));
    let summary: serde_json::Value = serde_json::from_str(&summary).expect("JSON");
    assert_eq!(summary["rooms"], 2);
    let counted = |n: usize| summary["files"][n]["counted"].as_u64();
    assert_eq!((counted(0), counted(1)), (Some(400), Some(50)));
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_barrage"))
        .args(["replay", "-", "--alarms"])
        .arg(&piped)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    std::io::Write::write_all(&mut stdin, text.as_bytes()).expect("written");
    drop(stdin);
    ok(&child.wait_with_output().expect("the program ends"));
    assert_eq!(lines(&both), lines(&piped));
    assert_eq!(lines(&both).len(), 2);
}

#[test]
fn nothing_usable_is_an_error() {
    let scratch = Scratch::new("nothing");
    for (name, text, told) in [
        ("empty.csv", "", "is empty"),
        ("columns.csv", "time,channel\n1,a\n", "no column `ts` for ts"),
        ("seconds.csv", "ts,room\n1700000000,a\n1700000001,a\n", "--ts-unit s"),
        ("prose.txt", "Once upon a time,\nthere was a room.\n", "no column `room`"),
    ] {
        let file = scratch.write(name, text);
        let output = barrage(["replay".as_ref(), file.as_os_str()]);
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{name}\n{err}");
        assert!(err.contains(told) && err.contains("nothing"), "{name}\n{err}");
    }
    let output = barrage(["replay", "no/such/file.csv"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no/such/file.csv"));
    assert_eq!(barrage(["replay"]).status.code(), Some(2));
}

#[test]
fn a_file_out_of_order_is_said_to_be_so_and_sorted_on_demand() {
    let scratch = Scratch::new("order");
    let text = surge("ts,room,user");
    let mut rows: Vec<&str> = text.lines().skip(1).collect();
    let middle = rows.len() / 2;
    rows.rotate_left(middle);
    let mixed = scratch.write("mixed.csv", &format!("ts,room,user\n{}\n", rows.join("\n")));
    let plain = scratch.write("plain.csv", &text);
    let said = ok(&barrage(["replay".as_ref(), mixed.as_os_str()]));
    assert!(said.contains("not in order of time") && said.contains("--sort"), "{said}");
    let json = |args: &[&std::ffi::OsStr]| -> serde_json::Value {
        let args = ["replay".as_ref(), "--json".as_ref()].into_iter().chain(args.iter().copied());
        serde_json::from_str(&ok(&barrage(args))).expect("JSON")
    };
    let sorted = json(&["--sort".as_ref(), mixed.as_os_str()]);
    let straight = json(&[plain.as_os_str()]);
    assert_eq!(sorted["decisions_hash"], straight["decisions_hash"]);
    assert_eq!(sorted["files"][0]["late"], 0);
}

#[test]
fn a_recorded_control_log_is_followed_and_a_changed_input_is_found() {
    let scratch = Scratch::new("control");
    let text = surge("ts,room,user");
    let file = scratch.write("events.csv", &text);
    let (log, first, second) =
        (scratch.path("log.jsonl"), scratch.path("1.jsonl"), scratch.path("2.jsonl"));
    let run = |control: &str, decisions: &std::path::Path, file: &std::path::Path| {
        let args = ["replay".as_ref(), control.as_ref(), log.as_os_str(), "--decisions".as_ref()];
        barrage(args.into_iter().chain([decisions.as_os_str(), file.as_os_str()]))
    };
    ok(&run("--write-control", &first, &file));
    assert!(!lines(&first).is_empty() && lines(&log).len() > 100);
    ok(&run("--control", &second, &file));
    assert_eq!(lines(&first), lines(&second));
    let other = text.replace("1700000083000,", "1700000083001,").replacen(
        "1700000080025,r_1",
        "1700000080025,r_2",
        1,
    );
    let other = scratch.write("other.csv", &other);
    let output = run("--control", &second, &other);
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    // Files that stop short of the log end the run; they do not keep it waiting.
    let cut: String = text.lines().take(200).map(|line| format!("{line}\n")).collect();
    let output = run("--control", &second, &scratch.write("cut.csv", &cut));
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("its steps go further than the files do"), "{told}");
}
