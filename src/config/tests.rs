//! Configurations that are right, and every way to be wrong.

use super::keys::{KEYS, Kind};
use super::{Config, LogFormat, OnExpired, read};
use std::fmt::Write as _;

#[test]
fn nothing_written_is_the_default() {
    assert_eq!(read(""), Ok(Config::default()));
}

#[test]
fn settings_arrive() {
    let text = r#"
cluster = "match"
workers = 2
[kafka]
brokers = "a:9092,b:9092"
on_expired = "skip"
retention = "48h"
[etcd]
endpoints = ["http://a:2379", "http://b:2379"]
[postgres]
url = "postgres://barrage@localhost/barrage"
[http]
ops = "0.0.0.0:9464"
[log]
format = "json"
[time]
out_of_order = "50ms"
"#;
    let config = read(text).expect("a good configuration");
    assert_eq!((config.cluster.as_str(), config.workers), ("match", 2));
    assert_eq!(config.kafka.on_expired, OnExpired::Skip);
    assert_eq!(config.kafka.retention_ms, 48 * 3_600_000);
    assert_eq!(config.etcd.endpoints.len(), 2);
    assert_eq!(config.log.format, LogFormat::Json);
    assert_eq!(config.time.out_of_order_ms, 50);
}

#[test]
fn all_faults_are_told_at_once_with_place_and_way_out() {
    let text = r#"cluter = "live"
workers = 0
[kafka]
broker = "a:9092"
partitions = "eight"
retention = "24"
[etcd]
endpoints = ["10.0.0.1:2379"]
cert_file = "c.pem"
[http]
api = "0.0.0.0:80"
ops = "here"
[log]
format = "yaml"
out_of_order = "5ms"
"#;
    let faults = read(text).expect_err("ten faults");
    let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
    let all = told.join("\n");
    for expected in [
        "1:1: unknown key `cluter` at the top (did you mean `cluster`?)",
        "2:11: `workers`: `0` is out of range, 1 to 64",
        "4:1: unknown key `broker` in [kafka] (did you mean `brokers`?)",
        "5:14: `kafka.partitions`: must be a whole number, not a text",
        "6:13: `kafka.retention`: `24` has no unit, as in \"500ms\"",
        "`etcd.endpoints`: `10.0.0.1:2379` begins neither with http:// nor https://",
        "`etcd.cert_file` and `etcd.key_file` come together",
        "`http.api` = 0.0.0.0:80",
        "`here` is no address and port",
        "`yaml` is none of `text`, `json`",
        "unknown key `out_of_order` in [log] (it belongs into [time])",
    ] {
        assert!(all.contains(expected), "{expected}\nnot in\n{all}");
    }
    assert_eq!(faults.len(), 11, "{all}");
}

#[test]
fn broken_text_is_a_fault_with_its_place() {
    let faults = read("cluster = \"a\"\n[kafka\n").expect_err("no TOML");
    assert_eq!(faults.first().map(|f| f.line), Some(2), "{faults:?}");
    assert!(read(&"#".repeat(2 << 20)).is_err());
}

/// Every default in the table is what holds when nothing is written.
#[test]
fn defaults_of_the_table_are_the_defaults() {
    for key in KEYS {
        let literal = key.default.starts_with(['"', '[']) || key.default.parse::<u64>().is_ok();
        if !literal {
            continue;
        }
        let text = match key.table() {
            "" => format!("{} = {}", key.short(), key.default),
            table => format!("[{table}]\n{} = {}", key.short(), key.default),
        };
        assert_eq!(read(&text), Ok(Config::default()), "{}", key.name);
    }
}

/// The page of settings is this table.
#[test]
fn the_page_has_every_setting() {
    let mut table = String::from("| setting | value | default | meaning |\n|---|---|---|---|\n");
    for key in KEYS {
        let kind = match key.kind {
            Kind::Text => "text".into(),
            Kind::Name => "name".into(),
            Kind::Texts => "list of texts".into(),
            Kind::Path => "path".into(),
            Kind::Address => "address:port".into(),
            Kind::Number(min, max) => format!("{min} to {max}"),
            Kind::Time(min, max) => {
                let show = barrage_engine::rules::text::show_ms;
                format!("{} to {}", show(min), show(max))
            }
            Kind::Word(words) => words.join(", "),
        };
        let default = if key.default.starts_with(['"', '[']) {
            format!("`{}`", key.default)
        } else {
            key.default.into()
        };
        let _ = writeln!(table, "| `{}` | {kind} | {default} | {} |", key.name, key.what);
    }
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/configuration.md"));
    let page = page.expect("docs/configuration.md");
    assert!(page.contains(&table), "docs/configuration.md must hold this table:\n{table}");
}

#[test]
fn a_password_comes_from_a_file_and_is_never_shown() {
    let path = std::env::temp_dir().join(format!("barrage-secret-{}", std::process::id()));
    std::fs::write(&path, "hunter2\n").expect("a file");
    let text =
        format!("[etcd]\nuser = \"barrage\"\npassword_file = {:?}\n", path.display().to_string());
    let config = read(&text).expect("a good configuration");
    assert_eq!(config.etcd.password.load(), Ok(Some("hunter2".into())));
    assert!(!format!("{config:?}").contains("hunter2"));
    std::fs::write(&path, "\n").expect("a file");
    assert!(config.etcd.password.load().is_err());
    std::fs::remove_file(&path).expect("the file");
    assert!(config.etcd.password.load().is_err());
}
