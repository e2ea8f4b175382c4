//! The control log on a real Kafka: what is written is read back in order, from any position, by everybody.

use super::services::{self, eventually, unique};
use barrage::control::topics::{self, Standing, Wanted};
use barrage::control::{Error, Log, Settings, open};
use barrage::kafka;
use barrage_engine::control::lead;
use barrage_protocol::control::{Entry, SCHEMA, Step};
use barrage_protocol::ids::Slot;
use std::collections::BTreeMap;

async fn fresh(brokers: &str) -> Settings {
    let topic = unique("control");
    let kafka = kafka::Settings::plain(brokers);
    let wanted = [Wanted::control(&topic, 1, 3_600_000)];
    assert_eq!(topics::describe(&kafka, &wanted).await, Ok(vec![Standing::Missing]));
    assert_eq!(topics::ensure(&kafka, &wanted).await, Ok(vec![topic.clone()]));
    assert_eq!(topics::ensure(&kafka, &wanted).await, Ok(Vec::new()));
    let made = || async { topics::describe(&kafka, &wanted).await == Ok(vec![Standing::Good(1)]) };
    for _ in 0..100 {
        if made().await {
            return Settings { kafka, topic };
        }
    }
    panic!("{topic} was not made");
}

fn step(epoch: u64, seq: u64) -> Entry {
    Entry::Step(Step {
        schema: SCHEMA,
        epoch,
        seq,
        slot: Slot(17_000_000_000 + seq),
        offsets: BTreeMap::from([(0, seq * 10), (7, seq)]),
        records: Vec::new(),
        hash: "00".into(),
        late: BTreeMap::from([(0, 1)]),
        done: Slot(17_000_000_000),
    })
}

fn read(log: &mut Log, n: usize) -> Vec<(u64, Entry)> {
    let mut all = Vec::new();
    eventually("entries come back", || {
        while let Some(entry) = log.read().expect("the log is read") {
            all.push(entry);
        }
        all.len() >= n
    });
    all
}

#[tokio::test]
async fn entries_come_back_in_order_and_from_any_position() {
    let settings = fresh(services::kafka()).await;
    let mut log = open(&settings, None).expect("the log opens");
    assert!(log.read().expect("nothing").is_none());
    let entries: Vec<Entry> =
        std::iter::once(lead(1)).chain((1..50).map(|seq| step(1, seq))).collect();
    for entry in &entries {
        log.append(entry).expect("it is taken");
    }
    let back = read(&mut log, 50);
    let expected: Vec<_> = (0..).zip(entries.iter().cloned()).collect();
    assert_eq!(back, expected);
    eventually("the end is told", || {
        assert!(log.read().expect("read").is_none());
        log.is_at_end()
    });
    assert_eq!((log.position(), log.stats().acknowledged), (50, 50));
    let mut later = open(&settings, Some(45)).expect("the log opens");
    assert_eq!(read(&mut later, 5), expected[45..]);
    let beyond = open(&settings, Some(70));
    assert!(matches!(beyond, Err(Error::Gone { wanted: 70, low: 0, high: 50, .. })));
}

/// Two who believe that they lead: whatever they write, every reader sees the same order.
#[tokio::test]
async fn two_writers_are_seen_in_one_order() {
    let settings = fresh(services::kafka()).await;
    let mut logs = [1, 2].map(|_| open(&settings, None).expect("the log opens"));
    for seq in 1..40 {
        for (log, epoch) in logs.iter_mut().zip([1, 2]) {
            log.append(&step(epoch, seq)).expect("it is taken");
        }
    }
    let [a, b] = &mut logs;
    let (a, b) = (read(a, 78), read(b, 78));
    assert_eq!(a, b);
}

/// A broker that is away for a while: nothing is lost, nothing comes twice.
#[tokio::test]
async fn entries_written_while_the_broker_is_away_come_once() {
    let broker = services::private_kafka();
    let settings = fresh(broker.url()).await;
    let mut log = open(&settings, None).expect("the log opens");
    log.append(&lead(1)).expect("it is taken");
    assert_eq!(read(&mut log, 1).len(), 1);
    broker.kill9();
    for seq in 1..4 {
        log.append(&step(1, seq)).expect("it is taken");
    }
    broker.start_again();
    let back = read(&mut log, 3);
    let expected: Vec<_> = (1..4).map(|seq| (seq, step(1, seq))).collect();
    assert_eq!(back, expected);
}

#[tokio::test]
async fn a_control_log_with_two_partitions_is_wrong() {
    let kafka = kafka::Settings::plain(services::kafka());
    let name = unique("control");
    let mut wanted = Wanted::control(&name, 1, 3_600_000);
    wanted.partitions = 2;
    topics::ensure(&kafka, std::slice::from_ref(&wanted)).await.expect("a topic");
    let wanted = [Wanted::control(&name, 1, 3_600_000)];
    let mut told = String::new();
    for _ in 0..100 {
        if let Ok([Standing::Wrong(what)]) = topics::describe(&kafka, &wanted).await.as_deref() {
            told.clone_from(what);
            break;
        }
    }
    assert!(told.contains("has 2 partitions and must have 1"), "{told}");
}
