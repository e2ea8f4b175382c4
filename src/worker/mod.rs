//! The only door into the timely threads: a host that sends commands and receives decisions.
//!
//! Timely runs on threads of its own, never on an async one. Both directions are bounded. A host that is full of
//! reports and a worker that is full of commands cannot wait for each other: whoever sends commands takes reports in
//! meanwhile. A worker that panics is told of by its last report; the host then answers every call with
//! [`Fault::Panicked`], wakes the others and lets them end, and waits for nobody.

mod threads;

use barrage_dataflows::Setup;
use barrage_dataflows::command::{Command, Control, Options};
use barrage_dataflows::report::{Ended, Masked, Report, Row};
use barrage_dataflows::snapshot::{Frame, Room, Snapshot};
use barrage_dataflows::view::{Latest, View};
use barrage_engine::blast::Arbiter;
use barrage_engine::precount::Record;
use barrage_engine::rules::RuleSet;
use barrage_protocol::decision::Decision;
use barrage_protocol::ids::{Level, RoomKey, Slot};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, TryRecvError, TrySendError};
use std::time::Duration;
use threads::Threads;

/// How far ahead of the last closed slot counts may lie: 120 s of event time. The control side reads at most 30 s ahead.
pub const AHEAD: u64 = 1_200;

/// Most records in a command of [`Host::counts_of`]: some 40 kB.
const PART: usize = 1_024;

/// How far the view may lag behind the decisions, in slots, before a close waits for it.
const VIEW_LAG: u64 = 600;

/// How long to wait for a report before looking whether the workers still live.
const LOOK: Duration = Duration::from_millis(200);

/// Why the worker could not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A worker panicked; its message is on stderr.
    #[error(
        "a worker of the dataflow panicked (its message is above); restart from the last checkpoint"
    )]
    Panicked,
    /// The threads could not be started.
    #[error("the dataflow's threads could not be started: {0}")]
    Start(String),
    /// The workers have ended.
    #[error("the dataflow has ended")]
    Ended,
    /// Something was to hold for a slot that is closed.
    #[error("slot {slot} is closed: the next one to close is {next}")]
    Closed {
        /// The slot.
        slot: u64,
        /// The first slot not closed.
        next: u64,
    },
    /// Counts lie too far ahead of the last closed slot.
    #[error("slot {slot} lies more than {AHEAD} slots ahead of slot {next}, the next one to close")]
    Ahead {
        /// The slot.
        slot: u64,
        /// The first slot not closed.
        next: u64,
    },
}

/// The workers, from outside. Methods that return [`Fault::Closed`] or [`Fault::Ahead`] have done nothing; after any
/// other fault the host is of no more use.
#[derive(Debug)]
pub struct Host {
    threads: Threads,
    latest: Latest,
    options: Options,
    /// First slot not asked to close.
    next: Slot,
    /// First slot whose decisions are not all here.
    complete: Slot,
    /// First slot whose view has not been taken in.
    viewed: Slot,
    /// Decisions of slots not yet handed out.
    decisions: BTreeMap<Slot, Vec<Decision>>,
    rows: Vec<Row>,
    masks: Vec<Masked>,
    spans: Vec<Ended>,
    /// What was said to hold from which slot, for snapshots; what no slot to come can see is dropped.
    rules: BTreeMap<Slot, Arc<RuleSet>>,
    absent: BTreeMap<Slot, u32>,
    hold_until: Slot,
    /// Parts of a snapshot.
    shares: Vec<Vec<Room>>,
    arbiter: Option<Box<Arbiter>>,
    fault: Option<Fault>,
}

impl Host {
    /// Starts `workers` (at least one) threads; `first` is the first slot to close, `rules` hold from it.
    ///
    /// # Errors
    /// [`Fault::Start`].
    pub fn start(
        workers: usize,
        first: Slot,
        rules: Arc<RuleSet>,
        options: Options,
    ) -> Result<Self, Fault> {
        Self::launch(workers, Setup { first, rules, snapshot: None, options })
    }

    /// Starts from a snapshot. Counts of the slots from `first` (at most [`Snapshot::first`]) up to the snapshot's slot
    /// must be sent; they are closed without deciding, then the slow state is taken in, and decisions go on.
    ///
    /// # Errors
    /// [`Fault::Start`].
    pub fn restore(
        workers: usize,
        snapshot: Arc<Snapshot>,
        first: Slot,
        options: Options,
    ) -> Result<Self, Fault> {
        let rules = Arc::new(snapshot.rules().clone());
        Self::launch(workers, Setup { first, rules, snapshot: Some(snapshot), options })
    }

    fn launch(workers: usize, setup: Setup) -> Result<Self, Fault> {
        let latest = Latest::default();
        let (first, options) = (setup.first, setup.options);
        let rules = BTreeMap::from([(first, Arc::clone(&setup.rules))]);
        let absent = setup.snapshot.as_ref().map_or(0, |s| s.absent());
        let hold_until = setup.snapshot.as_ref().map_or(Slot(0), |s| s.hold_until());
        let threads = Threads::start(workers.max(1), setup, latest.clone())?;
        Ok(Self {
            threads,
            latest,
            options,
            next: first,
            complete: first,
            viewed: first,
            decisions: BTreeMap::new(),
            rows: Vec::new(),
            masks: Vec::new(),
            spans: Vec::new(),
            rules,
            absent: BTreeMap::from([(first, absent)]),
            hold_until,
            shares: Vec::new(),
            arbiter: None,
            fault: None,
        })
    }

    /// First slot not yet asked to close.
    #[must_use]
    pub fn next(&self) -> Slot {
        self.next
    }

    /// Sends the counts of one partition in one open slot, with the ids of rooms met for the first time.
    ///
    /// # Errors
    /// [`Fault::Closed`], [`Fault::Ahead`], [`Fault::Panicked`], [`Fault::Ended`].
    pub fn counts(
        &mut self,
        partition: u32,
        slot: Slot,
        records: Vec<Record>,
        names: Vec<(RoomKey, Box<str>)>,
    ) -> Result<(), Fault> {
        self.open(slot)?;
        if slot.0 - self.next.0 > AHEAD {
            return Err(Fault::Ahead { slot: slot.0, next: self.next.0 });
        }
        // Any worker may take them; the exchange behind it finds the owners.
        let worker = partition as usize % self.threads.workers();
        self.send(worker, Command::Counts { slot, records, names })
    }

    /// Sends counts as [`Self::counts`] does, out of a buffer that stays with the caller: in parts so small that their
    /// memory goes round between the threads.
    ///
    /// # Errors
    /// [`Fault::Closed`], [`Fault::Ahead`], [`Fault::Panicked`], [`Fault::Ended`].
    pub fn counts_of(
        &mut self,
        partition: u32,
        slot: Slot,
        records: &[Record],
        names: Vec<(RoomKey, Box<str>)>,
    ) -> Result<(), Fault> {
        if !names.is_empty() {
            self.counts(partition, slot, Vec::new(), names)?;
        }
        records
            .chunks(PART)
            .try_for_each(|part| self.counts(partition, slot, part.to_vec(), Vec::new()))
    }

    /// Levels known from the policies in force: they hold from the next slot on, and none falls before `hold_until`.
    ///
    /// # Errors
    /// [`Fault::Panicked`], [`Fault::Ended`].
    pub fn seed(&mut self, levels: Vec<(Box<str>, Level)>, hold_until: Slot) -> Result<(), Fault> {
        let from = self.next;
        self.send_all(&Command::Seed { from, levels: Arc::new(levels) })?;
        self.hold_until = hold_until;
        self.control(from, Control::HoldUntil { slot: hold_until })
    }

    /// Puts a rule set into force from slot `from` on.
    ///
    /// # Errors
    /// [`Fault::Closed`], [`Fault::Panicked`], [`Fault::Ended`].
    pub fn rules(&mut self, from: Slot, rules: Arc<RuleSet>) -> Result<(), Fault> {
        self.open(from)?;
        self.rules.insert(from, Arc::clone(&rules));
        self.send_all(&Command::Rules { from, rules })
    }

    /// From slot `from` on the partitions of `mask` (bits `partition % 32`), and only these, are absent.
    ///
    /// # Errors
    /// [`Fault::Closed`], [`Fault::Panicked`], [`Fault::Ended`].
    pub fn absent(&mut self, from: Slot, mask: u32) -> Result<(), Fault> {
        self.control(from, Control::Absent { mask })?;
        self.absent.insert(from, mask);
        Ok(())
    }

    /// From slot `from` on the frozen baseline of a room is let go.
    ///
    /// # Errors
    /// [`Fault::Closed`], [`Fault::Panicked`], [`Fault::Ended`].
    pub fn rebase(&mut self, from: Slot, room: &str) -> Result<(), Fault> {
        self.control(from, Control::Rebase { room: room.into() })
    }

    fn control(&mut self, from: Slot, control: Control) -> Result<(), Fault> {
        self.open(from)?;
        self.send_all(&Command::Control { from, control })
    }

    /// Lets the slots up to `upto` close, without waiting.
    ///
    /// # Errors
    /// [`Fault::Panicked`], [`Fault::Ended`].
    pub fn advance(&mut self, upto: Slot) -> Result<(), Fault> {
        if upto >= self.next {
            self.next = upto.next();
            forget(&mut self.rules, upto);
            forget(&mut self.absent, upto);
            self.send_all(&Command::Advance { upto })?;
        }
        Ok(())
    }

    /// Closes the slots up to `upto` and waits until their decisions are out: those of all slots not yet handed out, by
    /// slot, in canonical order; slots without any are left out.
    ///
    /// # Errors
    /// [`Fault::Panicked`], [`Fault::Ended`].
    pub fn close(&mut self, upto: Slot) -> Result<Vec<(Slot, Vec<Decision>)>, Fault> {
        self.advance(upto)?;
        while self.complete <= upto {
            self.receive()?;
        }
        while self.options.view && self.viewed.0 + VIEW_LAG <= upto.0 {
            self.receive()?;
        }
        let later = self.decisions.split_off(&self.complete);
        let mut out: Vec<_> = std::mem::replace(&mut self.decisions, later).into_iter().collect();
        for (_, decisions) in &mut out {
            decisions.sort_by(|a, b| a.order().cmp(&b.order()));
        }
        Ok(out)
    }

    /// Rows of [`barrage_dataflows::command::Mode::Rows`] of the slots closed since the last call, in any order.
    pub fn rows(&mut self) -> Vec<Row> {
        std::mem::take(&mut self.rows)
    }

    /// Changes of [`barrage_dataflows::command::Mode::Masks`] of the slots closed since the last call, in any order.
    pub fn masks(&mut self) -> Vec<Masked> {
        std::mem::take(&mut self.masks)
    }

    /// Rules that left in the slots closed since the last call, in any order; with [`Options::spans`] only.
    pub fn spans(&mut self) -> Vec<Ended> {
        std::mem::take(&mut self.spans)
    }

    /// The slow state at the last slot asked to close; waits for its decisions first, which stay to be handed out.
    /// What was said to hold for later slots is not in it.
    ///
    /// # Errors
    /// [`Fault::Panicked`], [`Fault::Ended`].
    pub fn snapshot(&mut self) -> Result<Snapshot, Fault> {
        while self.complete < self.next {
            self.receive()?;
        }
        self.shares.clear();
        self.arbiter = None;
        self.send_all(&Command::Snapshot)?;
        while self.shares.len() < self.threads.workers() || self.arbiter.is_none() {
            self.receive()?;
        }
        let slot = self.next.minus(1);
        let in_force = self.rules.range(..=slot).next_back().or_else(|| self.rules.iter().next());
        let (Some(arbiter), Some((_, rules))) = (self.arbiter.take(), in_force) else {
            return Err(Fault::Ended);
        };
        let frame = Frame {
            slot,
            rules: RuleSet::clone(rules),
            absent: self.absent.range(..=slot).next_back().map_or(0, |(_, mask)| *mask),
            hold_until: self.hold_until,
        };
        Ok(Snapshot::join(frame, *arbiter, std::mem::take(&mut self.shares).into_iter()))
    }

    /// The newest view (1 Hz of event time).
    #[must_use]
    pub fn view(&self) -> Arc<View> {
        self.latest.get()
    }

    /// Waits until the view of slot `upto` (closed already) has been taken in.
    ///
    /// # Errors
    /// [`Fault::Panicked`], [`Fault::Ended`].
    pub fn settle(&mut self, upto: Slot) -> Result<Arc<View>, Fault> {
        while self.options.view && self.viewed <= upto && upto < self.next {
            self.receive()?;
        }
        Ok(self.view())
    }

    /// Ends the workers and waits for them.
    ///
    /// # Errors
    /// [`Fault::Panicked`].
    pub fn stop(mut self) -> Result<(), Fault> {
        self.send_all(&Command::Stop)?;
        loop {
            match self.receive() {
                Ok(()) => {}
                Err(Fault::Ended) => return self.threads.join(),
                Err(fault) => return Err(fault),
            }
        }
    }

    fn open(&self, slot: Slot) -> Result<(), Fault> {
        if slot < self.next {
            return Err(Fault::Closed { slot: slot.0, next: self.next.0 });
        }
        Ok(())
    }

    fn send_all(&mut self, command: &Command) -> Result<(), Fault> {
        (0..self.threads.workers()).try_for_each(|worker| self.send(worker, command.clone()))
    }

    /// Sends a command; while the worker's channel is full, takes reports in.
    fn send(&mut self, worker: usize, mut command: Command) -> Result<(), Fault> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        loop {
            match self.threads.try_send(worker, command) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(back)) => command = back,
                Err(TrySendError::Disconnected(_)) => return Err(self.gone()),
            }
            self.receive_within(Duration::from_millis(1))?;
        }
    }

    /// Takes in what has been reported, waiting for at least one report.
    fn receive(&mut self) -> Result<(), Fault> {
        while !self.receive_within(LOOK)? {}
        Ok(())
    }

    /// Takes in what is reported within the time; false: nothing.
    fn receive_within(&mut self, wait: Duration) -> Result<bool, Fault> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        match self.threads.reports.recv_timeout(wait) {
            Ok(report) => self.take(report)?,
            Err(RecvTimeoutError::Timeout) if self.threads.fallen() => return Err(self.gone()),
            Err(RecvTimeoutError::Timeout) => return Ok(false),
            Err(RecvTimeoutError::Disconnected) => return Err(self.gone()),
        }
        loop {
            match self.threads.reports.try_recv() {
                Ok(report) => self.take(report)?,
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return Ok(true),
            }
        }
    }

    fn take(&mut self, report: Report) -> Result<(), Fault> {
        match report {
            Report::Decisions(decisions) => {
                for decision in decisions {
                    self.decisions.entry(decision.slot).or_default().push(decision);
                }
            }
            Report::Rows(rows) => self.rows.extend(rows),
            Report::Masks(masks) => self.masks.extend(masks),
            Report::Spans(ended) => self.spans.extend(ended),
            Report::Complete(open) => self.complete = open,
            Report::Viewed(open) => self.viewed = open,
            Report::Rooms(share) => self.shares.push(share),
            Report::Arbiter(arbiter) => self.arbiter = Some(arbiter),
            Report::Panicked(_) => return Err(self.gone()),
        }
        Ok(())
    }

    /// Remembers that the workers are gone, and why.
    fn gone(&mut self) -> Fault {
        let fault = if self.threads.fallen() { Fault::Panicked } else { Fault::Ended };
        self.threads.cancel();
        self.fault.get_or_insert(fault).clone()
    }
}

/// Drops what was superseded at or before the slot.
fn forget<V>(said: &mut BTreeMap<Slot, V>, slot: Slot) {
    while said.len() > 1 && said.keys().nth(1).is_some_and(|second| *second <= slot) {
        said.pop_first();
    }
}
