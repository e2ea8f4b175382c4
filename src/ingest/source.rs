//! The door that every source stands behind: one partition's records in order of their offsets.

use barrage_protocol::event::{Hit, Reject};

/// One record, as it is handed on: its text is gone but for the room's id.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// Offset within the partition, growing.
    pub offset: u64,
    /// The broker's timestamp in milliseconds, where it has one (`LogAppendTime`).
    pub append_ms: Option<i64>,
    /// Event time in milliseconds, wherever the record has a usable one, rejected or not.
    pub t: Option<i64>,
    /// What is to be counted, or why the record is no event.
    pub event: Result<Hit, Reject>,
    /// The room's id; empty where there is no event.
    pub room: &'a str,
}

impl<'a> Item<'a> {
    /// An event.
    #[must_use]
    pub fn event(offset: u64, append_ms: Option<i64>, t: i64, hit: Hit, room: &'a str) -> Self {
        Self { offset, append_ms, t: Some(t), event: Ok(hit), room }
    }

    /// A record that is none.
    #[must_use]
    pub fn rejected(offset: u64, append_ms: Option<i64>, reject: Reject) -> Self {
        Self { offset, append_ms, t: reject.t, event: Err(reject), room: "" }
    }
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
