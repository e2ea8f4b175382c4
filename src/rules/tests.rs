//! Tests of `barrage rules` as it is typed: what is told where, and the exit code.

use super::*;
use clap::Parser;

#[derive(Debug, Parser)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

/// A directory of its own for each test, gone at its end.
struct Files(PathBuf);

impl Files {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("barrage-rules-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory for the test");
        Self(path)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).expect("a file for the test");
        path.display().to_string()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Exit code, data and messages.
fn typed(words: &[&str]) -> (u8, String, String) {
    let line = Line::try_parse_from(["rules"].iter().chain(words)).expect("a command line");
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = run_with(&line.command, &mut out, &mut err).expect("an outcome");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (code, text(out), text(err))
}

const FIVE: &str = r#"schema = 1
[ladder]
min_dwel = "10s"
step_every = "10"
[[rule]]
id = "burst"
kind = "burst"
mode = "enfroce"
match = { group = "chatt" }
trigger = { min_count_60 = 1500 }
"#;

#[test]
fn five_faults_are_told_with_place_and_way_out() {
    let files = Files::new("five");
    let path = files.put("five.toml", FIVE.as_bytes());
    let (code, out, err) = typed(&["check", &path]);
    assert_eq!((code, out.as_str()), (3, ""), "{err}");
    let told: Vec<&str> = err.lines().collect();
    let expected = [
        (3, 1, "unknown key `min_dwel`", "did you mean `min_dwell`?"),
        (4, 14, "`10` has no unit", "\"100ms\" to \"1h\""),
        (8, 8, "unknown mode `enfroce`", "did you mean `enforce`?"),
        (9, 19, "no group `chatt`", "`*` for every room"),
        (10, 13, "unknown key `min_count_60`", "did you mean `min_count_60s`?"),
    ];
    assert_eq!(told.len(), 2 * expected.len() + 1, "{err}");
    for (pair, (line, column, what, hint)) in told.chunks(2).zip(expected) {
        assert!(pair[0].starts_with(&format!("{path}:{line}:{column}: ")), "{err}");
        assert!(pair[0].contains(what), "{err}");
        assert!(pair[1].starts_with("  hint: ") && pair[1].contains(hint), "{err}");
    }
    assert!(told.last().is_some_and(|l| l.ends_with("5 faults")), "{err}");
    let (code, out, err) = typed(&["check", "-o", "json", &path]);
    assert_eq!((code, err.as_str()), (3, ""));
    let json: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(json[0]["valid"], false);
    assert_eq!(json[0]["problems"].as_array().map(Vec::len), Some(5));
    assert_eq!(json[0]["problems"][2]["line"], 8);
}

#[test]
fn every_file_is_read_whatever_is_wrong_with_another() {
    let files = Files::new("several");
    let bad = files.put("bad.toml", b"schema = 1\n\xff\n");
    let good = files.put("good.toml", RuleSet::shipped_text().as_bytes());
    let shadow = files.put(
        "shadow.toml",
        b"schema = 1\n[[rule]]\nid = \"s\"\nkind = \"surge\"\nmode = \"shadow\"\n",
    );
    let absent = files.0.join("absent.toml").display().to_string();
    let (code, out, err) = typed(&["check", &bad, &good, &shadow]);
    assert_eq!(code, 3);
    assert!(err.contains(&format!("{bad}:2:1: is not UTF-8 text")), "{err}");
    assert!(err.contains(&format!("{shadow}: note: rule `s`: mode shadow")), "{err}");
    assert!(out.contains(&format!("{good}: valid, 5 live rules, 2 groups")), "{out}");
    assert!(out.contains(&format!("{shadow}: valid, 0 live rules, 1 group\n")), "{out}");
    let (code, out, err) = typed(&["check", &absent, &good, &bad]);
    assert_eq!(code, 1, "what cannot be read is not known to be wrong");
    assert!(err.contains("cannot read the rules in") && err.contains("bad.toml:2:1"), "{err}");
    assert!(out.contains("valid"), "{out}");
    assert_eq!(typed(&["check", &good]).0, 0);
    assert!(
        run(&Command::Show { file: Some(files.0.join("absent.toml")), output: Output::Table })
            .is_err()
    );
    assert!(Line::try_parse_from(["rules", "check"]).is_err(), "no file is a fault of usage");
}

#[test]
fn what_is_shown_is_what_holds() {
    let (code, out, err) = typed(&["show"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown = words(&out);
    for line in [
        "ladder.min_dwell \"10s\"",
        "ladder.blast.max_share 0.2",
        "levels.1.chat delay = \"100ms\"",
        "levels.2.chat admit = 0.4, buffer = 5000, ttl = \"30s\"",
        "levels.3.chat top_only = true",
        "levels.1.off 2 (like_count, entrance_effects)",
        "group chat: rooms that begin with `c_`",
        "group default: every other room",
        "shape: capacity = 10000, max_wait = \"500ms\", drain_qps = 18000",
        "level 2 above ratio 4",
        "level 2 above enter 2000",
        "window \"10s\"",
        "min_life \"30s\"",
    ] {
        assert!(shown.contains(line), "not shown: {line}\n{out}");
    }
    let (chat, rest) = out.split_once("group default").expect("two groups");
    assert!(
        words(chat).contains("min_count_60s 300") && words(rest).contains("min_count_60s 1500")
    );
    let json: Value = serde_json::from_str(&typed(&["show", "-o", "json"]).1).expect("JSON");
    assert_eq!(json["groups"][0]["rules"][0]["settings"]["min_count_60s"], "300");
    assert_eq!(json["levels"]["levels.3.broadcast"], "admit = 0.5");
}

#[test]
fn the_shipped_text_is_printed_as_it_is_and_valid() {
    let files = Files::new("default");
    let (code, text, err) = typed(&["default"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(text, RuleSet::shipped_text());
    let path = files.put("mine.toml", text.as_bytes());
    assert_eq!(typed(&["check", &path]).0, 0);
    assert_eq!(typed(&["show", &path]).1, typed(&["show"]).1);
}
