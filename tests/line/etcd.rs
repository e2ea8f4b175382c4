//! The publisher on a real etcd: elections, fences, lost answers, outages, a store that is wiped.

use super::etcd_kit::{begin, cluster, moved, publisher, settings, standing, until, writes};
use super::services::{self, eventually};
use barrage::publish::etcd::{Command, Event, leader, levels};
use barrage_protocol::ids::{Level, Slot};
use barrage_protocol::policy::{Heartbeat, Key, Policy};
use etcd_client::{Client, Compare, CompareOp, Txn, TxnOp, WatchOptions};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

async fn client(endpoint: &str) -> Client {
    Client::connect([endpoint], None).await.expect("etcd")
}

#[tokio::test(flavor = "multi_thread")]
async fn decisions_become_policies_on_both_versions_of_etcd() {
    for endpoint in [services::etcd(), services::etcd_oldest()] {
        let settings = settings(endpoint, &cluster(), "a");
        let mut one = publisher(&settings);
        let epoch = begin(&mut one, &[], 0).await;
        one.send(Command::Decisions(Slot(5), vec![moved("r/1", 0, 2, 5), moved("弹幕", 0, 1, 5)]));
        one.send(Command::Slot(Slot(5)));
        until(&mut one, "published", |e| *e == Event::Published(Slot(5))).await;
        let (rooms, beat) = standing(&settings).await;
        assert_eq!(rooms.keys().collect::<Vec<_>>(), ["r/1", "弹幕"]);
        assert_eq!(
            (rooms["r/1"].0, rooms["r/1"].1, beat.epoch, beat.slot),
            (2, epoch, epoch, Slot(5))
        );
        one.send(Command::Decisions(Slot(6), vec![moved("r/1", 2, 0, 6)]));
        until(&mut one, "published", |e| *e == Event::Published(Slot(6))).await;
        let (rooms, _) = standing(&settings).await;
        assert_eq!(rooms.keys().collect::<Vec<_>>(), ["弹幕"], "a delete is back to the default");
        let known = levels(&settings).await.expect("levels").0;
        assert_eq!(known, BTreeMap::from([("弹幕".to_owned(), Level(1))]));
        let told = leader(&settings).await.expect("a leader").expect("somebody");
        assert_eq!(told["instance"], "a");
        one.send(Command::Resign);
        while one.next().await.is_some() {}
        assert!(leader(&settings).await.expect("etcd").is_none(), "who resigns leaves at once");
    }
}

/// The leader dies: the next one leads within its lease, no key vanishes, and what stands is not written again.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_leader_is_followed_by_another_and_no_policy_vanishes() {
    let a = settings(services::etcd(), &cluster(), "a");
    let b = super::etcd_kit::settings(services::etcd(), &a.cluster, "b");
    let mut one = publisher(&a);
    let first = begin(&mut one, &[], 0).await;
    let rooms: Vec<String> = (0..300).map(|i| format!("r_{i}")).collect();
    let all = rooms.iter().map(|r| moved(r, 0, 2, 5)).collect();
    one.send(Command::Decisions(Slot(5), all));
    until(&mut one, "published", |e| *e == Event::Published(Slot(5))).await;
    let mut two = publisher(&b);
    let mut client = client(services::etcd()).await;
    let options = WatchOptions::new().with_prefix();
    let mut watch = client.watch(a.keys().tree(), Some(options)).await.expect("a watch");
    one.abort();
    let died = Instant::now();
    let known: Vec<(&str, u8)> = rooms.iter().map(|r| (r.as_str(), 2)).collect();
    let second = begin(&mut two, &known, first).await;
    assert!(second > first);
    two.send(Command::Slot(Slot(9)));
    let beat = loop {
        let answer = watch.message().await.expect("the watch lives").expect("an answer");
        for event in answer.events() {
            let kv = event.kv().expect("a key");
            assert_eq!(
                event.event_type(),
                etcd_client::EventType::Put,
                "{:?} vanished",
                kv.key_str()
            );
        }
        let beats = answer
            .events()
            .iter()
            .filter_map(|e| e.kv())
            .filter(|kv| kv.key() == a.keys().heartbeat().as_bytes());
        let read = beats.filter_map(|kv| serde_json::from_slice::<Heartbeat>(kv.value()).ok());
        if let Some(beat) = read.into_iter().find(|b| b.epoch == second) {
            break beat;
        }
    };
    assert!(died.elapsed() < Duration::from_secs(10), "{:?}", died.elapsed());
    assert_eq!(beat.count, 300);
    assert_eq!(writes(&a, "r_7").await, 1, "what stands and is right is not written again");
}

/// A leader whose lease was taken writes nothing more, although it believes that it leads.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_without_its_key_writes_nothing() {
    let a = settings(services::etcd(), &cluster(), "a");
    let mut one = publisher(&a);
    begin(&mut one, &[], 0).await;
    one.send(Command::Decisions(Slot(5), vec![moved("r", 0, 1, 5)]));
    until(&mut one, "published", |e| *e == Event::Published(Slot(5))).await;
    // Somebody else holds the key, under a later epoch.
    let mut other = client(services::etcd()).await;
    other.delete(a.leader_key(), None).await.expect("deleted");
    other.put(a.leader_key(), r#"{"instance":"b"}"#, None).await.expect("put");
    let beat = Heartbeat { epoch: u64::MAX, ..standing(&a).await.1 };
    other
        .put(a.keys().heartbeat(), serde_json::to_vec(&beat).expect("JSON"), None)
        .await
        .expect("put");
    one.send(Command::Decisions(Slot(6), vec![moved("r", 1, 3, 6)]));
    until(&mut one, "fenced", |e| *e == Event::Fenced).await;
    assert!(one.status().fenced >= 1, "{:?}", one.status());
    assert_eq!(writes(&a, "r").await, 1);
}

/// Both compares are needed. A write that was long on its way arrives after the same leader's next one: the compare on
/// the leader's key lets it pass, the one on the heartbeat does not.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_arrives_late_is_stopped_by_the_heartbeat_alone() {
    let endpoint = services::etcd();
    let name = cluster();
    let mut etcd = client(endpoint).await;
    let (leader, beat, room) =
        (format!("{name}/leader"), format!("{name}/_hb"), format!("{name}/room"));
    let made = etcd.put(leader.as_str(), "a", None).await.expect("put");
    let term = made.header().map_or(0, |h| h.revision());
    let write = |seen: Option<i64>, value: &'static str| {
        let lead = Compare::create_revision(leader.as_str(), CompareOp::Equal, term);
        let fresh = seen.map(|seen| Compare::mod_revision(beat.as_str(), CompareOp::Equal, seen));
        let compares: Vec<_> = std::iter::once(lead).chain(fresh).collect();
        let put = |key: &str| TxnOp::put(key, value, None);
        Txn::new().when(compares).and_then([put(&room), put(&beat)])
    };
    for (compares, expected) in [(true, "level 1"), (false, "level 3")] {
        let seen = etcd
            .put(beat.as_str(), "0", None)
            .await
            .expect("put")
            .header()
            .map_or(0, |h| h.revision());
        let seen = compares.then_some(seen);
        let late = write(seen, "level 3");
        assert!(etcd.txn(write(seen, "level 1")).await.expect("sent again").succeeded());
        assert_eq!(etcd.txn(late).await.expect("it arrives").succeeded(), !compares);
        let stands = etcd.get(room.as_str(), None).await.expect("get");
        assert_eq!(stands.kvs().first().and_then(|kv| kv.value_str().ok()), Some(expected));
    }
}

/// etcd is away while levels rise and fall: afterwards each key is written once, raises first.
#[tokio::test(flavor = "multi_thread")]
async fn after_an_outage_each_key_is_written_once() {
    let etcd = services::private_etcd();
    let a = settings(etcd.url(), &cluster(), "a");
    let mut one = publisher(&a);
    let epoch = begin(&mut one, &[], 0).await;
    one.send(Command::Decisions(Slot(5), vec![moved("down", 0, 3, 5)]));
    until(&mut one, "published", |e| *e == Event::Published(Slot(5))).await;
    etcd.kill9();
    until(&mut one, "lost", |e| *e == Event::Lost).await;
    for slot in 6..60 {
        let level = |n: u64| (n % 3 + 1) as u8;
        let mut all = vec![moved("storm", level(slot), level(slot + 1), slot)];
        if slot == 30 {
            all.push(moved("down", 3, 0, slot));
            all.push(moved("top", 0, 3, slot));
        }
        one.send(Command::Decisions(Slot(slot), all));
    }
    etcd.start_again();
    let back = Instant::now();
    // The same controller is elected again, and nobody led meanwhile: it goes on under its epoch.
    until(&mut one, "elected", |e| matches!(e, Event::Leading { .. })).await;
    one.send(Command::Begin { epoch });
    until(&mut one, "published", |e| *e == Event::Published(Slot(59))).await;
    println!("converged {:?} after the return", back.elapsed());
    assert!(back.elapsed() < Duration::from_secs(15), "{:?}", back.elapsed());
    let (rooms, _) = standing(&a).await;
    let levels: Vec<_> = rooms.iter().map(|(room, (level, ..))| (room.as_str(), *level)).collect();
    assert_eq!(levels, [("storm", 1), ("top", 3)]);
    for room in ["storm", "top"] {
        assert_eq!(writes(&a, room).await, 1, "{room}");
    }
    assert!(rooms["top"].2 < rooms["storm"].2, "the highest raise first: {rooms:?}");
}

/// A store that is wiped gets everything anew, from the same controller.
#[tokio::test(flavor = "multi_thread")]
async fn a_wiped_store_gets_everything_anew() {
    let etcd = services::private_etcd();
    let a = settings(etcd.url(), &cluster(), "a");
    let mut one = publisher(&a);
    let epoch = begin(&mut one, &[], 0).await;
    one.send(Command::Decisions(Slot(5), vec![moved("r", 0, 2, 5)]));
    until(&mut one, "published", |e| *e == Event::Published(Slot(5))).await;
    etcd.kill9();
    etcd.wipe();
    etcd.start_again();
    until(&mut one, "elected again", |e| matches!(e, Event::Leading { .. })).await;
    one.send(Command::Begin { epoch });
    let mut now = standing_when_there(&a).await;
    while now.0.is_empty() {
        now = standing_when_there(&a).await;
    }
    assert_eq!((now.0["r"].0, now.1.epoch), (2, epoch));
}

async fn standing_when_there(
    settings: &barrage::publish::etcd::Settings,
) -> (BTreeMap<String, (u8, u64, u64)>, Heartbeat) {
    let there = || async {
        let all = barrage::publish::etcd::list(settings).await.unwrap_or_default();
        all.contains_key(&settings.keys().heartbeat())
    };
    let until = Instant::now() + Duration::from_secs(20);
    while !there().await {
        assert!(Instant::now() < until, "no heartbeat");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    standing(settings).await
}

/// A dataflow that stands still does not keep its leadership.
#[tokio::test(flavor = "multi_thread")]
async fn who_stands_still_is_no_leader_for_long() {
    let a = settings(services::etcd(), &cluster(), "a");
    let b = settings(services::etcd(), &a.cluster, "b");
    let mut one = publisher(&a);
    let first = begin(&mut one, &[], 0).await;
    one.send(Command::Stalled(true));
    until(&mut one, "lost", |e| *e == Event::Lost).await;
    let mut two = publisher(&b);
    assert!(begin(&mut two, &[], first).await > first);
    eventually("the other leads", || two.status().leads);
    assert!(!one.status().leads);
}

/// E03: a lease that is gone answers a keep-alive without an error. The leader takes it as what it is, stands for election
/// again with a lease of its own, and writes nothing in between.
#[tokio::test(flavor = "multi_thread")]
async fn e03_a_lease_that_is_gone_is_noticed_and_granted_anew() {
    let a = settings(services::etcd(), &cluster(), "a");
    let mut one = publisher(&a);
    let epoch = begin(&mut one, &[], 0).await;
    one.send(Command::Decisions(Slot(5), vec![moved("r", 0, 1, 5)]));
    until(&mut one, "published", |e| *e == Event::Published(Slot(5))).await;
    let told = leader(&a).await.expect("etcd").expect("a leader");
    let lease = told["lease"].as_i64().expect("a lease");
    client(services::etcd()).await.lease_revoke(lease).await.expect("revoked");
    until(&mut one, "lost", |e| *e == Event::Lost).await;
    until(&mut one, "elected again", |e| matches!(e, Event::Leading { .. })).await;
    let again = leader(&a).await.expect("etcd").expect("a leader");
    assert_ne!(again["lease"].as_i64(), Some(lease));
    one.send(Command::Begin { epoch });
    one.send(Command::Decisions(Slot(6), vec![moved("r", 1, 3, 6)]));
    until(&mut one, "published", |e| *e == Event::Published(Slot(6))).await;
    assert_eq!(standing(&a).await.0["r"].0, 3);
}

/// More rooms than are published one by one: their group's default moves, loudly, and back again.
#[tokio::test(flavor = "multi_thread")]
async fn beyond_the_limit_the_default_of_the_group_moves() {
    let a = settings(services::etcd(), &cluster(), "a");
    let mut one = publisher(&a);
    begin(&mut one, &[], 0).await;
    let all: Vec<_> = (0..20_050).map(|i| moved(&format!("r_{i:05}"), 0, 2, 5)).collect();
    one.send(Command::Decisions(Slot(5), all));
    until(&mut one, "the alarm", |e| matches!(e, Event::Alarm(_))).await;
    until(&mut one, "published", |e| *e == Event::Published(Slot(5))).await;
    let default = |all: &BTreeMap<String, Vec<u8>>| {
        let of =
            all.iter().find(|(k, _)| matches!(a.keys().read(k), Key::Default(g) if g == "default"));
        serde_json::from_slice::<Policy>(of.expect("a default").1).expect("a policy").level
    };
    let list = barrage::publish::etcd::list(&a).await.expect("a list of more than 4 MiB in pages");
    assert_eq!((default(&list), standing(&a).await.0.len()), (Level(2), 20_000));
    let calm: Vec<_> = (0..20_040).map(|i| moved(&format!("r_{i:05}"), 2, 0, 6)).collect();
    one.send(Command::Decisions(Slot(6), calm));
    until(&mut one, "published", |e| *e == Event::Published(Slot(6))).await;
    let list = barrage::publish::etcd::list(&a).await.expect("a list");
    assert_eq!((default(&list), standing(&a).await.0.len()), (Level(0), 10));
}
