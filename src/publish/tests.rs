//! Tests of plan, store and writer: what is written when, in which order, and who is fenced.

use super::memory::{EVENTS_MAX, Fault, Store};
use super::plan::{BATCH_MAX, Plan};
use super::writer::{Refused, Writer};
use barrage_engine::fixed::Fixed;
use barrage_engine::rules::{Group, Ladder, LevelPolicy, Matcher, Measure, RuleSet, Shape};
use barrage_protocol::decision::{Decision, Id, Kind, Scope, Value};
use barrage_protocol::ids::{Class, Level, Slot};
use barrage_protocol::policy::{Heartbeat, Keys, Policy, digest, digest_text};
use std::collections::BTreeMap;
use std::sync::Arc;

fn rules() -> Arc<RuleSet> {
    let admit = |share: i64| Measure { admit: Some(Fixed::milli(share)), ..Measure::default() };
    let chat = Measure { buffer: Some(5_000), ttl_ms: Some(30_000), ..admit(400) };
    let delay = Measure { delay_ms: Some(100), ..Measure::default() };
    let top = Measure { top_only: true, ..Measure::default() };
    let level = |classes: &[(Class, &Measure)], off| LevelPolicy {
        classes: classes.iter().map(|(c, m)| (*c, (*m).clone())).collect(),
        off,
    };
    Arc::new(RuleSet {
        hash: "h1".into(),
        text: String::new(),
        ladder: ladder(),
        levels: BTreeMap::from([
            (Level(1), level(&[(Class::Chat, &delay)], 2)),
            (Level(2), level(&[(Class::Chat, &chat), (Class::Heartbeat, &admit(0))], 4)),
            (Level(3), level(&[(Class::Chat, &top)], 9)),
        ]),
        plan: ["like_count", "entrance", "ranking", "combo", "effects"].map(Into::into).to_vec(),
        groups: vec![
            Group {
                id: "chat".into(),
                matcher: Matcher::Prefix("c_".into()),
                set: BTreeMap::new(),
                shape: SHAPE,
            },
            Group {
                id: "default".into(),
                matcher: Matcher::Any,
                set: BTreeMap::new(),
                shape: SHAPE,
            },
        ],
        rules: Vec::new(),
        notes: Vec::new(),
    })
}

const SHAPE: Shape = Shape { capacity: 10_000, max_wait_ms: 500, drain_qps: 18_000 };

fn ladder() -> Ladder {
    Ladder {
        min_dwell: 100,
        step_every: 100,
        max_moves: 3,
        moves_within: 6_000,
        blast_min: 5,
        blast_max_share: Fixed::milli(200),
        blast_within: 600,
        blast_lift_ratio: Fixed::int(2),
        frozen_max: 72_000,
        frozen_alarm: 9_000,
    }
}

fn moved(room: &str, from: u8, to: u8, slot: u64) -> Decision {
    let evidence = [
        ("burst_ratio", Value::milli(4_200)),
        ("ratio_level_1", Value::milli(2_000)),
        ("ratio_level_2", Value::milli(4_000)),
        ("baseline", Value::milli(120_000)),
        ("rate_10s", Value::milli(624_000)),
    ];
    Decision {
        id: Id([to; 16]),
        slot: Slot(slot),
        scope: Scope::Room,
        subject: room.into(),
        class: None,
        kind: Kind::Level,
        rule: "burst".into(),
        rule_version: 17,
        mode: "enforce".into(),
        from: from.to_string(),
        to: to.to_string(),
        actor: "auto".into(),
        rules_hash: "h1".into(),
        prev: None,
        evidence: evidence.into_iter().map(|(k, v)| (k.to_owned(), v)).collect(),
        offsets: BTreeMap::new(),
    }
}

fn keys() -> Keys {
    Keys::new("test", 0)
}

/// A plan whose defaults are written already.
fn plan() -> Plan {
    let mut plan = Plan::new(keys(), 3, rules(), Slot(1));
    let frame = plan.batch(Slot(1), false);
    assert_eq!(frame.changes.len(), 3, "matchers and two defaults");
    plan.written(frame);
    plan
}

fn rooms(plan: &mut Plan) -> Vec<(String, u8)> {
    let batch = plan.batch(Slot(9), false);
    let list = batch.rooms.iter().map(|(r, p)| (r.clone(), p.as_ref().map_or(0, |p| p.level.0)));
    let list = list.collect();
    plan.written(batch);
    list
}

#[test]
fn a_level_becomes_the_document_of_the_table() {
    let mut plan = plan();
    plan.take(&[moved("c_1", 1, 2, 5)]);
    let batch = plan.batch(Slot(5), false);
    let (key, value) = &batch.changes[0];
    assert_eq!(*key, keys().room("c_1"));
    let policy: Policy = serde_json::from_slice(value.as_ref().unwrap()).unwrap();
    assert_eq!((policy.group.as_str(), policy.level, policy.epoch), ("chat", Level(2), 3));
    assert_eq!(policy.classes["chat"].admit, Some(0.4));
    assert_eq!(policy.classes["heartbeat"].admit, Some(0.0));
    assert_eq!(policy.shape.unwrap().chat_buffer, Some(5_000));
    assert_eq!(policy.off, ["like_count", "entrance", "ranking", "combo"]);
    let why = policy.why.unwrap();
    assert_eq!((why.code.as_str(), why.observed, why.threshold), ("burst_ratio", 4.2, 4.0));
    assert_eq!((why.baseline, why.current), (Some(120.0), Some(624.0)));
    assert_eq!(policy.decision, Some(Id([2; 16])));
}

#[test]
fn at_level_three_an_edge_that_knows_no_named_users_refuses() {
    let mut plan = plan();
    plan.take(&[moved("r", 0, 3, 5)]);
    let batch = plan.batch(Slot(5), false);
    let policy = batch.rooms[0].1.clone().unwrap();
    assert_eq!(policy.classes["chat"].admit, Some(0.0));
    assert_eq!(policy.users.unwrap().top, Vec::<String>::new());
    assert_eq!(policy.off.len(), 5, "no more switches than the plan has");
    assert_eq!(policy.group, "default");
}

#[test]
fn raises_come_first_the_highest_first_then_what_falls() {
    let mut plan = plan();
    plan.take(&[moved("a", 0, 3, 1), moved("b", 0, 2, 1), moved("c", 0, 1, 1)]);
    assert_eq!(rooms(&mut plan), [("a".into(), 3), ("b".into(), 2), ("c".into(), 1)]);
    plan.take(&[
        moved("a", 3, 2, 2),
        moved("b", 1, 0, 2),
        moved("c", 1, 2, 2),
        moved("z", 0, 1, 2),
    ]);
    let order = rooms(&mut plan);
    assert_eq!(
        order,
        [("c".into(), 2), ("z".into(), 1), ("a".into(), 2), ("b".into(), 0)],
        "raises, then falls"
    );
}

#[test]
fn level_zero_deletes_and_what_has_not_changed_is_not_written() {
    let mut plan = plan();
    plan.take(&[moved("a", 0, 1, 1)]);
    assert_eq!(rooms(&mut plan).len(), 1);
    plan.take(&[moved("a", 1, 2, 2), moved("a", 2, 1, 3)]);
    assert_eq!(rooms(&mut plan), [], "back to where it was before anything was written");
    plan.take(&[moved("a", 1, 0, 4)]);
    let batch = plan.batch(Slot(4), false);
    assert_eq!(batch.changes, [(keys().room("a"), None)]);
    plan.written(batch);
    plan.take(&[moved("b", 0, 1, 5), moved("b", 1, 0, 6)]);
    assert_eq!(rooms(&mut plan), [], "up and down again between two writes");
    // Kinds that move no level publish nothing.
    let surge = Decision { kind: Kind::Surge, to: "on".into(), ..moved("s", 0, 1, 7) };
    plan.take(&[surge]);
    assert_eq!(plan.waiting(), 0);
}

#[test]
fn a_batch_that_was_not_taken_is_offered_again() {
    let mut plan = plan();
    plan.take(&[moved("a", 0, 1, 1)]);
    let lost = plan.batch(Slot(1), false);
    plan.take(&[moved("a", 1, 2, 2)]);
    let again = plan.batch(Slot(2), false);
    assert_eq!(lost.rooms[0].1.as_ref().unwrap().level, Level(1));
    assert_eq!(again.rooms[0].1.as_ref().unwrap().level, Level(2));
}

#[test]
fn batches_are_bounded() {
    let mut plan = plan();
    let all: Vec<Decision> = (0..300).map(|n| moved(&format!("r{n:03}"), 0, 1, 1)).collect();
    plan.take(&all);
    let sizes: Vec<usize> = (0..4).map(|_| rooms(&mut plan).len()).collect();
    assert_eq!(sizes, [BATCH_MAX, BATCH_MAX, 48, 0]);
}

#[test]
fn the_heartbeat_proves_what_the_store_holds() {
    let store = Store::default();
    let mut writer = Writer::new(plan(), store.clone(), &keys(), 3);
    let levels = [(1, "a"), (2, "b"), (3, "c"), (0, "b"), (2, "a"), (1, "d"), (0, "a"), (0, "c")];
    for (n, (level, room)) in levels.into_iter().enumerate() {
        let slot = n as u64;
        writer.plan().take(&[moved(room, 0, level, slot)]);
        writer.step(slot * 1_000, Slot(slot), false).unwrap();
        let (entries, _) = store.list(keys().shard());
        let hb_key = keys().heartbeat();
        let rest = entries.iter().filter(|e| e.key != hb_key);
        let sum = digest(rest.clone().map(|e| (e.key.as_str(), e.value.as_slice())));
        let beat: Heartbeat = serde_json::from_slice(&store.get(&hb_key).unwrap().value).unwrap();
        assert_eq!((beat.digest, beat.count), (digest_text(sum), rest.count() as u64));
        assert_eq!(beat.slot, Slot(slot));
    }
}

#[test]
fn writes_are_coalesced_and_the_heart_beats_without_news() {
    let mut writer = Writer::new(plan(), Store::default(), &keys(), 3);
    writer.step(0, Slot(0), false).unwrap();
    for now in (10..=190).step_by(10) {
        writer.plan().take(&[moved(&format!("r{now}"), 0, 1, now)]);
        assert_eq!(writer.step(now, Slot(now), false), Ok(0), "at {now} ms");
    }
    assert_eq!(writer.step(200, Slot(200), false), Ok(19));
    assert_eq!(writer.transactions(), 2);
    assert_eq!(writer.step(1_199, Slot(1), false), Ok(0));
    assert_eq!(writer.transactions(), 2);
    writer.step(1_200, Slot(1), false).unwrap();
    assert_eq!(writer.transactions(), 3);
    // More than a batch does not wait.
    let all: Vec<Decision> = (0..300).map(|n| moved(&format!("x{n}"), 0, 1, 1)).collect();
    writer.plan().take(&all);
    assert_eq!(writer.step(1_201, Slot(1), false), Ok(2 * BATCH_MAX));
    assert_eq!(writer.step(1_401, Slot(1), false), Ok(48));
}

#[test]
fn a_later_term_ends_the_earlier_writer() {
    let store = Store::default();
    let mut old = Writer::new(plan(), store.clone(), &keys(), 3);
    let mut new = Writer::new(Plan::new(keys(), 4, rules(), Slot(1)), store.clone(), &keys(), 4);
    old.step(0, Slot(0), false).unwrap();
    new.step(10, Slot(1), false).unwrap();
    old.plan().take(&[moved("a", 0, 3, 2)]);
    assert_eq!(old.step(1_000, Slot(2), false), Err(Refused::Fenced(4)));
    assert!(store.get(&keys().room("a")).is_none());
    assert!(new.step(1_020, Slot(3), false).is_ok());
}

#[test]
fn a_watch_from_the_listing_on_sees_everything_once() {
    let store = Store::default();
    let put = |key: &str, value: &str| {
        store.write(&[], vec![(key.to_owned(), Some(value.as_bytes().to_vec()))]).unwrap()
    };
    put("p/a", "1");
    put("q/z", "1");
    let (entries, revision) = store.list("p/");
    assert_eq!((entries.len(), revision), (1, 2));
    let mut watch = store.watch("p/", revision + 1);
    assert_eq!(watch.poll(), Ok(vec![]));
    put("p/b", "2");
    put("q/y", "2");
    let both = vec![("p/a".to_owned(), None), ("p/c".to_owned(), Some(b"3".to_vec()))];
    let at = store.write(&[("p/a", 1)], both).unwrap();
    let seen = watch.poll().unwrap();
    let list: Vec<(u64, &str, bool)> =
        seen.iter().map(|e| (e.revision, e.key.as_str(), e.value.is_some())).collect();
    assert_eq!(list, [(3, "p/b", true), (at, "p/a", false), (at, "p/c", true)]);
    assert_eq!(watch.poll(), Ok(vec![]));
}

#[test]
fn a_comparison_that_fails_changes_nothing() {
    let store = Store::default();
    let change = |v: &str| vec![("k".to_owned(), Some(v.as_bytes().to_vec()))];
    let first = store.write(&[("k", 0)], change("1")).unwrap();
    let conflict = store.write(&[("k", 0)], change("2"));
    assert_eq!(conflict, Err(Fault::Conflict { key: "k".into(), expected: 0, found: first }));
    assert_eq!(store.get("k").unwrap().value, b"1");
    let gone = store.write(&[], vec![("absent".into(), None)]).unwrap();
    assert_eq!(gone, first, "deleting nothing is no revision");
}

#[test]
fn a_watch_that_lags_too_far_is_told_to_list_again() {
    let store = Store::default();
    let mut watch = store.watch("", 1);
    for n in 0..=EVENTS_MAX {
        store.write(&[], vec![("k".into(), Some(n.to_string().into_bytes()))]).unwrap();
    }
    assert_eq!(watch.poll(), Err(Fault::Compacted(1)));
    let (_, revision) = store.list("");
    assert_eq!(store.watch("", revision + 1).poll(), Ok(vec![]));
}
