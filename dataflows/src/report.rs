//! What comes out of a worker, over one bounded channel.

use crate::snapshot;
use barrage_engine::blast::Arbiter;
use barrage_engine::room::Span;
use barrage_protocol::decision::Decision;
use barrage_protocol::ids::{CLASSES, OUTCOMES, RoomKey, Slot};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;

/// A row of [`crate::command::Mode::Rows`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    /// The slot whose end is the windows' end.
    pub slot: Slot,
    /// The room's id.
    pub room: Box<str>,
    /// Events of the 60 s before it.
    pub count_60s: u32,
    /// Events of the 10 s before it.
    pub count_10s: u32,
}

/// A change of which rules would enter ([`crate::command::Mode::Masks`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Masked {
    /// The slot.
    pub slot: Slot,
    /// The room.
    pub room: RoomKey,
    /// Bit i: rule i enters.
    pub mask: u32,
    /// Events per class in the last 10, 100 and 600 slots.
    pub classes: [[u32; CLASSES]; 3],
    /// Events per outcome in the last 10, 100 and 600 slots.
    pub outcomes: [[u32; OUTCOMES]; 3],
}

/// A rule that was in and has left, or is still in at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The room's id.
    pub room: String,
    /// The rule, and from when to when.
    pub span: Span,
}

/// What a worker says.
#[derive(Debug)]
pub enum Report {
    /// Decisions, of slots not yet reported complete.
    Decisions(Vec<Decision>),
    /// Rows, of slots not yet reported complete.
    Rows(Vec<Row>),
    /// Changes of masks, of slots not yet reported complete.
    Masks(Vec<Masked>),
    /// Rules that left, in slots not yet reported complete.
    Spans(Vec<Ended>),
    /// All decisions and rows of the slots below this one have been reported, by every worker.
    Complete(Slot),
    /// The view of the slots below this one has been taken in.
    Viewed(Slot),
    /// The slow state of one worker's rooms.
    Rooms(Vec<snapshot::Room>),
    /// The arbiter's state.
    Arbiter(Box<Arbiter>),
    /// A worker panicked; nothing more will come.
    Panicked(usize),
}

/// One worker's end of the channel. Dropped by a panic it says so, so that nobody waits for a worker that is gone.
#[derive(Clone, Debug)]
pub struct Outlet {
    worker: usize,
    reports: SyncSender<Report>,
    fallen: Arc<AtomicBool>,
}

impl Outlet {
    /// The outlet of a worker. `fallen` is set when the worker panics, before the report of it is sent.
    #[must_use]
    pub fn new(worker: usize, reports: SyncSender<Report>, fallen: Arc<AtomicBool>) -> Self {
        Self { worker, reports, fallen }
    }

    /// Sends a report, waiting while the channel is full. If nobody listens any more the process is ending, and the
    /// report is dropped.
    pub fn send(&self, report: Report) {
        let _ = self.reports.send(report);
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.fallen.store(true, Ordering::Release);
            // Without waiting: a full channel must not turn a panic into a hang.
            let _ = self.reports.try_send(Report::Panicked(self.worker));
        }
    }
}
