//! The limiter that a gateway embeds: a table of policies, and the verdict on one message.
//!
//! * [`Table`] takes changes as a watch hands them over, in one swap, and answers [`Table::admit`].
//! * [`Verdict`] is that answer: admit, delay, refuse.
//! * [`State`] says how far the table can be trusted just now (semantics §8).
//! * [`Edge`] keeps a table in step with etcd: it lists, watches, begins again, and keeps a copy on the disk.
//! * [`watch::Machine`] decides what to do about a watch; [`report::Accumulator`] counts for the edge's reports.
//!
//! Only [`Edge`] reads a clock; everywhere else `now_ms` is the caller's. No document, however broken, panics.

mod client;
mod limit;
mod measure;
pub mod report;
pub mod snapshot;
mod table;
mod verdict;
pub mod watch;

pub use client::{Counters, Edge, Settings};
pub use table::{Applied, Change, MAX_ROOMS, Nack, State, Status, Table};
pub use verdict::{Reason, Verdict, class_of};

#[cfg(test)]
mod tests;
