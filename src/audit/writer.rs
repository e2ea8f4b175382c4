//! The spool's thread: takes what was decided, has the disk keep it in groups, and counts what has no room.

use super::frame;
use super::item::{self, Gap, Item};
use super::ledger::Ledger;
use super::spool::Spool;
use barrage_protocol::ids::Slot;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

/// Longest time that the first of a group waits for more.
const GROUP: Duration = Duration::from_millis(20);

/// Why something is missing when there is no room.
const FULL: &str = "the spool is full";

/// Most bytes of a group.
const GROUP_BYTES: usize = 1 << 20;

/// What the thread is asked to do.
#[derive(Debug)]
pub(super) enum Order {
    /// To keep this.
    Keep(Item),
    /// Nothing more comes for slots up to this one.
    Passed(Slot),
    /// To end, after all before.
    Stop,
}

/// The thread's state.
pub(super) struct Writer {
    spool: Spool,
    ledger: Arc<Ledger>,
    /// What is missing and not yet noted in the spool.
    gap: Option<Gap>,
    /// Of the group at hand: what is lost if the disk refuses it.
    group: Option<Gap>,
    /// The group holds the record of the gap.
    gap_in_group: bool,
    upto: Slot,
}

/// Tells the ledger when the thread ends, by a panic too.
struct Ending(Arc<Ledger>);

impl Drop for Ending {
    fn drop(&mut self) {
        let panicked = std::thread::panicking();
        self.0.end(panicked.then(|| "the spool's thread has fallen".to_owned()));
    }
}

impl Writer {
    pub(super) fn new(spool: Spool, ledger: Arc<Ledger>) -> Self {
        let gap = spool.noted_gap();
        Self { spool, ledger, gap, group: None, gap_in_group: false, upto: Slot(0) }
    }

    /// Runs until told to stop or until nobody can ask any more.
    pub(super) fn run(mut self, orders: &Receiver<Order>) {
        let ending = Ending(Arc::clone(&self.ledger));
        let mut going = true;
        while going {
            // A gap is noted as soon as there is room, also if nothing more is decided.
            let idle =
                if self.gap.is_some() { Duration::from_secs(1) } else { Duration::from_secs(3600) };
            going = match orders.recv_timeout(idle) {
                Ok(order) => self.group(order, orders),
                Err(RecvTimeoutError::Timeout) => true,
                Err(RecvTimeoutError::Disconnected) => false,
            };
            self.note_gap();
            self.sync();
        }
        drop(ending);
    }

    /// Takes an order and what has queued behind it. Returns whether to go on.
    fn group(&mut self, first: Order, orders: &Receiver<Order>) -> bool {
        let since = Instant::now();
        let mut order = first;
        loop {
            match order {
                Order::Keep(item) => self.keep(&item),
                Order::Passed(slot) => self.upto = self.upto.max(slot),
                Order::Stop => return false,
            }
            if self.spool.waiting() >= GROUP_BYTES || since.elapsed() >= GROUP {
                return true;
            }
            // What queues while the disk works is the next group; nobody waits for company.
            order = match orders.try_recv() {
                Ok(order) => order,
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            };
        }
    }

    fn keep(&mut self, item: &Item) {
        // Control entries precede the decisions of their slot, so that only decisions move the mark.
        if matches!(item, Item::Decisions { .. }) {
            self.upto = self.upto.max(item.slot());
        }
        let payloads = match item::encode(item) {
            Ok(payloads) => payloads,
            Err(e) => return self.missing(item, &e.to_string()),
        };
        self.note_gap();
        if payloads.iter().any(|p| p.len() > frame::PAYLOAD_MAX) {
            return self.missing(item, "a record too long for the spool");
        }
        let bytes = payloads.iter().map(|p| p.len() + frame::HEAD).sum();
        if !self.spool.has_room(bytes) || self.gap.is_some() && !self.gap_in_group {
            return self.missing(item, FULL);
        }
        for payload in &payloads {
            self.spool.append(payload);
        }
        widen(&mut self.group, item, "the disk refused");
    }

    fn missing(&mut self, item: &Item, why: &str) {
        if self.gap_in_group {
            // The record in the group at hand says what it says; what is missing after it needs another.
            self.sync();
        }
        if self.gap.is_none() {
            tracing::error!(slot = item.slot().0, why, "the audit spool drops decisions");
        }
        widen(&mut self.gap, item, why);
        self.spool.keep_gap(self.gap.as_ref());
        let mut state = self.ledger.lock();
        state.stats.missing += item.count().0;
        state.full |= why == FULL;
    }

    /// Puts the record of what is missing into the group, if there is room again.
    fn note_gap(&mut self) {
        let Some(gap) = &self.gap else { return };
        if self.gap_in_group {
            return;
        }
        // Some slack beyond its own size: not back to full with the next record.
        let Ok(payloads) = item::encode(&Item::Gap(gap.clone())) else { return };
        let bytes: usize = payloads.iter().map(Vec::len).sum();
        if self.spool.has_room(bytes + frame::HEAD + (16 << 10)) {
            payloads.iter().for_each(|p| self.spool.append(p));
            self.gap_in_group = true;
        }
    }

    /// Has the disk keep the group, or counts it as missing.
    fn sync(&mut self) {
        let done = self.spool.sync();
        let group = self.group.take();
        let noted = std::mem::take(&mut self.gap_in_group);
        match done {
            Ok(()) => {
                if noted {
                    self.gap = None;
                    self.spool.keep_gap(None);
                }
                let mut state = self.ledger.lock();
                state.failed = None;
                state.full &= !noted;
                state.stats.gaps += u64::from(noted);
            }
            Err(e) => {
                let mut state = self.ledger.lock();
                state.failed = Some(format!("the audit spool cannot be written: {e}"));
                state.stats.missing += group.as_ref().map_or(0, |lost| lost.decisions);
                drop(state);
                self.gap = match (self.gap.take(), group) {
                    (Some(gap), Some(lost)) => Some(joined(gap, &lost)),
                    (gap, lost) => gap.or(lost),
                };
                self.spool.keep_gap(self.gap.as_ref());
            }
        }
        self.ledger.reached(self.upto);
        self.ledger.wake.notify_one();
    }
}

/// Takes an item into a gap.
fn widen(gap: &mut Option<Gap>, item: &Item, why: &str) {
    let (decisions, others) = item.count();
    let slot = item.slot();
    let envelope = item.envelope().clone();
    let one = Gap { from: slot, to: slot, decisions, others, why: why.to_owned(), envelope };
    *gap = Some(match gap.take() {
        Some(gap) => joined(gap, &one),
        None => one,
    });
}

fn joined(mut gap: Gap, other: &Gap) -> Gap {
    gap.from = gap.from.min(other.from);
    gap.to = gap.to.max(other.to);
    gap.decisions += other.decisions;
    gap.others += other.others;
    gap
}
