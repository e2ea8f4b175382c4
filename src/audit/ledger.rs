//! What the spool's thread, the sender's thread and the pipeline know of each other: what is on the disk, what is
//! sent, and the counters.

use barrage_protocol::ids::Slot;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Counters and states of the audit, for metrics and for an operator. Counters start at 0 with the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Decisions handed over.
    pub appended: u64,
    /// Bytes of the spool on the disk.
    pub spool_bytes: u64,
    /// Segment files on the disk.
    pub spool_segments: u64,
    /// Everything up to this slot is on the disk, or counted as missing.
    pub durable: Slot,
    /// Times the disk was told to keep what was written.
    pub syncs: u64,
    /// Decisions that became new rows.
    pub written: u64,
    /// Decisions that Postgres had already, with the same content.
    pub repeated: u64,
    /// Decisions that Postgres has with another content, and standbys that decided otherwise.
    pub divergent: u64,
    /// NUL characters replaced, which Postgres cannot hold.
    pub repaired: u64,
    /// Rows that cannot be stored, kept in `aside.jsonl`.
    pub aside: u64,
    /// Rows that could not even be set aside, because that file is full.
    pub aside_lost: u64,
    /// Decisions that the spool had no room for, or that the disk refused.
    pub missing: u64,
    /// Stretches of slots with missing decisions.
    pub gaps: u64,
    /// Tails cut off when the spool was opened.
    pub torn: u64,
    /// Frames within segments that were damaged.
    pub damaged: u64,
    /// Batches committed.
    pub batches: u64,
    /// Attempts that failed because Postgres was away or in trouble.
    pub outages: u64,
    /// Whether Postgres answers.
    pub connected: bool,
    /// When the oldest thing not yet in Postgres was recorded (milliseconds since 1970); none if nothing waits.
    pub oldest_ms: Option<i64>,
    /// Slot of the newest checkpoint in Postgres.
    pub checkpoint: Option<Slot>,
    /// Checkpoints that Postgres did not take: a later term writes, or they were too large for its time.
    pub checkpoints_fenced: u64,
    /// The last thing that went wrong with Postgres; none once it works again.
    pub trouble: Option<String>,
}

/// A checkpoint on its way to Postgres.
#[derive(Clone, Debug)]
pub(super) struct Checkpoint {
    pub(super) epoch: u64,
    pub(super) slot: Slot,
    pub(super) bytes: Arc<[u8]>,
    pub(super) instance: Arc<str>,
    pub(super) recorded_ms: i64,
}

/// The state under the lock.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Segments and how many bytes of each are on the disk for good.
    pub(super) segments: BTreeMap<u64, u64>,
    pub(super) stats: Stats,
    /// The newest checkpoint not yet sent; an older one gives way.
    pub(super) checkpoint: Option<Checkpoint>,
    /// Why nothing can be spooled at present.
    pub(super) failed: Option<String>,
    /// There is no room: decisions go on and are counted as missing.
    pub(super) full: bool,
    /// The segment being written.
    pub(super) active: Option<u64>,
    /// This segment is sent up to this length: if it is no longer, it can be left and removed.
    pub(super) sent: Option<(u64, u64)>,
    /// The spool's thread has ended.
    pub(super) ended: bool,
    /// The sender ends at this instant, or earlier once nothing waits.
    pub(super) stop_at: Option<Instant>,
}

/// Shared by the three.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    state: Mutex<State>,
    durable: Condvar,
    /// Wakes the sender.
    pub(super) wake: Notify,
}

impl Ledger {
    /// The state. A thread that panicked while it held the lock left counters behind, nothing half done.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything up to `slot` is on the disk, or counted as missing.
    pub(super) fn reached(&self, slot: Slot) {
        let mut state = self.lock();
        state.stats.durable = state.stats.durable.max(slot);
        drop(state);
        self.durable.notify_all();
    }

    /// The spool's thread ends: nothing more becomes durable.
    pub(super) fn end(&self, why: Option<String>) {
        let mut state = self.lock();
        state.ended = true;
        if why.is_some() {
            state.failed = why;
        }
        drop(state);
        self.durable.notify_all();
        self.wake.notify_one();
    }

    /// Waits until everything up to `slot` is on the disk; false after `patience`, or if that will never be.
    pub(super) fn wait(&self, slot: Slot, patience: Duration) -> bool {
        let waiting = |s: &mut State| s.stats.durable < slot && !s.ended;
        let (state, _) = self
            .durable
            .wait_timeout_while(self.lock(), patience, waiting)
            .unwrap_or_else(PoisonError::into_inner);
        state.stats.durable >= slot
    }

    /// Bytes of the spool on the disk.
    pub(super) fn bytes(&self) -> u64 {
        self.lock().segments.values().sum()
    }
}
