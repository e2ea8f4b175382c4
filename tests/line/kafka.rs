//! Events from a real Kafka: order, ends, going back, what is gone, what is no event, partitions that come later.

use super::kafka_kit::{Events, Seen, event, now_event};
use super::services::{self, eventually, unique};
use barrage::control::topics::{self, Wanted};
use barrage::ingest::Poll;
use barrage::ingest::kafka::{Event, open};
use barrage::kafka;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::{Headers as _, Message as _};
use rdkafka::{Offset, TopicPartitionList};
use std::time::Duration;

fn admin(brokers: &str) -> AdminClient<DefaultClientContext> {
    kafka::Settings::plain(brokers).client("test").create().expect("a client")
}

#[tokio::test]
async fn records_come_in_order_and_the_end_is_told() {
    let events = Events::new(2).await;
    for i in 0..5_000 {
        events.queue(i % 2, &event(&format!("r{}", i % 7), 1_700_000_000_000 + i64::from(i)));
    }
    events.flush();
    let topic = events.open();
    let mut sources = topic.sources();
    for source in sources.values_mut() {
        let mut seen = Seen::default();
        seen.until_end(source.as_mut());
        assert_eq!(seen.offsets, (0..2_500).collect::<Vec<_>>());
        assert_eq!(seen.rooms.len(), 2_500);
    }
    // At the end is where more can come.
    events.append(1, &now_event("late"));
    let mut seen = Seen::default();
    seen.until(sources.get_mut(&1).expect("partition 1").as_mut(), 1);
    assert_eq!((seen.offsets, seen.rooms), (vec![2_500], vec!["late".to_owned()]));
}

/// K01: an offset that goes back is where somebody said so, and nothing is read twice by itself.
#[tokio::test]
async fn k01_going_back_reads_again_from_there_and_nowhere_else() {
    let events = Events::new(1).await;
    for i in 0..200 {
        events.queue(0, &event("r", i));
    }
    events.flush();
    let topic = events.open();
    let mut source = topic.sources().remove(&0).expect("partition 0");
    let mut seen = Seen::default();
    seen.until(source.as_mut(), 150);
    source.seek(100).expect("it goes back");
    let mut again = Seen::default();
    again.until_end(source.as_mut());
    assert_eq!(again.offsets, (100..200).collect::<Vec<_>>());
    source.seek(199).expect("it goes on");
    let mut last = Seen::default();
    last.until_end(source.as_mut());
    assert_eq!(last.offsets, [199]);
}

/// K03: what retention took is named, and nothing goes on by itself.
#[tokio::test]
async fn k03_an_expired_offset_is_an_incident_and_never_a_jump() {
    let events = Events::new(1).await;
    for i in 0..900 {
        events.queue(0, &event("r", i));
    }
    events.flush();
    let mut gone = TopicPartitionList::new();
    gone.add_partition_offset(&events.topic, 0, Offset::Offset(500)).expect("an offset");
    let deleted = admin(&events.brokers).delete_records(&gone, &AdminOptions::new()).await;
    deleted.expect("records are deleted");
    let topic = events.open();
    let mut source = topic.source(0, 100);
    let mut told = Vec::new();
    eventually("the incident is told", || {
        let poll = source.poll(100, &mut |item| panic!("offset {} was read", item.offset));
        told.extend(topic.events());
        matches!(poll, Poll::Failed(why) if why.contains("offsets 100 to 499 are gone"))
            && told.contains(&Event::Expired { partition: 0, wanted: 100, low: 500 })
    });
    source.seek(500).expect("an operator says so");
    let mut seen = Seen::default();
    seen.until_end(source.as_mut());
    assert_eq!(seen.offsets, (500..900).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_topic_created_anew_is_an_incident() {
    let events = Events::new(1).await;
    events.append(0, &event("r", 1));
    let topic = events.open();
    let mut source = topic.source(0, 700);
    let mut told = Vec::new();
    eventually("the incident is told", || {
        let poll = source.poll(100, &mut |item| panic!("offset {} was read", item.offset));
        told.extend(topic.events());
        matches!(poll, Poll::Failed(_))
            && told.contains(&Event::Shrunk { partition: 0, wanted: 700, high: 1 })
    });
}

/// K04: a record that cannot be read is read once, told, and sent on; those behind it are not kept waiting.
#[tokio::test]
async fn k04_records_that_are_no_events_go_to_their_own_topic() {
    let events = Events::new(1).await;
    let letters = unique("letters");
    let wanted = Wanted::events(&letters, 1, 1, 3_600_000);
    let brokers = kafka::Settings::plain(&events.brokers);
    topics::ensure(&brokers, &[wanted]).await.expect("a topic");
    let long = format!(r#"{{"room":"{}"#, "x".repeat(10_000));
    for value in [
        br#"{"ts":1700000000001,"room":"r1"}"#.as_slice(),
        br#"{"ts":17,"room":"#,
        b"",
        long.as_bytes(),
        b"\xff\xfe",
        b"null",
        br#"{"ts":1700000000002,"room":"r2"}"#,
    ] {
        events.queue(0, value);
    }
    events.flush();
    let topic = open(barrage::ingest::kafka::Settings {
        dead_letters: letters.clone(),
        ..events.settings()
    })
    .expect("the topic opens");
    topic.sends_letters.store(true, std::sync::atomic::Ordering::Relaxed);
    let mut source = topic.sources().remove(&0).expect("partition 0");
    let mut seen = Seen::default();
    seen.until_end(source.as_mut());
    assert_eq!((seen.offsets.len(), seen.rejected), (7, 7 - seen.rooms.len()));
    assert!(seen.rejected >= 5, "{seen:?}");
    let consumer: BaseConsumer =
        brokers.client("test").set("group.id", "t").create().expect("a consumer");
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(&letters, 0, Offset::Beginning).expect("an offset");
    consumer.assign(&list).expect("assigned");
    let mut got = Vec::new();
    eventually("the letters come", || {
        if let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) {
            let headers = message.headers().expect("headers");
            let find = |name: &str| headers.iter().find(|h| h.key == name).and_then(|h| h.value);
            let offset = find("barrage.errors.offset")
                .map(String::from_utf8_lossy)
                .expect("an offset")
                .into_owned();
            assert!(find("barrage.errors.reason").is_some_and(|r| !r.is_empty()));
            assert!(message.payload().is_none_or(|p| p.len() <= 4_096));
            got.push(offset);
        }
        got.len() == seen.rejected
    });
    assert_eq!(got.first().map(String::as_str), Some("1"), "{got:?}");
}

/// S01 and its kin: a partition that comes while it runs.
#[tokio::test]
async fn a_partition_that_is_added_is_told_and_can_be_read() {
    let events = Events::new(1).await;
    let topic = events.open();
    let mut source = topic.sources().remove(&0).expect("partition 0");
    Seen::default().until_end(source.as_mut());
    let more = NewPartitions::new(&events.topic, 3);
    admin(&events.brokers).create_partitions([&more], &AdminOptions::new()).await.expect("more");
    let mut told = Vec::new();
    eventually("it is told", || {
        told.extend(topic.events());
        told.contains(&Event::Grown(3))
    });
    events.append(2, &now_event("new"));
    let mut added = topic.source(2, 0);
    let mut seen = Seen::default();
    seen.until(added.as_mut(), 1);
    assert_eq!(seen.rooms, ["new"]);
}

/// Nobody reads: the buffers do not grow, and nothing is lost.
#[tokio::test]
async fn a_partition_that_nobody_reads_is_paused() {
    let events = Events::new(1).await;
    for i in 0..60_000 {
        events.queue(0, &event("r", i));
    }
    events.flush();
    let topic = events.open();
    let mut source = topic.sources().remove(&0).expect("partition 0");
    let mut seen = Seen::default();
    seen.until(source.as_mut(), 1);
    eventually("it is paused", || {
        topic.stats.paused.load(std::sync::atomic::Ordering::Relaxed) == 1
    });
    seen.until_end(source.as_mut());
    assert_eq!(seen.offsets, (0..60_000).collect::<Vec<_>>());
}

/// A broker that stands still is not a partition that is calm.
#[tokio::test]
async fn a_broker_that_stands_still_is_no_end() {
    let broker = services::private_kafka();
    let events = Events::at(broker.url(), 1).await;
    events.append(0, &event("r", 1));
    let topic = events.open();
    let mut source = topic.sources().remove(&0).expect("partition 0");
    Seen::default().until_end(source.as_mut());
    broker.pause();
    eventually(
        "it is noticed",
        || matches!(source.poll(10, &mut |_| {}), Poll::Failed(why) if why.contains("does not answer")),
    );
    broker.resume();
    Seen::default().until_end(source.as_mut());
    events.append(0, &now_event("after"));
    let mut seen = Seen::default();
    seen.until(source.as_mut(), 1);
    assert_eq!(seen.rooms, ["after"]);
}
