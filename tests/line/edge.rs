//! An edge on a real etcd: it obeys, it holds, it comes back; whatever happens to its watch.

use super::etcd_kit::{begin, cluster, moved, publisher, settings, until};
use super::services::{self, eventually, within};
use barrage::publish::etcd::{Command, Event};
use barrage_edge::{Edge, Settings, State, Verdict};
use barrage_protocol::ids::{Class, Level, Slot, Tier};
use etcd_client::Client;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

fn edge(endpoint: &str, cluster: &str, snapshot: Option<std::path::PathBuf>) -> Edge {
    Edge::start(Settings {
        edge: "gw-1".into(),
        endpoints: vec![endpoint.to_owned()],
        user: None,
        cluster: cluster.to_owned(),
        shard: 0,
        snapshot,
        seed: 7,
    })
}

fn level(edge: &Edge, room: &str) -> Level {
    edge.table().level(room, edge.now_ms())
}

/// What of 100 chat messages passes.
fn passes(edge: &Edge, room: &str) -> usize {
    let ask = || edge.table().admit(room, Class::Chat, Tier::Ordinary, "u", edge.now_ms());
    (0..100).filter(|_| !matches!(ask(), Verdict::Refuse { .. })).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edge_obeys_what_is_published() {
    let a = settings(services::etcd(), &cluster(), "a");
    let edge = edge(services::etcd(), &a.cluster, None);
    let mut one = publisher(&a);
    begin(&mut one, &[], 0).await;
    one.send(Command::Decisions(Slot(5), vec![moved("hot", 0, 2, 5)]));
    until(&mut one, "published", |e| *e == Event::Published(Slot(5))).await;
    within(Duration::from_secs(10), "the edge has it", || level(&edge, "hot") == Level(2));
    assert_eq!((passes(&edge, "hot"), passes(&edge, "calm")), (40, 100));
    eventually("it is fresh", || edge.status().state == State::Fresh);
    one.send(Command::Decisions(Slot(6), vec![moved("hot", 2, 0, 6)]));
    within(Duration::from_secs(10), "back to the default", || level(&edge, "hot") == Level(0));
    assert_eq!(edge.counters().wrong.load(Ordering::Relaxed), 0);
    edge.stop().await;
}

/// E04: the controller dies and its lease runs out: the gates stay as they are, neither open nor closed for ever.
#[tokio::test(flavor = "multi_thread")]
async fn e04_a_dead_controller_does_not_open_the_gates() {
    let a = settings(services::etcd(), &cluster(), "a");
    let edge = edge(services::etcd(), &a.cluster, None);
    let mut one = publisher(&a);
    begin(&mut one, &[], 0).await;
    one.send(Command::Decisions(Slot(5), vec![moved("hot", 0, 3, 5)]));
    until(&mut one, "published", |e| *e == Event::Published(Slot(5))).await;
    eventually("the edge has it", || level(&edge, "hot") == Level(3));
    one.abort();
    within(Duration::from_secs(20), "it holds", || edge.status().state == State::Hold);
    // The lease has run out, and nothing has changed.
    let mut client = Client::connect([services::etcd()], None).await.unwrap();
    let until = Instant::now() + Duration::from_secs(10);
    while !client.get(a.leader_key(), None).await.unwrap().kvs().is_empty() {
        assert!(Instant::now() < until, "the lease does not run out");
    }
    assert_eq!((level(&edge, "hot"), passes(&edge, "hot")), (Level(3), 0));
    // Five minutes later it falls, one level after another, on the edge's own clock.
    let at = |s: u64| edge.table().level("hot", edge.now_ms() + s * 1_000);
    assert_eq!([at(290), at(305), at(335), at(365)], [Level(3), Level(2), Level(1), Level(0)]);
}

/// etcd dies and comes back: the copy is whole again within two seconds of its return.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_cut_the_copy_is_whole_again() {
    let etcd = services::private_etcd();
    let a = settings(etcd.url(), &cluster(), "a");
    let edge = edge(etcd.url(), &a.cluster, None);
    let mut one = publisher(&a);
    let epoch = begin(&mut one, &[], 0).await;
    one.send(Command::Decisions(Slot(5), vec![moved("hot", 0, 2, 5)]));
    eventually("the edge has it", || level(&edge, "hot") == Level(2));
    etcd.kill9();
    within(Duration::from_secs(15), "it holds", || edge.status().state == State::Hold);
    assert_eq!(passes(&edge, "hot"), 40);
    etcd.start_again();
    // Something changes before the edge is back.
    let mut client = Client::connect([etcd.url()], None).await.unwrap();
    client.delete(a.leader_key(), None).await.unwrap();
    until(&mut one, "elected", |e| matches!(e, Event::Leading { .. })).await;
    one.send(Command::Begin { epoch });
    one.send(Command::Decisions(Slot(6), vec![moved("other", 0, 1, 6)]));
    until(&mut one, "published", |e| *e == Event::Published(Slot(6))).await;
    eventually("it has what it missed", || level(&edge, "other") == Level(1));
    eventually("it is fresh", || edge.status().state == State::Fresh);
    assert_eq!(level(&edge, "hot"), Level(2));
}

/// E01: everything between was compacted away while the edge was cut off.
#[tokio::test(flavor = "multi_thread")]
async fn e01_a_compacted_history_is_listed() {
    let etcd = services::private_etcd();
    let name = cluster();
    let a = settings(etcd.url(), &name, "a");
    let mut one = publisher(&a);
    begin(&mut one, &[], 0).await;
    let edge = edge(etcd.url(), &name, None);
    eventually("it is fresh", || edge.status().state == State::Fresh);
    let listings = edge.counters().listings.load(Ordering::Relaxed);
    etcd.pause();
    within(Duration::from_secs(15), "it notices", || {
        edge.counters().failures.load(Ordering::Relaxed) > 0
    });
    etcd.resume();
    let mut client = Client::connect([etcd.url()], None).await.unwrap();
    for _ in 0..50 {
        let put = client.put("x", "y", None).await.unwrap();
        let revision = put.header().map_or(0, |h| h.revision());
        client.compact(revision, None).await.unwrap();
    }
    eventually("it is fresh again", || {
        edge.status().state == State::Fresh
            && edge.counters().listings.load(Ordering::Relaxed) >= listings
    });
}

/// The store is wiped and written anew: what was held before is gone, what is new is in force.
#[tokio::test(flavor = "multi_thread")]
async fn a_wiped_store_is_taken_as_it_is() {
    let etcd = services::private_etcd();
    let a = settings(etcd.url(), &cluster(), "a");
    let edge = edge(etcd.url(), &a.cluster, None);
    let mut one = publisher(&a);
    let epoch = begin(&mut one, &[], 0).await;
    one.send(Command::Decisions(Slot(5), vec![moved("hot", 0, 2, 5)]));
    eventually("the edge has it", || level(&edge, "hot") == Level(2));
    etcd.kill9();
    etcd.wipe();
    etcd.start_again();
    until(&mut one, "elected", |e| matches!(e, Event::Leading { .. })).await;
    one.send(Command::Decisions(Slot(6), vec![moved("hot", 2, 0, 6), moved("new", 0, 3, 6)]));
    one.send(Command::Begin { epoch });
    eventually("the edge has the new", || level(&edge, "new") == Level(3));
    eventually("and not the old", || level(&edge, "hot") == Level(0));
    eventually("it is fresh", || edge.status().state == State::Fresh);
}

/// An edge that starts while etcd is away enforces what lay on its disk, at once.
#[tokio::test(flavor = "multi_thread")]
async fn an_edge_started_without_etcd_enforces_its_copy() {
    let etcd = services::private_etcd();
    let a = settings(etcd.url(), &cluster(), "a");
    let path = std::env::temp_dir().join(format!("barrage-{}.copy", a.cluster));
    let first = edge(etcd.url(), &a.cluster, Some(path.clone()));
    let mut one = publisher(&a);
    begin(&mut one, &[], 0).await;
    one.send(Command::Decisions(Slot(5), vec![moved("hot", 0, 2, 5)]));
    eventually("the edge has it", || level(&first, "hot") == Level(2));
    first.stop().await;
    etcd.kill9();
    let began = Instant::now();
    let second = edge(etcd.url(), &a.cluster, Some(path.clone()));
    assert_eq!((level(&second, "hot"), passes(&second, "hot")), (Level(2), 40));
    assert!(began.elapsed() < Duration::from_millis(100), "{:?}", began.elapsed());
    assert_eq!(second.status().state, State::Hold);
    etcd.start_again();
    eventually("it is fresh", || second.status().state == State::Fresh);
    std::fs::remove_file(path).unwrap();
}

/// S02 and S04: a document that cannot be read, or bears impossible numbers, is refused and the old one kept.
#[tokio::test(flavor = "multi_thread")]
async fn s02_s04_a_bad_document_is_refused_and_the_old_one_kept() {
    let a = settings(services::etcd(), &cluster(), "a");
    let edge = edge(services::etcd(), &a.cluster, None);
    let mut one = publisher(&a);
    begin(&mut one, &[], 0).await;
    one.send(Command::Decisions(Slot(5), vec![moved("hot", 0, 2, 5)]));
    eventually("the edge has it", || level(&edge, "hot") == Level(2));
    let mut client = Client::connect([services::etcd()], None).await.unwrap();
    let key = a.keys().room("hot");
    for bad in [&b"\0\xff{"[..], br#"{"schema":1,"room":"hot","group":"default","epoch":99999999999999999999,"seq":1,"slot":1,"level":0}"#] {
        let before = edge.status().nacks;
        client.put(key.as_str(), bad, None).await.unwrap();
        eventually("it is refused", || edge.status().nacks > before);
        assert_eq!(level(&edge, "hot"), Level(2));
    }
}
