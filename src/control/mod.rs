//! The control log on Kafka: one partition, written in order by the leader, read back by everybody; and the topics that a
//! cluster needs.
//!
//! * [`log`]: the log and its reader; [`topics`]: what there must be, what there is, what is missing.

pub mod log;
pub mod topics;

pub use log::{Error, Log, Settings, Stats, open};
