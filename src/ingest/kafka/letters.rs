//! Records that are no events go to a topic of their own: a few a second, never in the way of those that are.

use crate::kafka;
use barrage_protocol::event::Reject;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, ThreadedProducer};
use std::time::{Duration, Instant};

/// Letters a second; the others are counted.
const RATE: u32 = 100;
/// Bytes of a value that are kept.
const VALUE_BYTES: usize = 4_096;

/// Where a letter comes from.
pub(super) struct From<'a> {
    pub(super) topic: &'a str,
    pub(super) partition: i32,
    pub(super) offset: i64,
    pub(super) timestamp: Option<i64>,
}

/// The way to the topic.
pub(super) struct Letters {
    topic: String,
    producer: ThreadedProducer<DefaultProducerContext>,
    window: Instant,
    used: u32,
    pub(super) sent: u64,
    pub(super) suppressed: u64,
}

impl Letters {
    pub(super) fn new(kafka: &kafka::Settings, topic: &str) -> Result<Self, String> {
        let mut config = kafka.client("dead-letters");
        config
            .set("queue.buffering.max.messages", "1000")
            .set("message.timeout.ms", "10000")
            .set("linger.ms", "50");
        let producer = config.create().map_err(|e| format!("a producer of {topic}: {e}"))?;
        Ok(Self {
            topic: topic.to_owned(),
            producer,
            window: Instant::now(),
            used: 0,
            sent: 0,
            suppressed: 0,
        })
    }

    pub(super) fn send(&mut self, from: &From<'_>, reject: &Reject, key: &[u8], value: &[u8]) {
        if self.window.elapsed() >= Duration::from_secs(1) {
            (self.window, self.used) = (Instant::now(), 0);
        }
        if self.used >= RATE {
            self.suppressed += 1;
            return;
        }
        self.used += 1;
        let (partition, offset) = (from.partition.to_string(), from.offset.to_string());
        let timestamp = from.timestamp.map_or_else(String::new, |t| t.to_string());
        let message = reject.to_string();
        let header = |key: &'static str, value: &'_ str| (key, value.to_owned());
        let headers = [
            header("barrage.errors.reason", reject.reason.name()),
            header("barrage.errors.message", &message),
            header("barrage.errors.topic", from.topic),
            header("barrage.errors.partition", &partition),
            header("barrage.errors.offset", &offset),
            header("barrage.errors.timestamp", &timestamp),
        ];
        let headers = headers.iter().fold(OwnedHeaders::new(), |all, (key, value)| {
            all.insert(Header { key, value: Some(value.as_str()) })
        });
        let value = value.get(..VALUE_BYTES).unwrap_or(value);
        let record = BaseRecord::to(&self.topic).key(key).payload(value).headers(headers);
        match self.producer.send(record) {
            Ok(()) => self.sent += 1,
            Err(_) => self.suppressed += 1,
        }
    }
}
