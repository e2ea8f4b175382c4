//! The dataflow as a whole, through its only door: golden cases, oracles, restart, sizes, silence, faults.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod blast;
mod cardinality;
mod golden;
mod host;
mod oracle;
mod random;
mod restart;
mod rows;
mod rules;
mod sizes;
mod stream;
mod view;
