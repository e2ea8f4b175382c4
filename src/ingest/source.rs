//! The door that every source stands behind: one partition's records in order of their offsets.

use barrage_protocol::event::{Hit, Reject};

/// One record, as it is handed on: its text is gone but for the room's id.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// Offset within the partition, growing.
    pub offset: u64,
    /// The broker's timestamp in milliseconds, where it has one (`LogAppendTime`).
    pub append_ms: Option<i64>,
    /// Event time in milliseconds, or why the record is no event.
    pub t: Result<i64, Reject>,
    /// What is to be counted; `None` exactly where `t` is a reason.
    pub hit: Option<Hit>,
    /// The room's id; empty where there is no event.
    pub room: &'a str,
}

/// How a poll ended.
#[derive(Debug)]
pub enum Poll {
    /// Asked for fewer than there are: poll again.
    More,
    /// Everything there is was read, more may come: the answer to a fetch at the end of the partition.
    AtEnd,
    /// Everything was read and nothing will ever come (the end of a file).
    Ended,
    /// It could not be read now; it may be later.
    Failed(String),
}

/// One partition.
pub trait Source: Send {
    /// Hands at most `max` records to `sink`, in order of their offsets, and tells how it stands.
    /// Blocks no longer than one read of a local file.
    fn poll(&mut self, max: usize, sink: &mut dyn FnMut(Item<'_>)) -> Poll;

    /// Offset of the first record it will hand out, before any was.
    fn first_offset(&self) -> u64 {
        0
    }

    /// Goes to an offset not before [`Source::first_offset`] and not behind what was read, for taking steps again.
    ///
    /// # Errors
    /// Where the source cannot go back, says why.
    fn seek(&mut self, offset: u64) -> Result<(), String> {
        Err(format!("cannot go back to offset {offset}"))
    }

    /// Name for messages: the file, the topic and partition.
    fn name(&self) -> &str;
}
