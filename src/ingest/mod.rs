//! Where events come from, and how they become counts: sources, one a partition, and slotting.
//!
//! * [`source`]: the door that every source stands behind, and a source in memory for tests.
//! * [`slotting`]: per partition, the counts of the slots still open and the names of rooms.

pub mod slotting;
pub mod source;

pub use source::{Item, Poll, Source};
