//! The thread that polls the client: records into chunks, ends, what is gone, pauses.

use super::letters::{From, Letters};
use super::partition::Shared;
use super::topic::{Event, PATIENCE, Settings, Wires};
use crate::ingest::Item;
use barrage_protocol::event;
use rdkafka::client::ClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message as _, Timestamp};
use rdkafka::statistics::Statistics;
use rdkafka::{Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longest wait for a message: what readers ask for is seen this late at most.
const WAIT: Duration = Duration::from_millis(5);
/// Messages taken between two looks at what readers ask for.
const BATCH: usize = 512;
/// How often the client tells which brokers answer.
const STATISTICS_MS: &str = "1000";
/// A broker from which nothing has come for longer (in microseconds) does not answer: a fetch waits half a second.
const IDLE_US: i64 = 2_500_000;
/// How often the number of partitions is asked for.
const METADATA: Duration = Duration::from_secs(5);
/// How often offsets are compared with what there is, while something is wrong.
const LOOK: Duration = Duration::from_secs(1);

/// Partitions whose brokers have answered lately, by the client's statistics.
#[derive(Default)]
struct Heard {
    partitions: Arc<Mutex<Vec<i32>>>,
    topic: String,
}

impl ClientContext for Heard {
    fn stats(&self, statistics: Statistics) {
        let mut heard = self.partitions.lock().unwrap_or_else(PoisonError::into_inner);
        for broker in statistics.brokers.values() {
            if broker.state == "UP" && (0..IDLE_US).contains(&broker.rxidle) {
                let ours = broker.toppars.values().filter(|t| t.topic == self.topic);
                heard.extend(ours.map(|t| t.partition));
            }
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, reason, "the client of Kafka");
    }
}

impl ConsumerContext for Heard {}

pub(super) struct Consumer {
    settings: Settings,
    wires: Wires,
    consumer: BaseConsumer<Heard>,
    heard: Arc<Mutex<Vec<i32>>>,
    letters: Option<Letters>,
    /// Partitions that are read.
    known: BTreeMap<i32, Arc<Shared>>,
    assigned: BTreeMap<i32, bool>,
    grown: usize,
    asked_at: Instant,
    looked_at: Instant,
    /// An error says that some offset is not there.
    missing: bool,
}

impl Consumer {
    pub(super) fn new(settings: &Settings, wires: Wires) -> Result<Self, String> {
        let heard = Arc::<Mutex<Vec<i32>>>::default();
        let context = Heard { partitions: Arc::clone(&heard), topic: settings.topic.clone() };
        let mut config = settings.kafka.client("events");
        config
            // A group is never joined; the client wants a name.
            .set("group.id", "barrage-events")
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("enable.partition.eof", "true")
            .set("auto.offset.reset", "error")
            .set("isolation.level", "read_committed")
            .set("fetch.wait.max.ms", "500")
            .set("fetch.error.backoff.ms", "50")
            .set("fetch.queue.backoff.ms", "10")
            .set("queued.min.messages", "20000")
            .set("queued.max.messages.kbytes", "32768")
            .set("statistics.interval.ms", STATISTICS_MS);
        let consumer = config.create_with_context(context).map_err(|e| e.to_string())?;
        let letters = match settings.dead_letters.as_str() {
            "" => None,
            topic => Some(Letters::new(&settings.kafka, topic)?),
        };
        let grown = wires.partitions.lock().unwrap_or_else(PoisonError::into_inner).len();
        let (now, known) = (Instant::now(), BTreeMap::new());
        Ok(Self {
            settings: settings.clone(),
            wires,
            consumer,
            heard,
            letters,
            known,
            assigned: BTreeMap::new(),
            grown,
            asked_at: now,
            looked_at: now,
            missing: false,
        })
    }

    pub(super) fn run(mut self) {
        while !self.wires.stop.load(Ordering::Relaxed) {
            self.serve();
            self.poll();
            self.hear();
            if self.asked_at.elapsed() >= METADATA {
                self.asked_at = Instant::now();
                self.grow();
            }
            if self.missing && self.looked_at.elapsed() >= LOOK {
                self.looked_at = Instant::now();
                self.look();
            }
        }
    }

    /// What readers ask for: to go somewhere, to go on after a pause.
    fn serve(&mut self) {
        let all = self.wires.partitions.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut paused = 0;
        for (p, shared) in all {
            let Ok(p) = i32::try_from(p) else { continue };
            self.known.entry(p).or_insert_with(|| Arc::clone(&shared));
            if shared.asked.swap(false, Ordering::AcqRel) {
                let mut inner = shared.lock();
                if let Some(offset) = inner.go.take() {
                    inner.paused = false;
                    drop(inner);
                    self.go(p, offset, &shared);
                } else if inner.paused && !inner.is_full() {
                    inner.paused = false;
                    drop(inner);
                    self.told(self.consumer.resume(&self.one(p)));
                }
            }
            paused += u64::from(shared.lock().paused);
        }
        let stats = &self.wires.stats;
        stats.paused.store(paused, Ordering::Relaxed);
        if let Some(letters) = &self.letters {
            stats.letters.store(letters.sent, Ordering::Relaxed);
            stats.suppressed.store(letters.suppressed, Ordering::Relaxed);
        }
    }

    fn one(&self, partition: i32) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        list.add_partition(&self.settings.topic, partition);
        list
    }

    fn go(&mut self, partition: i32, offset: u64, shared: &Shared) {
        if self.assigned.insert(partition, true).is_some() {
            self.told(self.consumer.incremental_unassign(&self.one(partition)));
        }
        let mut list = TopicPartitionList::new();
        let offset = Offset::Offset(i64::try_from(offset).unwrap_or(i64::MAX));
        let added = list.add_partition_offset(&self.settings.topic, partition, offset);
        let assigned = added.and_then(|()| self.consumer.incremental_assign(&list));
        if let Err(error) = &assigned {
            shared.lock().failed = Some(error.to_string());
        }
        self.told(assigned);
    }

    fn told(&self, result: Result<(), KafkaError>) {
        if let Err(error) = result {
            self.wires.stats.errors.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(%error, topic = self.settings.topic, "the client of Kafka");
        }
    }

    fn poll(&mut self) {
        let mut wait = WAIT;
        for _ in 0..BATCH {
            match self.consumer.poll(wait) {
                None => return,
                Some(Ok(message)) => {
                    let full = take(
                        &message,
                        &self.known,
                        &mut self.letters,
                        self.wires.sends_letters.load(Ordering::Relaxed),
                    );
                    self.wires.stats.records.fetch_add(1, Ordering::Relaxed);
                    let partition = message.partition();
                    drop(message);
                    if full {
                        self.told(self.consumer.pause(&self.one(partition)));
                    }
                }
                Some(Err(KafkaError::PartitionEOF(p))) => {
                    if let Some(shared) = self.known.get(&p) {
                        let mut inner = shared.lock();
                        (inner.at_end, inner.failed) = (inner.go.is_none(), None);
                        inner.heard = Some(Instant::now());
                    }
                }
                Some(Err(error)) => self.failed(&error),
            }
            wait = Duration::ZERO;
        }
    }

    fn failed(&mut self, error: &KafkaError) {
        let n = self.wires.stats.errors.fetch_add(1, Ordering::Relaxed) + 1;
        let gone = [RDKafkaErrorCode::AutoOffsetReset, RDKafkaErrorCode::OffsetOutOfRange];
        self.missing |=
            matches!(error, KafkaError::MessageConsumption(code) if gone.contains(code));
        if n.is_power_of_two() {
            tracing::warn!(%error, times = n, topic = self.settings.topic, "events cannot be read");
        }
    }

    /// Signs of life that the statistics brought.
    fn hear(&self) {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        for p in heard.drain(..) {
            if let Some(shared) = self.known.get(&p) {
                shared.lock().heard = Some(Instant::now());
            }
        }
    }

    fn grow(&mut self) {
        let asked =
            self.consumer.fetch_metadata(Some(&self.settings.topic), Duration::from_secs(1));
        let Ok(metadata) = asked else { return };
        let n = metadata.topics().first().map_or(0, |t| t.partitions().len());
        if n > self.grown {
            self.grown = n;
            self.say(Event::Grown(u32::try_from(n).unwrap_or(u32::MAX)));
        }
    }

    /// Which offsets are not there any more, or not there yet.
    fn look(&mut self) {
        self.missing = false;
        for (p, shared) in self.known.clone() {
            let wanted = shared.lock().next;
            let Ok(partition) = u32::try_from(p) else { continue };
            let marks = self.consumer.fetch_watermarks(&self.settings.topic, p, PATIENCE);
            let Ok((low, high)) = marks else {
                self.missing = true;
                continue;
            };
            let of = |n: i64| u64::try_from(n).unwrap_or(0);
            let (low, high) = (of(low), of(high));
            if wanted < low {
                shared.lock().failed = Some(format!("offsets {wanted} to {} are gone", low - 1));
                self.say(Event::Expired { partition, wanted, low });
            } else if wanted > high {
                shared.lock().failed =
                    Some(format!("it ends at offset {high}, before {wanted}, which comes next"));
                self.say(Event::Shrunk { partition, wanted, high });
            }
        }
    }

    fn say(&self, event: Event) {
        if self.wires.events.try_send(event).is_err() {
            self.wires.stats.unseen.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Takes one record; returns whether its partition is to be paused.
fn take(
    message: &BorrowedMessage<'_>,
    known: &BTreeMap<i32, Arc<Shared>>,
    letters: &mut Option<Letters>,
    sends: bool,
) -> bool {
    let Some(shared) = known.get(&message.partition()) else { return false };
    let Ok(offset) = u64::try_from(message.offset()) else { return false };
    let (append_ms, timestamp) = match message.timestamp() {
        Timestamp::LogAppendTime(ms) => (Some(ms), Some(ms)),
        Timestamp::CreateTime(ms) => (None, Some(ms)),
        Timestamp::NotAvailable => (None, None),
    };
    let value = message.payload().unwrap_or_default();
    let parsed = event::parse(value);
    if let (Err(reject), Some(letters), true) = (&parsed, letters.as_mut(), sends) {
        let topic = message.topic();
        let from =
            From { topic, partition: message.partition(), offset: message.offset(), timestamp };
        letters.send(&from, reject, message.key().unwrap_or_default(), value);
    }
    let item = match &parsed {
        Ok(event) => Item::event(offset, append_ms, event.ts, event.hit(), &event.room),
        Err(reject) => Item::rejected(offset, append_ms, *reject),
    };
    let mut inner = shared.lock();
    if inner.go.is_some() || offset < inner.next {
        // The reader went elsewhere meanwhile.
        return false;
    }
    inner.chunk.push(&item);
    inner.next = offset + 1;
    (inner.at_end, inner.failed) = (false, None);
    inner.heard = Some(Instant::now());
    if inner.is_full() && !inner.paused {
        inner.paused = true;
        return true;
    }
    false
}
