//! Publishers on a real etcd, and what an edge would see of them.

use super::services::unique;
use barrage::publish::etcd::{self, Command, Event, Handle, Settings};
use barrage_engine::rules::RuleSet;
use barrage_protocol::decision::{Decision, Id, Kind, Scope, Value};
use barrage_protocol::ids::{Level, Slot};
use barrage_protocol::policy::{Heartbeat, Key, Policy, digest, digest_text};
use etcd_client::Client;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) const FIRST: Slot = Slot(17_000_000_000);

/// A move of a room's level.
pub(crate) fn moved(room: &str, from: u8, to: u8, slot: u64) -> Decision {
    let evidence = [("rate_10s", Value::Dec(624.0)), ("burst_ratio", Value::Dec(4.2))];
    let mut id = [0; 16];
    id[..8].copy_from_slice(&slot.to_be_bytes());
    id[8] = to;
    id[9..].copy_from_slice(&blake(room));
    Decision {
        id: Id(id),
        slot: Slot(FIRST.0 + slot),
        scope: Scope::Room,
        subject: room.into(),
        class: None,
        kind: Kind::Level,
        rule: "burst".into(),
        rule_version: 1,
        mode: "enforce".into(),
        from: from.to_string(),
        to: to.to_string(),
        actor: "auto".into(),
        rules_hash: "h".into(),
        prev: None,
        evidence: evidence.map(|(k, v)| (k.to_owned(), v)).into(),
        offsets: BTreeMap::new(),
    }
}

fn blake(text: &str) -> [u8; 7] {
    let mut bytes = [0_u8; 7];
    text.bytes()
        .enumerate()
        .for_each(|(i, b)| bytes[i % 7] = bytes[i % 7].wrapping_mul(31).wrapping_add(b));
    bytes
}

/// A cluster's name that no other test has.
pub(crate) fn settings(endpoint: &str, cluster: &str, instance: &str) -> Settings {
    Settings { lease_s: 2, ..Settings::at(endpoint, cluster, instance) }
}

pub(crate) fn cluster() -> String {
    unique("cluster")
}

/// A publisher on the runtime of the test.
pub(crate) fn publisher(settings: &Settings) -> Handle {
    let rules = Arc::new(RuleSet::shipped());
    etcd::spawn(&tokio::runtime::Handle::current(), settings.clone(), rules, FIRST)
}

/// Waits for an event that fits.
pub(crate) async fn until(handle: &mut Handle, what: &str, fits: impl Fn(&Event) -> bool) -> Event {
    let wait = async {
        loop {
            let event = handle.next().await.expect("the publisher lives");
            if fits(&event) {
                return event;
            }
        }
    };
    let waited = tokio::time::timeout(std::time::Duration::from_secs(30), wait).await;
    waited.unwrap_or_else(|_| panic!("not within 30 s: {what}; {:?}", handle.status()))
}

/// Waits for the election, and begins with the levels known.
pub(crate) async fn begin(handle: &mut Handle, levels: &[(&str, u8)], last: u64) -> u64 {
    let won = until(handle, "elected", |e| matches!(e, Event::Leading { .. })).await;
    let Event::Leading { create_revision, published } = won else { unreachable!() };
    let epoch = etcd::epoch(create_revision, last, published.map_or(0, |b| b.epoch));
    let levels = levels.iter().map(|(room, level)| ((*room).to_owned(), Level(*level))).collect();
    assert!(handle.send(Command::Levels(levels)));
    assert!(handle.send(Command::Begin { epoch }));
    epoch
}

/// What stands in etcd: levels by room, the heartbeat; its digest is checked.
pub(crate) async fn standing(settings: &Settings) -> (BTreeMap<String, (u8, u64, u64)>, Heartbeat) {
    let all = etcd::list(settings).await.expect("a list");
    let keys = settings.keys();
    let mut rooms = BTreeMap::new();
    let mut beat = None;
    for (key, value) in &all {
        match keys.read(key) {
            Key::Room(room) => {
                let policy: Policy = serde_json::from_slice(value).expect("a policy");
                rooms.insert(room, (policy.level.0, policy.epoch, policy.seq));
            }
            Key::Heartbeat => {
                beat = Some(serde_json::from_slice::<Heartbeat>(value).expect("a heartbeat"))
            }
            _ => {}
        }
    }
    let beat = beat.expect("a heartbeat");
    let covered =
        all.iter().filter(|(k, _)| k.starts_with(keys.shard()) && **k != keys.heartbeat());
    let sum = digest(covered.clone().map(|(k, v)| (k.as_str(), v.as_slice())));
    assert_eq!(beat.digest, digest_text(sum));
    assert_eq!(beat.count, covered.count() as u64);
    (rooms, beat)
}

/// How often a room's key was written since it was made.
pub(crate) async fn writes(settings: &Settings, room: &str) -> i64 {
    let mut client = Client::connect(&settings.endpoints, None).await.expect("etcd");
    let got = client.get(settings.keys().room(room), None).await.expect("get");
    got.kvs().first().map_or(0, etcd_client::KeyValue::version)
}
