//! Opens a topic of events: its partitions as sources, what happens to it, what was counted.

use super::consumer::Consumer;
use super::partition::{Partition, Shared};
use crate::ingest::Source;
use crate::kafka;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::{Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Longest wait for an answer about the topic.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Events that may wait to be taken note of.
const EVENTS: usize = 1_024;

/// Where a partition begins that no checkpoint knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// With its first record.
    Earliest,
    /// With the records of the last so many milliseconds.
    Recent(i64),
    /// With what comes from now on.
    Latest,
}

/// What to read.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How to reach Kafka.
    pub kafka: kafka::Settings,
    /// The topic.
    pub topic: String,
    /// Topic for records that are no events; empty: none.
    pub dead_letters: String,
    /// Where a partition begins that no checkpoint knows.
    pub begin: Begin,
}

/// What happens to the topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The topic has so many partitions now.
    Grown(u32),
    /// Records wanted are gone.
    Expired {
        /// The partition.
        partition: u32,
        /// The offset wanted.
        wanted: u64,
        /// The first offset there is.
        low: u64,
    },
    /// The partition ends before the offset wanted: the topic was created anew, or has lost records.
    Shrunk {
        /// The partition.
        partition: u32,
        /// The offset wanted.
        wanted: u64,
        /// After the last record there is.
        high: u64,
    },
}

/// What was counted.
#[derive(Debug, Default)]
pub struct Stats {
    /// Records handed on, events or not.
    pub records: AtomicU64,
    /// Dead letters sent.
    pub letters: AtomicU64,
    /// Dead letters left out because there were too many.
    pub suppressed: AtomicU64,
    /// Errors that the client told.
    pub errors: AtomicU64,
    /// Partitions paused at present.
    pub paused: AtomicU64,
    /// Events that nobody took note of in time.
    pub unseen: AtomicU64,
}

/// A topic that is being read. Dropped, it ends its thread.
pub struct Topic {
    settings: Settings,
    partitions: Arc<Mutex<BTreeMap<u32, Arc<Shared>>>>,
    events: Receiver<Event>,
    /// What was counted.
    pub stats: Arc<Stats>,
    /// Whether records that are no events are sent on: by one of several controllers.
    pub sends_letters: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    firsts: BTreeMap<u32, u64>,
}

/// What the thread needs.
pub(super) struct Wires {
    pub(super) partitions: Arc<Mutex<BTreeMap<u32, Arc<Shared>>>>,
    pub(super) events: SyncSender<Event>,
    pub(super) stats: Arc<Stats>,
    pub(super) sends_letters: Arc<AtomicBool>,
    pub(super) stop: Arc<AtomicBool>,
}

/// Opens the topic. Nothing is read before the first poll of a partition.
///
/// # Errors
/// Brokers that do not answer, a topic that is not there.
pub fn open(settings: Settings) -> Result<Topic, String> {
    settings.kafka.check()?;
    let told = |e: &dyn std::fmt::Display| format!("the topic {}: {e}", settings.topic);
    let mut config = settings.kafka.client("asks");
    let asks: BaseConsumer = config.set("group.id", "barrage").create().map_err(|e| told(&e))?;
    let metadata = asks.fetch_metadata(Some(&settings.topic), PATIENCE).map_err(|e| told(&e))?;
    let n = metadata.topics().first().map_or(0, |t| t.partitions().len());
    if n == 0 {
        return Err(told(&"it is not there"));
    }
    let ids: Vec<u32> = (0..u32::try_from(n).unwrap_or(u32::MAX)).collect();
    let firsts = firsts(&asks, &settings, &ids).map_err(|e| told(&e))?;
    let shared = |p: &u32| (*p, Arc::<Shared>::default());
    let partitions = Arc::new(Mutex::new(ids.iter().map(shared).collect::<BTreeMap<_, _>>()));
    let (to, events) = sync_channel(EVENTS);
    let (stats, sends_letters, stop) =
        (Arc::<Stats>::default(), Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let wires = Wires {
        partitions: Arc::clone(&partitions),
        events: to,
        stats: Arc::clone(&stats),
        sends_letters: Arc::clone(&sends_letters),
        stop: Arc::clone(&stop),
    };
    let consumer = Consumer::new(&settings, wires).map_err(|e| told(&e))?;
    let thread = std::thread::Builder::new().name("kafka-events".into());
    let thread = thread.spawn(move || consumer.run()).map_err(|e| told(&e))?;
    let thread = Some(thread);
    Ok(Topic { settings, partitions, events, stats, sends_letters, stop, thread, firsts })
}

/// First offset of each partition.
fn firsts(
    asks: &BaseConsumer,
    settings: &Settings,
    ids: &[u32],
) -> Result<BTreeMap<u32, u64>, String> {
    let told = |e: &dyn std::fmt::Display| e.to_string();
    let topic = &settings.topic;
    let mut firsts = BTreeMap::new();
    let since = match settings.begin {
        Begin::Recent(ms) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis());
            Some(i64::try_from(now).unwrap_or(i64::MAX).saturating_sub(ms))
        }
        Begin::Earliest | Begin::Latest => None,
    };
    let mut times = TopicPartitionList::new();
    for p in ids {
        let id = i32::try_from(*p).unwrap_or(i32::MAX);
        let (low, high) = asks.fetch_watermarks(topic, id, PATIENCE).map_err(|e| told(&e))?;
        let first = if settings.begin == Begin::Earliest { low } else { high };
        firsts.insert(*p, u64::try_from(first).unwrap_or(0));
        if let Some(since) = since {
            let added = times.add_partition_offset(topic, id, Offset::Offset(since));
            added.map_err(|e| told(&e))?;
        }
    }
    if since.is_some() {
        let found = asks.offsets_for_times(times, PATIENCE).map_err(|e| told(&e))?;
        for element in found.elements() {
            if let (Offset::Offset(first), Ok(p)) =
                (element.offset(), u32::try_from(element.partition()))
            {
                firsts.insert(p, u64::try_from(first).unwrap_or(0));
            }
        }
    }
    Ok(firsts)
}

impl Topic {
    /// The partitions there are, each a source that begins where the settings say.
    #[must_use]
    pub fn sources(&self) -> BTreeMap<u32, Box<dyn Source>> {
        self.firsts.iter().map(|(p, first)| (*p, self.source(*p, *first))).collect()
    }

    /// A partition that begins with `first`: one that was added begins with its first record.
    #[must_use]
    pub fn source(&self, partition: u32, first: u64) -> Box<dyn Source> {
        let shared = {
            let mut all = self.partitions.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            Arc::clone(all.entry(partition).or_default())
        };
        Box::new(Partition::new(&self.settings.topic, partition, first, shared))
    }

    /// What has happened since the last call.
    pub fn events(&self) -> impl Iterator<Item = Event> + '_ {
        self.events.try_iter()
    }

    /// How many partitions were known when it was opened.
    #[must_use]
    pub fn partitions(&self) -> usize {
        self.firsts.len()
    }
}

impl Drop for Topic {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Its panic was told when it happened.
            let _ = thread.join();
        }
    }
}
