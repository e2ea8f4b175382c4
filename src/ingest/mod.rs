//! Where events come from, and how they become counts: sources, one a partition, and slotting.
//!
//! * [`source`]: the door that every source stands behind.
//! * [`mod@file`]: files and pipes, CSV or JSON lines, plain or gzip, sorted if asked for; [`memory`] for tests; [`mod@kafka`].
//! * [`options`]: how files of others are read; [`problems`]: what could not be, with file and line.
//! * [`slotting`]: per partition, the counts of the slots still open and the names of rooms.

mod columns;
mod dedupe;
mod feed;
pub mod file;
pub mod kafka;
pub mod memory;
pub mod options;
pub mod problems;
mod records;
pub mod slotting;
mod sort;
pub mod source;
#[cfg(test)]
mod tests;
mod window;

pub use feed::Progress;
pub use file::{File, Opened, open};
pub use options::Options;
pub use problems::Problems;
pub use source::{Item, Poll, Source};
