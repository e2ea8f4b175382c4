//! The door: what the pipeline hands to the audit, and what it can ask of it.

use super::Settings;
use super::item::{Envelope, Item};
use super::ledger::{Checkpoint, Ledger, Stats};
use super::postgres::sender::Sender;
use super::reader::Reader;
use super::spool::Spool;
use super::writer::{Order, Writer};
use barrage_protocol::control::Entry;
use barrage_protocol::ids::Slot;
use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Orders that may wait for the disk.
const WAITING: usize = 4_096;

/// The running audit. Clones share it; the last one dropped ends the spool's thread, [`Handle::stop`] both.
#[derive(Clone)]
pub struct Handle {
    shared: Arc<Shared>,
}

struct Shared {
    orders: SyncSender<Order>,
    ledger: Arc<Ledger>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Nobody is left to wait for the sender; what is on the disk stays for the next run.
        self.ledger.lock().stop_at = Some(Instant::now());
        self.ledger.wake.notify_one();
    }
}

/// Opens the spool and starts the audit's threads. What an earlier run left is sent first. Postgres need not answer.
///
/// # Errors
/// When the spool's folder cannot be used, or is in use by another process.
pub fn spawn(settings: Settings) -> io::Result<Handle> {
    let ledger = Arc::new(Ledger::default());
    let spool = Spool::open(&settings.folder, settings.spool_bytes_max, Arc::clone(&ledger))?;
    let reader = Reader::new(&settings.folder, Arc::clone(&ledger));
    let sender = Sender::new(settings, reader, Arc::clone(&ledger));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (orders, taken) = sync_channel(WAITING);
    let writer = Writer::new(spool, Arc::clone(&ledger));
    let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
    let threads = vec![
        thread("audit-spool").spawn(move || writer.run(&taken))?,
        thread("audit-postgres").spawn(move || runtime.block_on(sender.run()))?,
    ];
    Ok(Handle { shared: Arc::new(Shared { orders, ledger, threads: Mutex::new(threads) }) })
}

impl Handle {
    /// All decisions of a final slot, as canonical lines in canonical order; slots in order, each once. Returns before
    /// the disk has them: ask [`Handle::wait_durable`]. Waits only for the disk, and only when 4,096 calls are queued.
    pub fn append(&self, slot: Slot, lines: Vec<String>, envelope: &Envelope) {
        if lines.is_empty() {
            return self.passed(slot);
        }
        self.shared.ledger.lock().stats.appended += lines.len() as u64;
        self.keep(Item::Decisions { slot, lines, envelope: envelope.clone() });
    }

    /// Nothing more is decided up to `slot`.
    pub fn passed(&self, slot: Slot) {
        self.order(Order::Passed(slot));
    }

    /// An entry of the control log that is written; `slot` is the last one final by it. Terms and the records that
    /// steps carry become rows.
    pub fn written(&self, slot: Slot, entry: &Entry, envelope: &Envelope) {
        if matches!(entry, Entry::Step(step) if step.records.is_empty()) {
            return;
        }
        // An entry was read from JSON or is about to be written as JSON: it can be expressed.
        let entry = serde_json::to_value(entry).unwrap_or_default();
        self.keep(Item::Entry { slot, entry, envelope: envelope.clone() });
    }

    /// A standby found that `theirs` (in the log, or published) is not `ours`; `what` says which.
    pub fn diverged(&self, slot: Slot, ours: &str, theirs: &str, what: &str, envelope: &Envelope) {
        self.shared.ledger.lock().stats.divergent += 1;
        self.keep(Item::Diverged {
            slot,
            ours: ours.to_owned(),
            theirs: theirs.to_owned(),
            what: what.to_owned(),
            envelope: envelope.clone(),
        });
    }

    /// A checkpoint for standbys that come later. The newest waits for Postgres in memory, an older one gives way.
    pub fn checkpoint(&self, slot: Slot, bytes: Arc<[u8]>, envelope: &Envelope) {
        let checkpoint = Checkpoint {
            epoch: envelope.epoch,
            slot,
            bytes,
            instance: Arc::clone(&envelope.instance),
            recorded_ms: envelope.recorded_ms,
        };
        self.shared.ledger.lock().checkpoint = Some(checkpoint);
        self.shared.ledger.wake.notify_one();
    }

    /// Everything up to this slot is on the disk, or counted as missing.
    #[must_use]
    pub fn durable(&self) -> Slot {
        self.shared.ledger.lock().stats.durable
    }

    /// Waits until everything up to `slot` is on the disk. False after `patience`, or if it will never be.
    #[must_use]
    pub fn wait_durable(&self, slot: Slot, patience: Duration) -> bool {
        self.shared.ledger.wait(slot, patience)
    }

    /// Whether the spool has no room: decisions go on, and are counted as missing in the audit.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.shared.ledger.lock().full
    }

    /// Why the disk does not keep what is decided; none while it does.
    #[must_use]
    pub fn failed(&self) -> Option<String> {
        self.shared.ledger.lock().failed.clone()
    }

    /// Counters and states.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let state = self.shared.ledger.lock();
        let mut stats = state.stats.clone();
        stats.spool_bytes = state.segments.values().sum();
        stats.spool_segments = state.segments.len() as u64;
        stats
    }

    /// Ends the audit: the disk keeps all that was handed over; Postgres has at most `patience` to take it, the rest is
    /// sent by the next run. Returns whether everything is in Postgres.
    pub fn stop(&self, patience: Duration) -> bool {
        self.shared.ledger.lock().stop_at = Some(Instant::now() + patience);
        self.order(Order::Stop);
        let threads = {
            let mut threads = self.shared.threads.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *threads)
        };
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a thread of the audit has fallen");
            }
        }
        self.shared.ledger.lock().segments.is_empty()
    }

    fn keep(&self, item: Item) {
        self.order(Order::Keep(item));
    }

    fn order(&self, order: Order) {
        // An error means that the spool's thread has ended, which `failed` and `wait_durable` tell.
        let _ended = self.shared.orders.send(order);
    }
}
