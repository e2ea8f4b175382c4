//! Tests of table and verdicts: exact shares, who is spared, what a bad document changes (nothing).

use crate::{Applied, Change, Reason, State, Table, Verdict, class_of};
use barrage_protocol::ids::{Class, Level, Tier};
use barrage_protocol::policy::{Heartbeat, Keys, digest, digest_text};
use serde_json::{Value, json};

fn keys() -> Keys {
    Keys::new("test", 0)
}

/// The document of a room as the shipped table of levels has it.
fn document(room: &str, level: u8, seq: u64) -> Value {
    let classes = match level {
        1 => json!({"chat": {"delay_ms": 100}, "heartbeat": {"delay_ms": 100}}),
        2 => {
            json!({"chat": {"admit": 0.4}, "command": {"admit": 0.9}, "heartbeat": {"admit": 0.0}})
        }
        3 => json!({"chat": {"admit": 0}, "command": {"admit": 0}, "heartbeat": {"admit": 0},
                    "broadcast": {"admit": 0.5}}),
        _ => json!({}),
    };
    json!({"schema": 1, "room": room, "group": "chat", "epoch": 1, "seq": seq, "slot": 17,
           "level": level, "classes": classes, "users": {"top": ["u_star"]}})
}

fn put(table: &Table, key: &str, value: &Value) -> Applied {
    let bytes = serde_json::to_vec(value).unwrap();
    table.apply(&[Change { key, value: Some(&bytes) }], 0)
}

fn at_level(level: u8) -> Table {
    let table = Table::new(keys());
    let applied = put(&table, &keys().room("r"), &document("r", level, 1));
    assert_eq!((applied.changed, applied.refused.len()), (1, 0));
    table
}

/// How many of `n` ordinary messages pass, at once or later.
fn passed(table: &Table, class: Class, n: usize) -> usize {
    let ask = || table.admit("r", class, Tier::Ordinary, "u_1", 0);
    (0..n).filter(|_| !matches!(ask(), Verdict::Refuse { .. })).count()
}

#[test]
fn a_share_is_exact_over_a_thousand_messages_and_never_behind_by_one() {
    let table = at_level(2);
    let mut pass = 0;
    for n in 1..=1000 {
        pass += passed(&table, Class::Chat, 1);
        assert_eq!(pass, n * 2 / 5, "after {n} messages");
    }
    assert_eq!(passed(&table, Class::Command, 1000), 900);
    assert_eq!(passed(&table, Class::Heartbeat, 1000), 0);
}

#[test]
fn odd_shares_are_exact_as_well() {
    for (share, of_thousand) in [(0.001, 1), (0.333, 333), (0.5, 500), (0.999, 999), (1.0, 1000)] {
        let table = Table::new(keys());
        let mut doc = document("r", 2, 1);
        doc["classes"]["chat"]["admit"] = json!(share);
        put(&table, &keys().room("r"), &doc);
        assert_eq!(passed(&table, Class::Chat, 1000), of_thousand, "share {share}");
    }
}

#[test]
fn a_newer_document_goes_on_counting_where_the_old_one_was() {
    let table = at_level(2);
    let mut pass = 0;
    for seq in 2..=1001 {
        pass += passed(&table, Class::Chat, 1);
        put(&table, &keys().room("r"), &document("r", 2, seq));
    }
    assert_eq!(pass, 400, "a document a message must not let every first message pass");
}

#[test]
fn vips_pass_at_levels_one_and_two_and_not_at_three() {
    for (level, verdict) in [
        (1, Verdict::Admit),
        (2, Verdict::Admit),
        (3, Verdict::Refuse { reason: Reason::Survive, retry_after_ms: 10_000 }),
    ] {
        let table = at_level(level);
        for _ in 0..100 {
            assert_eq!(table.admit("r", Class::Chat, Tier::Vip, "u_1", 0), verdict, "{level}");
        }
    }
}

#[test]
fn at_level_three_the_users_named_pass() {
    let table = at_level(3);
    assert_eq!(table.admit("r", Class::Chat, Tier::Ordinary, "u_star", 0), Verdict::Admit);
    assert_eq!(passed(&table, Class::Chat, 100), 0);
    assert_eq!(passed(&table, Class::Broadcast, 100), 50);
}

#[test]
fn ordinary_chat_is_delayed_at_level_one() {
    let table = at_level(1);
    let verdict = table.admit("r", Class::Chat, Tier::Ordinary, "u_1", 0);
    assert_eq!(verdict, Verdict::Delay { ms: 100 });
    assert_eq!(table.admit("r", Class::Command, Tier::Ordinary, "u_1", 0), Verdict::Admit);
}

#[test]
fn system_and_gift_are_never_shed_whatever_the_document_says() {
    for level in 1..=3 {
        let table = Table::new(keys());
        let mut doc = document("r", level, 1);
        doc["classes"]["gift"] = json!({"admit": 0.0, "delay_ms": 50});
        doc["classes"]["system"] = json!({"admit": 0.0});
        put(&table, &keys().room("r"), &doc);
        for class in [Class::System, Class::Gift] {
            for _ in 0..100 {
                let verdict = table.admit("r", class, Tier::Ordinary, "u_1", 0);
                assert_eq!(verdict, Verdict::Admit, "{class:?} at level {level}");
            }
        }
    }
}

#[test]
fn an_unknown_class_is_the_lowest() {
    assert_eq!(class_of("danmaku-v9"), Class::Heartbeat);
    assert_eq!(class_of(""), Class::Heartbeat);
    assert_eq!(class_of("gift"), Class::Gift);
}

#[test]
fn a_delete_brings_the_groups_default_back_and_not_freedom() {
    let table = at_level(3);
    let matchers = json!([{"prefix": "c_", "group": "chat"}, {"group": "default"}]);
    put(&table, &keys().groups(), &matchers);
    let default = json!({"schema": 1, "group": "default", "epoch": 1, "seq": 1, "slot": 1,
        "level": 0, "classes": {"heartbeat": {"admit": 0.5}}, "hold_ms": 60000});
    put(&table, &keys().default("default"), &default);
    let gone = table.apply(&[Change { key: &keys().room("r"), value: None }], 0);
    assert_eq!(gone.changed, 1);
    assert_eq!(table.level("r", 0), Level(0));
    assert_eq!(passed(&table, Class::Chat, 100), 100);
    assert_eq!(passed(&table, Class::Heartbeat, 100), 50);
}

#[test]
fn the_newest_document_wins_whatever_the_order() {
    let table = at_level(1);
    put(&table, &keys().room("r"), &document("r", 3, 9));
    let old = put(&table, &keys().room("r"), &document("r", 1, 8));
    assert_eq!((old.stale, table.level("r", 0)), (1, Level(3)));
    let mut later_term = document("r", 2, 1);
    later_term["epoch"] = json!(2);
    put(&table, &keys().room("r"), &later_term);
    assert_eq!(table.level("r", 0), Level(2));
}

#[test]
fn a_bad_document_is_refused_and_the_old_one_kept() {
    let table = at_level(2);
    let good = document("r", 3, 2);
    let broken = |change: &dyn Fn(&mut Value)| {
        let mut doc = good.clone();
        change(&mut doc);
        serde_json::to_vec(&doc).unwrap()
    };
    let bad: Vec<Vec<u8>> = vec![
        b"".to_vec(),
        b"{".to_vec(),
        b"null".to_vec(),
        b"[]".to_vec(),
        vec![0xff, 0xfe],
        vec![b'['; 100_000],
        broken(&|d| d["level"] = json!(4)),
        broken(&|d| d["level"] = json!(-1)),
        broken(&|d| d["schema"] = json!(2)),
        broken(&|d| d["room"] = json!("other")),
        broken(&|d| d["room"] = Value::Null),
        broken(&|d| d["classes"]["chat"]["admit"] = json!(1.5)),
        broken(&|d| d["classes"]["chat"]["admit"] = json!(-0.1)),
        broken(&|d| d["classes"]["new_class"] = json!({"admit": 7})),
        broken(&|d| d["classes"]["chat"]["delay_ms"] = json!(60_001)),
        broken(&|d| d["seq"] = json!("1")),
        broken(&|d| d["users"]["top"] = json!(vec!["u"; 10_001])),
        vec![b' '; 2_000_000],
    ];
    let key = keys().room("r");
    for (n, value) in bad.iter().enumerate() {
        let applied = table.apply(&[Change { key: &key, value: Some(value) }], 0);
        assert_eq!((applied.changed, applied.refused.len()), (0, 1), "document {n}");
        assert_eq!(table.level("r", 0), Level(2), "document {n}");
    }
    assert_eq!(table.status(0).nacks, bad.len() as u64);
    assert_eq!(put(&table, &key, &good).changed, 1);
}

#[test]
fn fields_keys_and_modes_of_a_later_version_do_no_harm() {
    let table = at_level(2);
    let mut doc = document("r", 3, 2);
    doc["mode"] = json!("canary");
    doc["new"] = json!({"deep": [1, 2, 3]});
    doc["classes"]["lottery"] = json!({"admit": 0.5});
    assert_eq!(put(&table, &keys().room("r"), &doc).changed, 1);
    assert_eq!(passed(&table, Class::Chat, 10), 10, "a mode not known here is not enforced");
    let key = format!("{}service/danmaku", keys().shard());
    assert_eq!(put(&table, &key, &json!({"x": 1})).refused, []);
}

#[test]
fn the_digest_proves_the_copy_complete_and_a_gap_is_seen() {
    let table = Table::new(keys());
    let store: Vec<(String, Vec<u8>)> = (0..5)
        .map(|n| {
            let room = format!("r{n}");
            (keys().room(&room), serde_json::to_vec(&document(&room, 2, n)).unwrap())
        })
        .collect();
    let sum = digest(store.iter().map(|(k, v)| (k.as_str(), v.as_slice())));
    let heartbeat = Heartbeat {
        epoch: 1,
        seq: 4,
        digest: digest_text(sum),
        count: 5,
        ttl_ms: 3000,
        ..Default::default()
    };
    let heartbeat = serde_json::to_vec(&heartbeat).unwrap();
    let hb_key = keys().heartbeat();
    let mut all: Vec<Change<'_>> =
        store.iter().map(|(key, value)| Change { key, value: Some(value) }).collect();
    all.push(Change { key: &hb_key, value: Some(&heartbeat) });
    let missing = table.apply(&all[1..], 0);
    assert_eq!(missing.complete, Some(false));
    assert_eq!(table.replace(&all, 0).complete, Some(true));
    // A listing that lacks a room takes it out of the table.
    let fewer = table.replace(&all[..4], 0);
    assert_eq!((fewer.complete, table.status(0).rooms), (None, 4));
}

#[test]
fn states_follow_the_heartbeat_from_receipt() {
    let table = Table::new(keys());
    assert_eq!(table.status(0).state, State::Blind);
    let beat = |seq: u64, frozen: bool| {
        json!({"epoch": 1, "seq": seq, "slot": 1, "digest": "0000000000000000", "count": 0,
               "frozen": frozen, "ttl_ms": 3000})
    };
    let hear = |seq, frozen, now| {
        let bytes = serde_json::to_vec(&beat(seq, frozen)).unwrap();
        table.apply(&[Change { key: &keys().heartbeat(), value: Some(&bytes) }], now)
    };
    assert_eq!(hear(1, false, 1_000).complete, Some(true));
    let at = |now| table.status(now).state;
    assert_eq!((at(1_000), at(3_999), at(4_000)), (State::Fresh, State::Fresh, State::Hold));
    assert_eq!((at(300_999), at(301_000)), (State::Hold, State::Decay));
    hear(2, true, 400_000);
    assert_eq!((at(400_000), at(403_000)), (State::Frozen, State::Hold));
    assert_eq!(hear(1, false, 500_000).refused.len(), 1, "an older one is no sign of life");
    assert_eq!(table.status(500_000).applied, (1, 2));
}

#[test]
fn random_bytes_never_panic() {
    // A small generator of its own: the point is variety, not quality. Seed 1.
    let mut x = 1_u64;
    let mut next = || {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (x >> 33) as usize
    };
    let table = Table::new(keys());
    let good = serde_json::to_vec(&document("r", 2, 1)).unwrap();
    let names = [keys().room("r"), keys().heartbeat(), keys().groups(), keys().default("g")];
    for _ in 0..20_000 {
        let mut bytes = good.clone();
        for _ in 0..=next() % 4 {
            let at = next() % bytes.len();
            bytes[at] = next() as u8;
        }
        let key = &names[next() % names.len()];
        table.apply(&[Change { key, value: Some(&bytes) }], 0);
        let _ = table.admit("r", Class::ALL[next() % 6], Tier::Ordinary, "u", 0);
    }
}
