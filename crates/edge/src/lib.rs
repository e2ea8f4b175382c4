//! The limiter that a gateway embeds: a table of policies, and the verdict on one message.
//!
//! * [`Table`] takes changes as a watch hands them over, in one swap, and answers [`Table::admit`].
//! * [`Verdict`] is that answer: admit, delay, refuse.
//! * [`State`] says how far the table can be trusted just now (semantics §8).
//!
//! No clock is read here: `now_ms` is the caller's monotonic clock. No document, however broken, panics.

mod measure;
mod table;
mod verdict;

pub use table::{Applied, Change, MAX_ROOMS, Nack, State, Status, Table};
pub use verdict::{Reason, Verdict, class_of};

#[cfg(test)]
mod tests;
