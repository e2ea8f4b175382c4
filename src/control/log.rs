//! The log: entries go out in order through an idempotent producer, and count when they are read back.

use crate::kafka;
use barrage_protocol::control::Entry;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Message as _};
use rdkafka::producer::{BaseRecord, Producer as _, ProducerContext, ThreadedProducer};
use rdkafka::util::Timeout;
use rdkafka::{ClientContext, Offset, TopicPartitionList};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Longest entry: a start with the levels of very many rooms.
const ENTRY_BYTES_MAX: &str = "8388608";
/// Entries under way at most; the leader itself keeps fewer.
const IN_FLIGHT: &str = "1000";
/// Longest wait for an answer about the topic.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where the log is.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How to reach Kafka.
    pub kafka: kafka::Settings,
    /// The topic, of one partition.
    pub topic: String,
}

/// Why the log cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A client that cannot be made, or a broker that does not answer.
    #[error("the control log {topic}: {what}")]
    Kafka {
        /// The topic.
        topic: String,
        /// What the client says.
        what: String,
    },
    /// The next entry is gone.
    #[error(
        "the control log {topic} begins at {low} and ends at {high}; entry {wanted}, which comes next, is not there"
    )]
    Gone {
        /// The topic.
        topic: String,
        /// The entry wanted.
        wanted: u64,
        /// First entry there is.
        low: u64,
        /// After the last entry.
        high: u64,
    },
    /// An entry could not be written, and the broker will not take it.
    #[error("the control log {topic} refused an entry: {what}")]
    Refused {
        /// The topic.
        topic: String,
        /// What the broker says.
        what: String,
    },
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Entries sent.
    pub sent: u64,
    /// Entries that the broker has acknowledged.
    pub acknowledged: u64,
    /// Entries read.
    pub read: u64,
    /// Records that are no entries: an alarm.
    pub unreadable: u64,
    /// Answers that said that the broker cannot be reached.
    pub unreachable: u64,
}

#[derive(Default)]
struct Delivered {
    acknowledged: AtomicU64,
    refused: Mutex<Option<String>>,
}

/// Hears what became of entries.
struct Context {
    delivered: Arc<Delivered>,
}

impl ClientContext for Context {}

impl ProducerContext for Context {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        match result {
            Ok(_) => {
                self.delivered.acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            Err((error, _)) => {
                let mut refused =
                    self.delivered.refused.lock().unwrap_or_else(PoisonError::into_inner);
                refused.get_or_insert_with(|| error.to_string());
            }
        }
    }
}

/// The log with its reader. Neither writing nor reading waits.
pub struct Log {
    topic: String,
    consumer: BaseConsumer,
    producer: ThreadedProducer<Context>,
    delivered: Arc<Delivered>,
    position: u64,
    at_end: bool,
    stats: Stats,
}

/// Opens the log, to be read from `position` on; none: from its first entry.
///
/// # Errors
/// A topic that is not there or a broker that does not answer; a position that is gone.
pub fn open(settings: &Settings, position: Option<u64>) -> Result<Log, Error> {
    let topic = settings.topic.clone();
    let failed = |e: KafkaError| Error::Kafka { topic: topic.clone(), what: e.to_string() };
    let consumer: BaseConsumer = reader(&settings.kafka).create().map_err(failed)?;
    let (low, high) = consumer.fetch_watermarks(&topic, 0, PATIENCE).map_err(failed)?;
    let (low, high) = (unsigned(low), unsigned(high));
    let position = position.unwrap_or(low);
    if !(low..=high).contains(&position) {
        return Err(Error::Gone { topic, wanted: position, low, high });
    }
    let mut list = TopicPartitionList::new();
    let offset = Offset::Offset(i64::try_from(position).unwrap_or(i64::MAX));
    list.add_partition_offset(&topic, 0, offset).map_err(failed)?;
    consumer.assign(&list).map_err(failed)?;
    let delivered = Arc::new(Delivered::default());
    let context = Context { delivered: Arc::clone(&delivered) };
    let mut config = settings.kafka.client("control-writer");
    let producer = config
        .set("enable.idempotence", "true")
        .set("acks", "all")
        // Until the broker is back: the leader's own order keeps the number of entries under way small.
        .set("message.timeout.ms", "0")
        .set("queue.buffering.max.messages", IN_FLIGHT)
        .set("message.max.bytes", ENTRY_BYTES_MAX)
        .set("linger.ms", "0")
        .set("compression.type", "zstd")
        .create_with_context(context)
        .map_err(failed)?;
    let at_end = position == high;
    let stats = Stats::default();
    Ok(Log { topic, consumer, producer, delivered, position, at_end, stats })
}

fn reader(kafka: &kafka::Settings) -> ClientConfig {
    let mut config = kafka.client("control-reader");
    config
        // A group is never joined; the client wants a name.
        .set("group.id", "barrage-control")
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("enable.partition.eof", "true")
        .set("auto.offset.reset", "error")
        .set("isolation.level", "read_committed")
        .set("fetch.wait.max.ms", "500")
        .set("fetch.error.backoff.ms", "50")
        .set("fetch.message.max.bytes", ENTRY_BYTES_MAX)
        .set("queued.max.messages.kbytes", "16384");
    config
}

fn unsigned(offset: i64) -> u64 {
    u64::try_from(offset).unwrap_or(0)
}

impl Log {
    /// Sends an entry. It counts when [`Self::read`] hands it back.
    ///
    /// # Errors
    /// A broker that refused an entry before, or too many entries under way: whoever leads must end.
    pub fn append(&mut self, entry: &Entry) -> Result<(), Error> {
        self.check()?;
        let refused = |what: String| Error::Refused { topic: self.topic.clone(), what };
        let bytes = serde_json::to_vec(entry).map_err(|e| refused(e.to_string()))?;
        let record = BaseRecord::<(), Vec<u8>>::to(&self.topic).partition(0).payload(&bytes);
        self.producer.send(record).map_err(|(e, _)| refused(e.to_string()))?;
        self.stats.sent += 1;
        Ok(())
    }

    fn check(&self) -> Result<(), Error> {
        let refused = self.delivered.refused.lock().unwrap_or_else(PoisonError::into_inner);
        match &*refused {
            Some(what) => Err(Error::Refused { topic: self.topic.clone(), what: what.clone() }),
            None => Ok(()),
        }
    }

    /// The next entry with its position, if it is here by now.
    ///
    /// # Errors
    /// Entries that are gone, an entry that was refused.
    pub fn read(&mut self) -> Result<Option<(u64, Entry)>, Error> {
        self.check()?;
        loop {
            let message = match self.consumer.poll(Duration::ZERO) {
                None => return Ok(None),
                Some(Ok(message)) => message,
                Some(Err(error)) => {
                    self.heard(&error)?;
                    continue;
                }
            };
            let offset = unsigned(message.offset());
            self.at_end = false;
            self.position = offset + 1;
            match message.payload().map(serde_json::from_slice::<Entry>) {
                Some(Ok(entry)) => {
                    self.stats.read += 1;
                    return Ok(Some((offset, entry)));
                }
                Some(Err(error)) => {
                    self.stats.unreadable += 1;
                    tracing::error!(topic = self.topic, offset, %error, "a record of the control log is no entry");
                }
                None => self.stats.unreadable += 1,
            }
        }
    }

    fn heard(&mut self, error: &KafkaError) -> Result<(), Error> {
        match error {
            KafkaError::PartitionEOF(_) => self.at_end = true,
            KafkaError::MessageConsumption(
                RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange,
            ) => {
                let marks = self.consumer.fetch_watermarks(&self.topic, 0, PATIENCE);
                let (low, high) = marks.unwrap_or((0, 0));
                return Err(Error::Gone {
                    topic: self.topic.clone(),
                    wanted: self.position,
                    low: unsigned(low),
                    high: unsigned(high),
                });
            }
            // Whatever else is wrong with the way to the broker, the client goes on trying.
            _ => {
                self.stats.unreachable += 1;
                if self.stats.unreachable.is_power_of_two() {
                    tracing::warn!(topic = self.topic, %error, times = self.stats.unreachable, "the control log cannot be read");
                }
            }
        }
        Ok(())
    }

    /// Position of the next entry.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Whether the broker said, after the last entry, that there are no more.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.at_end
    }

    /// What was counted.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let acknowledged = self.delivered.acknowledged.load(Ordering::Relaxed);
        Stats { acknowledged, ..self.stats }
    }

    /// Waits until what was sent is acknowledged, at most so long. Returns whether it is.
    #[must_use]
    pub fn flush(&self, patience: Duration) -> bool {
        self.producer.flush(Timeout::After(patience)).is_ok()
    }
}
