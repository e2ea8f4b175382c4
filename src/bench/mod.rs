//! Benchmarks as commands: what they measure, and how it is told. `app` joins them with what is measured.
//!
//! * [`core`]: what a million events cost from ingest's door to decisions, over the [`load`].
//! * [`cost`]: processor time, wall time and memory of this process.
//! * [`rows`]: one plain rule over a file, with rows that any engine can be compared by.

pub mod core;
pub mod cost;
pub mod load;
pub mod rows;
