//! The configuration of a controller: one TOML file, every setting with its meaning, unit, range and default.
//!
//! * [`Config`]: what is configured; [`read`]: a file's text, all its faults at once, each with its place.
//! * [`keys`]: the one table of settings, which reading, messages and the page in docs/ follow.

pub mod keys;
mod read;
mod settings;
#[cfg(test)]
mod tests;

pub use read::{Fault, read};
pub use settings::{Begin, Config, Etcd, Http, Kafka, Log, LogFormat, OnExpired, Postgres, Secret};
