//! The edges' reports, as far as an operator wants them: the newest of each edge, and what it says of its table.

use crate::kafka;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::Message as _;
use rdkafka::{Offset, TopicPartitionList};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Edges kept; the longest silent goes first.
const EDGES_MAX: usize = 10_000;
/// An edge silent for longer is let go.
const SILENT: Duration = Duration::from_secs(600);
/// Reports taken in one call.
const BATCH: usize = 20_000;
/// Longest name of an edge.
const NAME_MAX: usize = 128;

/// What of a report is read here.
#[derive(Deserialize)]
struct Head {
    edge: String,
    boot: String,
    n: u64,
    #[serde(default)]
    status: Value,
}

struct Last {
    boot: String,
    n: u64,
    status: Value,
    heard: Instant,
}

/// The newest report of each edge.
pub struct Reports {
    consumer: BaseConsumer,
    edges: BTreeMap<String, Last>,
    /// Reports that came twice.
    pub repeated: u64,
    /// Reports that never came.
    pub missing: u64,
    /// Records that are no reports.
    pub unreadable: u64,
}

impl Reports {
    /// Reads the topic from its end on.
    ///
    /// # Errors
    /// Brokers that do not answer.
    pub fn open(kafka: &kafka::Settings, topic: &str) -> Result<Self, String> {
        let told = |e: &dyn std::fmt::Display| format!("the topic {topic}: {e}");
        let mut config = kafka.client("reports");
        config
            .set("group.id", "barrage-reports")
            .set("enable.auto.commit", "false")
            .set("auto.offset.reset", "latest")
            .set("queued.max.messages.kbytes", "4096");
        let consumer: BaseConsumer = config.create().map_err(|e| told(&e))?;
        let metadata =
            consumer.fetch_metadata(Some(topic), super::topic::PATIENCE).map_err(|e| told(&e))?;
        let n = metadata.topics().first().map_or(0, |t| t.partitions().len());
        let mut list = TopicPartitionList::new();
        for p in 0..i32::try_from(n).unwrap_or(i32::MAX) {
            list.add_partition_offset(topic, p, Offset::End).map_err(|e| told(&e))?;
        }
        consumer.assign(&list).map_err(|e| told(&e))?;
        Ok(Self { consumer, edges: BTreeMap::new(), repeated: 0, missing: 0, unreadable: 0 })
    }

    /// Takes what has come since the last call. Does not wait.
    pub fn take(&mut self) {
        for _ in 0..BATCH {
            let Some(Ok(message)) = self.consumer.poll(Duration::ZERO) else { break };
            let head = message.payload().map(serde_json::from_slice::<Head>);
            match head {
                Some(Ok(head)) if head.edge.len() <= NAME_MAX => {
                    drop(message);
                    self.one(head);
                }
                _ => self.unreadable += 1,
            }
        }
        self.edges.retain(|_, last| last.heard.elapsed() < SILENT);
        while self.edges.len() > EDGES_MAX {
            let oldest = self.edges.iter().max_by_key(|(_, l)| l.heard.elapsed());
            let Some(name) = oldest.map(|(name, _)| name.clone()) else { break };
            self.edges.remove(&name);
        }
    }

    fn one(&mut self, head: Head) {
        let Head { edge, boot, n, status } = head;
        if let Some(last) = self.edges.get(&edge).filter(|last| last.boot == boot) {
            if n <= last.n {
                self.repeated += 1;
                return;
            }
            self.missing += n - last.n - 1;
        }
        self.edges.insert(edge, Last { boot, n, status, heard: Instant::now() });
    }

    /// The edges, by name.
    #[must_use]
    pub fn edges(&self) -> Vec<Value> {
        let told = |(edge, last): (&String, &Last)| {
            let s = &last.status;
            json!({
                "edge": edge, "state": s["state"], "applied": s["applied"]["0"], "digest": s["digest"],
                "age_ms": s["age_ms"], "nacks": s["nacks"], "n": last.n,
                "reported_ms_ago": u64::try_from(last.heard.elapsed().as_millis()).unwrap_or(u64::MAX),
            })
        };
        self.edges.iter().map(told).collect()
    }
}
