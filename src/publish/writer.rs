//! Keeps the store in step with the plan: one fenced transaction at a time, not more often than it must be.

use super::memory::{Fault, Store};
use super::plan::{BATCH_MAX, Plan};
use barrage_protocol::ids::Slot;
use barrage_protocol::policy::{Heartbeat, Keys};

/// While no more than a batch waits, transactions are at least this far apart, in milliseconds.
const PAUSE_MS: u64 = 200;
/// The heartbeat is written at least this often, in milliseconds.
const BEAT_MS: u64 = 1_000;

/// Why nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A later term has written: this controller must end.
    #[error("a controller of epoch {0} has taken over")]
    Fenced(u64),
    /// The store did not take it.
    #[error(transparent)]
    Store(#[from] Fault),
}

/// The one writer of a shard's policies.
#[derive(Debug)]
pub struct Writer {
    plan: Plan,
    store: Store,
    heartbeat: String,
    epoch: u64,
    /// Revision of the heartbeat as this writer left it.
    seen: u64,
    last: Option<u64>,
    transactions: u64,
}

impl Writer {
    /// A writer of the given term.
    #[must_use]
    pub fn new(plan: Plan, store: Store, keys: &Keys, epoch: u64) -> Self {
        Self {
            plan,
            store,
            heartbeat: keys.heartbeat(),
            epoch,
            seen: 0,
            last: None,
            transactions: 0,
        }
    }

    /// The plan, to take decisions and rules into.
    pub fn plan(&mut self) -> &mut Plan {
        &mut self.plan
    }

    /// Transactions written.
    #[must_use]
    pub fn transactions(&self) -> u64 {
        self.transactions
    }

    /// Writes what is due at `now_ms` (monotonic). `slot` is the last slot decided. Returns how many
    /// keys were written, the heartbeat apart.
    ///
    /// # Errors
    /// [`Refused`]; what waits goes on waiting.
    pub fn step(&mut self, now_ms: u64, slot: Slot, frozen: bool) -> Result<usize, Refused> {
        let mut written = 0;
        loop {
            let waiting = self.plan.waiting();
            let since = self.last.map_or(u64::MAX, |at| now_ms.saturating_sub(at));
            let due = waiting > BATCH_MAX || (waiting > 0 && since >= PAUSE_MS);
            if !due && since < BEAT_MS {
                return Ok(written);
            }
            let batch = self.plan.batch(slot, frozen);
            let count = batch.changes.len();
            let mut changes = batch.changes.clone();
            changes.push((self.heartbeat.clone(), Some(batch.heartbeat.clone())));
            match self.store.write(&[(self.heartbeat.as_str(), self.seen)], changes) {
                Ok(revision) => self.seen = revision,
                Err(Fault::Conflict { .. }) => {
                    self.look()?;
                    continue;
                }
                Err(fault) => return Err(fault.into()),
            }
            self.plan.written(batch);
            self.last = Some(now_ms);
            self.transactions += 1;
            written += count;
        }
    }

    /// Somebody else wrote the heartbeat: a later term ends this writer, an earlier one's trace is passed over.
    fn look(&mut self) -> Result<(), Refused> {
        let Some(entry) = self.store.get(&self.heartbeat) else {
            self.seen = 0;
            return Ok(());
        };
        let other = serde_json::from_slice::<Heartbeat>(&entry.value).map_or(0, |h| h.epoch);
        if other > self.epoch {
            return Err(Refused::Fenced(other));
        }
        self.seen = entry.mod_revision;
        Ok(())
    }
}
