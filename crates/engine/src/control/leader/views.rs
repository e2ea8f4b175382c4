//! What a leader can be asked.

use super::super::checkpoint::Checkpoint;
use super::super::log::Reader;
use super::super::partition::{Counters, PartitionClock};
use super::super::watch::Status;
use super::Leader;
use barrage_protocol::control::Control;
use barrage_protocol::ids::Slot;
use std::collections::BTreeMap;

impl<P: Copy> Leader<P> {
    /// The last closed slot; none before the start.
    #[must_use]
    pub fn last_closed(&self) -> Option<Slot> {
        self.site.closed
    }

    /// Epoch of this leader.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Position of the next entry of the log.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.reader.position()
    }

    /// What the reader of the log dropped.
    #[must_use]
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Hash of the rules in force, if any were recorded: a new leader compares it with what it should be.
    #[must_use]
    pub fn rules_hash(&self) -> Option<&str> {
        match &self.site.rules.as_ref()?.control {
            Control::Rules { hash, .. } => Some(hash),
            _ => None,
        }
    }

    /// How a partition stands.
    #[must_use]
    pub fn status(&self, partition: u32) -> Option<Status> {
        self.watches.get(&partition).map(|w| w.status)
    }

    /// Partitions known by now.
    pub fn partitions(&self) -> impl Iterator<Item = u32> + '_ {
        self.watches.keys().copied()
    }

    /// What became of the records of a partition.
    #[must_use]
    pub fn counters(&self, partition: u32) -> Option<&Counters> {
        self.site.clocks.get(&partition).map(PartitionClock::counters)
    }

    /// The clock of a partition.
    #[must_use]
    pub fn clock(&self, partition: u32) -> Option<&PartitionClock<P>> {
        self.site.clocks.get(&partition)
    }

    /// `n` events of a partition found no room in the table of their slot.
    pub fn overflow(&mut self, partition: u32, n: u64) {
        if let Some(clock) = self.site.clocks.get_mut(&partition) {
            clock.overflow(n);
        }
    }

    /// Per partition, the first offset at which its watermark had passed the slot's end; for slots that can be closed
    /// and are not reported as closed.
    #[must_use]
    pub fn offsets_at(&self, slot: Slot) -> BTreeMap<u32, u64> {
        self.site.offsets_at(slot)
    }

    /// Events that came for a closed slot although they were not late. A fault of this program if it is not 0.
    #[must_use]
    pub fn misplaced(&self) -> u64 {
        self.site.misplaced
    }

    /// A checkpoint at the last closed slot (none while records of the next are taken and it is not closed): to be kept with slow state and hash of that slot, not before
    /// [`Waiting`](crate::control::Waiting) says so.
    #[must_use]
    pub fn checkpoint(&self) -> Option<Checkpoint<P>> {
        self.site.checkpoint()
    }
}
