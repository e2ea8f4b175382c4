//! Events from Kafka: one consumer that reads by our own offsets, and a source for each partition behind the common door.
//!
//! One thread polls the client, parses each record in place and puts it into the partition's chunk; whoever leads or
//! follows takes whole chunks. A chunk that is full pauses its partition, so that nothing grows while nobody reads.
//! Silence of the machinery is never taken for calm: a partition is at its end only while its broker goes on answering.
//!
//! * [`topic`]: opens the topic, tells what happens to it; [`chunk`]: what is between the thread and the reader.
//! * [`reports`]: the newest report of each edge.
//! * `consumer`: the thread; `letters`: records that are no events, on their way to a topic of their own.

pub mod chunk;
mod consumer;
mod letters;
mod partition;
pub mod reports;
pub mod topic;

pub use reports::Reports;
pub use topic::{Begin, Event, Settings, Stats, Topic, open};
