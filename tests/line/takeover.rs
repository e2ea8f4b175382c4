//! Two controllers: one dies or stands still in the middle of a storm, the other goes on, and nothing is decided twice.

use super::controller::{Cluster, Controller, barrage};
use super::golden::golden;
use super::services::{eventually, within};
use barrage_protocol::decision::Decision;
use barrage_protocol::ids::Slot;
use barrage_protocol::policy::{Heartbeat, Policy};
use etcd_client::{Client, WatchOptions};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

const T0: i64 = 1_700_000_000_000;

/// Everything that was ever written below the policies, in order: key, value (none: deleted).
pub(crate) async fn history(
    cluster: &Cluster,
    last: impl Fn(&[(String, Option<Vec<u8>>)]) -> bool,
) -> Vec<(String, Option<Vec<u8>>)> {
    let mut client = Client::connect([&cluster.etcd], None).await.expect("etcd");
    let prefix = format!("/barrage/v1/{}/policy/", cluster.name);
    let options = WatchOptions::new().with_prefix().with_start_revision(1);
    let mut watch = client.watch(prefix, Some(options)).await.expect("a watch");
    let mut all = Vec::new();
    while !last(&all) {
        let answer = tokio::time::timeout(Duration::from_secs(30), watch.message()).await;
        let answer = answer.expect("in time").expect("the watch lives").expect("an answer");
        for event in answer.events() {
            let kv = event.kv().expect("a key");
            let put = event.event_type() == etcd_client::EventType::Put;
            all.push((kv.key_str().expect("text").to_owned(), put.then(|| kv.value().to_vec())));
        }
    }
    all
}

/// (epoch, seq) of heartbeats never goes back, and documents never carry more than the heartbeat beside them.
pub(crate) fn only_grows(all: &[(String, Option<Vec<u8>>)]) -> BTreeSet<u64> {
    let mut last = (0, 0);
    let mut epochs = BTreeSet::new();
    for (key, value) in all {
        let Some(value) = value else { continue };
        if key.ends_with("/_hb") {
            let beat: Heartbeat = serde_json::from_slice(value).expect("a heartbeat");
            assert!((beat.epoch, beat.seq) >= last, "{last:?}, then {beat:?}");
            last = (beat.epoch, beat.seq);
            epochs.insert(beat.epoch);
        } else if key.contains("/0/room/") {
            let policy: Policy = serde_json::from_slice(value).expect("a policy");
            assert!(policy.epoch >= last.0, "{last:?}, then {policy:?}");
        }
    }
    epochs
}

/// What one replay of the same records and the same control log decides, as canonical lines in their order.
pub(crate) fn replayed(
    cluster: &Cluster,
    partitions: u32,
    events: &[(&'static str, i64)],
) -> Vec<String> {
    let mut files = vec![String::new(); partitions as usize];
    for (room, t) in events {
        let partition = room.bytes().map(u32::from).sum::<u32>() % partitions;
        let event = super::kafka_kit::event(room, *t);
        let _ = writeln!(files[partition as usize], "{}", String::from_utf8_lossy(&event));
    }
    let path = |name: String| cluster.dir().join(name).to_str().expect("a path").to_owned();
    let names: Vec<String> = (0..partitions).map(|p| path(format!("{p}.jsonl"))).collect();
    names.iter().zip(&files).for_each(|(name, text)| std::fs::write(name, text).expect("written"));
    let entries = cluster.control();
    let control: String =
        entries.iter().map(|e| serde_json::to_string(e).expect("JSON") + "\n").collect();
    let (log, out) = (path("control.jsonl".into()), path("decisions.jsonl".into()));
    std::fs::write(&log, control).expect("written");
    let mut args = vec!["replay", "--control", &log, "--decisions", &out, "--workers", "2"];
    args.extend(names.iter().map(String::as_str));
    let output = barrage(&args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(&out).expect("decisions");
    text.lines().map(str::to_owned).collect()
}

/// Rows, distinct ids and decisions are the same ones.
pub(crate) fn nothing_twice(
    cluster: &Cluster,
    config: &std::path::Path,
    partitions: u32,
    events: &[(&'static str, i64)],
) -> usize {
    let mut audited = cluster.audited(config);
    let mut replayed = replayed(cluster, partitions, events);
    let id = |line: &String| serde_json::from_str::<Decision>(line).expect("a decision").id;
    let ids: BTreeSet<_> = audited.iter().map(id).collect();
    assert_eq!(ids.len(), audited.len(), "nothing is decided twice");
    let out = cluster.dir().join("from-kafka.jsonl");
    let (out, config) = (out.to_str().expect("a path"), config.to_str().expect("a path"));
    let output = barrage(&["replay", "--kafka", "-c", config, "--decisions", out]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(out).expect("decisions");
    assert_eq!(text.lines().collect::<Vec<_>>(), replayed, "from the topic, and from files");
    audited.sort_unstable();
    replayed.sort_unstable();
    assert_eq!(audited, replayed);
    audited.len()
}

/// Which of two leads; waits until one does.
fn leader(a: Controller, b: Controller) -> (Controller, Controller) {
    let mut first = false;
    eventually("one of them leads", || {
        first = a.leads();
        first || b.leads()
    });
    if first { (a, b) } else { (b, a) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_killed_in_a_storm_is_followed_by_its_standby() {
    // Some partitions hold rooms that fall silent and wake; one holds none at all.
    let cluster = Cluster::new(8, "").await;
    let (leads, follows) = leader(cluster.start("a"), cluster.start("b"));
    let events = golden();
    let (before, after) = events.split_at(events.partition_point(|(_, t)| *t < T0 + 86_000));
    cluster.append(before.iter().copied());
    let middle = Slot::of_ms(T0 + 84_000);
    eventually("the storm has begun", || cluster.done() >= middle);
    let died = Instant::now();
    leads.kill9();
    cluster.append(after.iter().copied());
    within(Duration::from_secs(20), "the standby leads", || follows.leads());
    let elapsed = died.elapsed();
    println!("the standby led {elapsed:?} after the death of the leader");
    // 4.5 s alone; a machine full of other tests takes its time.
    assert!(elapsed < Duration::from_secs(12), "{elapsed:?}");
    let end = Slot::of_ms(T0 + 158_000);
    eventually("everything is out", || cluster.done() >= end);
    let config = follows.config.clone();
    assert_eq!(follows.metric("barrage_divergence_total{what=\"hash\"}").unwrap_or(0.0), 0.0);
    follows.stop();
    assert!(nothing_twice(&cluster, &config, 8, &events) > 20);
    let all = history(&cluster, |all| {
        let beats = all.iter().filter(|(k, _)| k.ends_with("/_hb")).filter_map(|(_, v)| v.as_ref());
        let mut read = beats.filter_map(|v| serde_json::from_slice::<Heartbeat>(v).ok());
        read.next_back().is_some_and(|b| b.slot >= end)
    });
    assert_eq!(only_grows(&all.await).len(), 2, "two terms");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_stood_still_changes_nothing_when_it_wakes() {
    let cluster = Cluster::new(4, "").await;
    let (mut leads, follows) = leader(cluster.start("a"), cluster.start("b"));
    let events = golden();
    let (before, after) = events.split_at(events.partition_point(|(_, t)| *t < T0 + 84_000));
    cluster.append(before.iter().copied());
    let middle = Slot::of_ms(T0 + 82_000);
    eventually("the storm has begun", || cluster.done() >= middle);
    // Stopped while it has much to decide and to write.
    cluster.append(after.iter().copied());
    leads.signal("STOP");
    let end = Slot::of_ms(T0 + 158_000);
    eventually("the standby leads", || follows.leads());
    eventually("everything is out", || cluster.done() >= end);
    let written = cluster.control().len();
    leads.signal("CONT");
    assert_eq!(leads.ended(), Some(5), "it ends by itself");
    // What it sent when it woke is in the log, or it saw at once that it is fenced; readers drop it.
    println!("{} entries after it woke", cluster.control().len() - written);
    let config = follows.config.clone();
    follows.stop();
    nothing_twice(&cluster, &config, 4, &events);
    let all = history(&cluster, |all| {
        let beats = all.iter().filter(|(k, _)| k.ends_with("/_hb")).filter_map(|(_, v)| v.as_ref());
        let mut read = beats.filter_map(|v| serde_json::from_slice::<Heartbeat>(v).ok());
        read.next_back().is_some_and(|b| b.slot >= end)
    });
    assert_eq!(only_grows(&all.await).len(), 2, "two terms");
}

/// A single controller, killed again and again: what comes out is what an undisturbed one would have decided.
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_killed_twenty_times_decides_as_if_nothing_had_been() {
    let seed = 7_u64;
    let cluster = Cluster::new(4, "").await;
    let mut controller = Some(cluster.start("a"));
    let config = controller.as_ref().expect("it runs").config.clone();
    let events = golden();
    let mut x = seed;
    let mut parts = events.chunks(events.len() / 20 + 1);
    let mut slowest = Duration::ZERO;
    for turn in 0..20 {
        cluster.append(parts.next().unwrap_or_default().iter().copied());
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // Somewhere between its start and the end of its work.
        let wait = Duration::from_millis((x >> 33) % 1_500);
        let began = Instant::now();
        let running = controller.as_ref().expect("it runs");
        within(Duration::from_secs(30), "it starts", || began.elapsed() >= wait || running.leads());
        controller.take().expect("it runs").kill9();
        let began = Instant::now();
        let again = Controller::again(&config);
        if turn % 5 == 4 {
            eventually("it leads again", || again.leads());
            slowest = slowest.max(began.elapsed());
        }
        controller = Some(again);
    }
    println!("seed {seed}: leads again at the latest after {slowest:?}");
    let end = Slot::of_ms(T0 + 158_000);
    eventually("everything is out", || cluster.done() >= end);
    let controller = controller.expect("it runs");
    let settings = barrage::publish::etcd::Settings::at(&cluster.etcd, &cluster.name, "test");
    let (levels, _) = barrage::publish::etcd::levels(&settings).await.expect("levels");
    controller.stop();
    let n = nothing_twice(&cluster, &config, 4, &events);
    assert!(n > 20);
    // What stands in etcd is what the decisions say.
    let mut wanted = std::collections::BTreeMap::new();
    for line in cluster.audited(&config) {
        let d: Decision = serde_json::from_str(&line).expect("a decision");
        if d.kind == barrage_protocol::decision::Kind::Level {
            wanted.insert(d.subject, d.to.parse::<u8>().expect("a level"));
        }
    }
    wanted.retain(|_, level| *level > 0);
    let stands: std::collections::BTreeMap<_, _> =
        levels.into_iter().map(|(r, l)| (r, l.0)).collect();
    assert_eq!(stands, wanted);
}
