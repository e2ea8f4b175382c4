//! The control log: what readers drop, and a log in memory.

use super::config::{Config, Flaw};
use barrage_protocol::control::Entry;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Goes through the log in order and tells which entries hold: after a `lead`, whatever a lower epoch writes is
/// dropped; a number seen before is dropped; a number left out is an alarm.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reader {
    position: u64,
    epoch: u64,
    seq: Option<u64>,
    /// Entries of a lower epoch that came after a `lead`.
    pub dropped: u64,
    /// Entries seen before.
    pub repeated: u64,
    /// Numbers left out: entries that are lost.
    pub gaps: u64,
}

impl Reader {
    /// A reader that begins at `position` of the log.
    #[must_use]
    pub fn at(position: u64) -> Self {
        Self { position, ..Self::default() }
    }

    /// The entry before the next was that step.
    pub(super) fn resume(&mut self, epoch: u64, seq: u64) {
        self.epoch = epoch;
        self.seq = Some(seq);
    }

    /// Position of the next entry to be read.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The next entry stands at `position`; what lies before it and was not taken cannot be read.
    pub(super) fn pass(&mut self, position: u64) {
        self.position = self.position.max(position);
    }

    /// The epoch of the last `lead` or step that held.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Takes the next entry of the log. Returns whether it holds.
    pub fn take(&mut self, config: &Config, entry: &Entry) -> bool {
        self.position += 1;
        let (epoch, seq) = match entry {
            Entry::Step(step) => (step.epoch, step.seq),
            Entry::Lead { epoch, seq, .. } => (*epoch, *seq),
        };
        if epoch < self.epoch {
            self.dropped += 1;
            return config.flawed(Flaw::Drop);
        }
        if epoch > self.epoch {
            // A step of a new epoch without its `lead` comes from a log whose beginning is gone.
            self.epoch = epoch;
            self.seq = None;
        }
        match self.seq {
            Some(last) if seq <= last => {
                self.repeated += 1;
                return false;
            }
            Some(last) => self.gaps = self.gaps.saturating_add(seq - last - 1),
            None => {}
        }
        self.seq = Some(seq);
        true
    }
}

/// A control log in memory: the demo's, a replay's, a test's. It keeps the last entries only.
#[derive(Clone, Debug)]
pub struct Memory {
    first: u64,
    limit: usize,
    entries: VecDeque<Entry>,
}

impl Memory {
    /// A log that keeps `limit` entries (at least one).
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { first: 0, limit: limit.max(1), entries: VecDeque::new() }
    }

    /// Adds an entry; the oldest goes if there are too many. Returns its position.
    pub fn append(&mut self, entry: Entry) -> u64 {
        if self.entries.len() == self.limit {
            self.entries.pop_front();
            self.first += 1;
        }
        self.entries.push_back(entry);
        self.end() - 1
    }

    /// Position of the first entry kept; those before it are gone.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Position after the last entry.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// The entry at a position, if it is kept.
    #[must_use]
    pub fn get(&self, position: u64) -> Option<&Entry> {
        let i = position.checked_sub(self.first)?;
        self.entries.get(usize::try_from(i).ok()?)
    }
}
