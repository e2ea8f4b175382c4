//! Topics with known records, for tests of whatever reads them.

use super::services::{self, unique};
use barrage::control::topics::{self, Wanted};
use barrage::ingest::kafka::{Begin, Settings, Topic, open};
use barrage::ingest::{Poll, Source};
use barrage::kafka;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use std::time::Duration;

/// A topic of events of a test.
pub(crate) struct Events {
    pub(crate) brokers: String,
    pub(crate) topic: String,
    producer: BaseProducer,
}

impl Events {
    pub(crate) async fn new(partitions: u32) -> Self {
        Self::at(services::kafka(), partitions).await
    }

    pub(crate) async fn at(brokers: &str, partitions: u32) -> Self {
        let topic = unique("events");
        let wanted = Wanted::events(&topic, partitions, 1, 3_600_000);
        let made = topics::ensure(&kafka::Settings::plain(brokers), &[wanted]).await;
        assert_eq!(made.expect("a topic"), std::slice::from_ref(&topic));
        let producer = producer(brokers);
        Self { brokers: brokers.to_owned(), topic, producer }
    }

    /// Appends a record and waits until it is there.
    pub(crate) fn append(&self, partition: i32, value: &[u8]) {
        self.queue(partition, value);
        self.flush();
    }

    /// Appends a record soon.
    pub(crate) fn queue(&self, partition: i32, value: &[u8]) {
        let mut record = BaseRecord::to(&self.topic).partition(partition).key("k").payload(value);
        while let Err((error, again)) = self.producer.send(record) {
            let full = rdkafka::types::RDKafkaErrorCode::QueueFull;
            assert_eq!(error.rdkafka_error_code(), Some(full), "{error}");
            self.producer.poll(Duration::from_millis(10));
            record = again;
        }
    }

    pub(crate) fn flush(&self) {
        self.producer.flush(Duration::from_secs(30)).expect("records are taken");
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings {
            kafka: kafka::Settings::plain(&self.brokers),
            topic: self.topic.clone(),
            dead_letters: String::new(),
            begin: Begin::Earliest,
        }
    }

    pub(crate) fn open(&self) -> Topic {
        open(self.settings()).expect("the topic opens")
    }
}

pub(crate) fn producer(brokers: &str) -> BaseProducer {
    let mut config = kafka::Settings::plain(brokers).client("test");
    config.set("linger.ms", "1").create().expect("a producer")
}

/// An event of a room, as producers write it.
pub(crate) fn event(room: &str, ts: i64) -> Vec<u8> {
    format!(r#"{{"room":"{room}","ts":{ts},"class":"chat"}}"#).into_bytes()
}

/// An event of this moment.
pub(crate) fn now_event(room: &str) -> Vec<u8> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    event(room, i64::try_from(now.expect("a clock").as_millis()).expect("a time"))
}

/// What a source has handed out.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) offsets: Vec<u64>,
    pub(crate) rooms: Vec<String>,
    pub(crate) rejected: usize,
}

impl Seen {
    /// Polls once.
    pub(crate) fn poll(&mut self, source: &mut dyn Source) -> Poll {
        source.poll(1_000, &mut |item| {
            self.offsets.push(item.offset);
            match item.event {
                Ok(_) => self.rooms.push(item.room.to_owned()),
                Err(_) => self.rejected += 1,
            }
        })
    }

    /// Polls until so many records are there.
    pub(crate) fn until(&mut self, source: &mut dyn Source, records: usize) {
        services::eventually("records come", || {
            self.poll(source);
            self.offsets.len() >= records
        });
    }

    /// Polls until the source says that there is no more.
    pub(crate) fn until_end(&mut self, source: &mut dyn Source) {
        services::eventually("the end comes", || matches!(self.poll(source), Poll::AtEnd));
    }
}
