//! A leader at work: polls sources, closes slots, writes steps, lets effects out when they are final.

use super::line::{Checkpoint, Line, Observer, Settings};
use super::log::{Kept, Log};
use super::tap::Tap;
use crate::ingest::{Item, Poll, Source};
use barrage_dataflows::report::Ended;
use barrage_dataflows::view::View;
use barrage_engine::control::{Counters, Leader, Reader, Reading, Status, Waiting, lead};
use barrage_engine::rules::RuleSet;
use barrage_protocol::control::{Control, Entry};
use barrage_protocol::event::Hit;
use barrage_protocol::ids::{Level, Slot};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Entries of the control log kept in memory: more than two hours of steps.
const LOG: usize = 10_000;

/// What a round came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// Something moved: go on at once.
    Busy,
    /// Nothing to do for now.
    Idle,
    /// Everything is read, closed and out.
    Finished,
}

/// A line that leads.
pub struct Lead<L = Kept> {
    line: Line,
    leader: Leader<Hit>,
    log: L,
    sources: BTreeMap<u32, Tap>,
    waiting: Waiting<(Slot, Checkpoint)>,
    failures: BTreeMap<u32, String>,
}

impl Lead {
    /// A leader of `sources`, one a partition in their order, under `rules`, with its log in memory. `now_ms` is
    /// monotonic.
    ///
    /// # Errors
    /// A group that the rules do not have.
    pub fn new(
        settings: Settings,
        rules: RuleSet,
        sources: Vec<Box<dyn Source>>,
        now_ms: i64,
        observer: &mut dyn Observer,
    ) -> anyhow::Result<Self> {
        let mut log = Kept::new(LOG);
        let mut leader = Leader::new(settings.control.clone(), 1, now_ms);
        observer.written(&lead(1))?;
        log.append(&lead(1))?;
        let (text, hash) = (rules.text.clone(), rules.hash.clone());
        leader.propose(Control::Rules { text, hash }).map_err(anyhow::Error::msg)?;
        let sources: BTreeMap<_, _> = (0..).zip(sources.into_iter().map(Tap::new)).collect();
        for (p, source) in &sources {
            leader.add_partition(*p, source.source().first_offset(), now_ms);
        }
        Ok(Self::with(Line::new(settings, rules)?, leader, log, sources))
    }
}

impl<L: Log> Lead<L> {
    pub(super) fn with(
        line: Line,
        leader: Leader<Hit>,
        log: L,
        sources: BTreeMap<u32, Tap>,
    ) -> Self {
        let waiting = Waiting::new(&line.settings.control);
        Self { line, leader, log, sources, waiting, failures: BTreeMap::new() }
    }

    /// One round: poll every partition that may be read, close what can be closed, write the step that is due.
    ///
    /// # Errors
    /// A worker that fell, an observer that cannot go on.
    pub fn round(&mut self, now_ms: i64, observer: &mut dyn Observer) -> anyhow::Result<Round> {
        let line = &mut self.line;
        if self.leader.turn(now_ms, &mut |p, slot, hit| line.slotting(p).count(slot, hit)) {
            self.line.slotting.clear();
        }
        let mut busy = self.poll(now_ms);
        self.apply()?;
        if let Some(upto) = self.leader.closable(now_ms) {
            let closed = self.leader.last_closed().unwrap_or(upto);
            let upto = upto.min(Slot(closed.0.saturating_add(self.line.settings.slots)));
            let leader = &self.leader;
            let any = self.line.close(upto, |slot| leader.offsets_at(slot), observer)?;
            self.leader.closed(upto, &self.line.canon.hash(), any);
            busy = true;
        }
        busy |= self.steps(now_ms, observer)?;
        if self.leader.is_finished() {
            return Ok(Round::Finished);
        }
        Ok(if busy { Round::Busy } else { Round::Idle })
    }

    /// Polls each partition once; returns whether any record came.
    fn poll(&mut self, now_ms: i64) -> bool {
        let mut busy = false;
        for (p, source) in &mut self.sources {
            if !self.leader.can_read(*p) {
                continue;
            }
            let (leader, line) = (&mut self.leader, &mut self.line);
            let poll = source.poll(line.settings.batch, &mut |item| {
                busy = true;
                if let Ok(hit) = item.event {
                    line.slotting(*p).intern(hit.room, item.room);
                }
                let sink = &mut |p, slot, hit| line.slotting(p).count(slot, hit);
                leader.read(*p, reading(&item), sink);
            });
            match poll {
                Poll::More | Poll::AtEnd => {
                    self.leader.answered(*p, now_ms, matches!(poll, Poll::AtEnd));
                    self.failures.remove(p);
                }
                Poll::Ended => {
                    busy = true;
                    let line = &mut self.line;
                    let sink = &mut |p, slot, hit| line.slotting(p).count(slot, hit);
                    self.leader.ended(*p, sink);
                }
                Poll::Failed(why) => {
                    self.leader.failed(*p, now_ms);
                    self.failures.insert(*p, why);
                }
            }
        }
        busy
    }

    fn apply(&mut self) -> anyhow::Result<()> {
        let due = self.leader.records_due();
        if due.is_empty() { Ok(()) } else { self.line.apply(&due) }
    }

    /// Writes what is due, reads it back, lets out what is final.
    fn steps(&mut self, now_ms: i64, observer: &mut dyn Observer) -> anyhow::Result<bool> {
        let mut busy = false;
        while let Some(step) = self.leader.step(now_ms) {
            let entry = Entry::Step(step);
            observer.written(&entry)?;
            self.log.append(&entry)?;
            busy = true;
        }
        while let Some((position, entry)) = self.log.read()? {
            self.leader.pass(position);
            self.leader.entry(&entry);
            busy = true;
        }
        let last_final = self.leader.last_final();
        if !self.leader.is_fenced() {
            self.line.send(last_final, observer)?;
        }
        self.leader.done(observer.done(last_final));
        self.line.outbox.done(self.leader.last_done());
        Ok(busy)
    }

    /// Lets time run on for so many slots after everything is read, for whoever counts windows that end there. No step
    /// covers them.
    ///
    /// # Errors
    /// A worker that fell.
    pub fn close_beyond(&mut self, slots: u64, observer: &mut dyn Observer) -> anyhow::Result<()> {
        if let Some(closed) = self.leader.last_closed() {
            self.line.close(Slot(closed.0 + slots), |_| BTreeMap::new(), observer)?;
        }
        Ok(())
    }

    /// Asks for a control record; it holds from the slot after the last closed.
    ///
    /// # Errors
    /// A record that only the leader itself may make.
    pub fn propose(&mut self, control: Control) -> anyhow::Result<()> {
        self.leader.propose(control).map_err(anyhow::Error::msg)
    }

    /// Takes a checkpoint at the last closed slot, to be had from [`Self::kept`] once it may be kept.
    ///
    /// # Errors
    /// A worker that fell.
    pub fn checkpoint(&mut self) -> anyhow::Result<()> {
        if let Some(checkpoint) = self.line.checkpoint(self.leader.checkpoint())? {
            let slot = checkpoint.control.slot;
            self.waiting.push(slot, (slot, checkpoint));
        }
        Ok(())
    }

    /// The next checkpoint that may be kept: its slot is final and its effects are out.
    pub fn kept(&mut self) -> Option<Checkpoint> {
        self.kept_until(self.leader.last_done())
    }

    /// As [`Self::kept`], for one that stays on this machine: effects up to `spooled` cannot be lost.
    pub fn kept_until(&mut self, spooled: Slot) -> Option<Checkpoint> {
        self.waiting.ready(self.leader.last_final(), spooled).map(|(_, c)| c)
    }

    /// Levels of the rooms above normal at the last closed slot; none before the start.
    ///
    /// # Errors
    /// A worker that fell.
    pub fn levels(&mut self) -> anyhow::Result<BTreeMap<String, Level>> {
        if self.leader.last_closed().is_none() {
            return Ok(BTreeMap::new());
        }
        self.line.levels()
    }

    /// Hash of the rule set that the control log names, or that is proposed for its start.
    #[must_use]
    pub fn rules_hash(&self) -> Option<&str> {
        self.leader.rules_hash()
    }

    /// What the reader of the log dropped.
    #[must_use]
    pub fn reader(&self) -> &Reader {
        self.leader.reader()
    }

    /// The epoch.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.leader.epoch()
    }

    /// Partitions known by now.
    pub fn partitions(&self) -> impl Iterator<Item = u32> + '_ {
        self.leader.partitions()
    }

    /// Goes on reading a partition elsewhere: records that an operator gave up.
    ///
    /// # Errors
    /// A source that cannot.
    pub fn go(&mut self, partition: u32, offset: u64) -> anyhow::Result<()> {
        self.sources.get_mut(&partition).map_or(Ok(()), |source| source.go(offset))
    }

    /// The control log.
    #[must_use]
    pub fn log(&self) -> &L {
        &self.log
    }

    /// Adds a partition, unless it is there; a `start` or a `partitions` record tells the others.
    pub fn add(&mut self, partition: u32, source: Box<dyn Source>, now_ms: i64) {
        if !self.sources.contains_key(&partition) {
            self.leader.add_partition(partition, source.first_offset(), now_ms);
            self.sources.insert(partition, Tap::new(source));
        }
    }

    /// Whether a higher epoch leads: this line must end, and start again from a checkpoint.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        self.leader.is_fenced()
    }

    /// The last slot whose effects may leave.
    #[must_use]
    pub fn last_final(&self) -> Slot {
        self.leader.last_final()
    }

    /// The last slot whose effects are out, as the next step will say.
    #[must_use]
    pub fn last_done(&self) -> Slot {
        self.leader.last_done()
    }

    /// The last closed slot; none before the first record.
    #[must_use]
    pub fn last_closed(&self) -> Option<Slot> {
        self.leader.last_closed()
    }

    /// What became of the records of a partition.
    #[must_use]
    pub fn counters(&self, partition: u32) -> Option<&Counters> {
        self.leader.counters(partition)
    }

    /// How a partition stands, and why it could not be read lately.
    #[must_use]
    pub fn status(&self, partition: u32) -> Option<(Status, Option<&str>)> {
        let why = self.failures.get(&partition).map(String::as_str);
        Some((self.leader.status(partition)?, why))
    }

    /// Events that were counted for a closed slot: always 0 unless there is a bug.
    #[must_use]
    pub fn misplaced(&self) -> u64 {
        self.leader.misplaced()
    }

    /// Running hash of the canonical decision log.
    #[must_use]
    pub fn hash(&self) -> String {
        self.line.canon.hash()
    }

    /// The rule set in force.
    #[must_use]
    pub fn rules(&self) -> &Arc<RuleSet> {
        self.line.rules()
    }

    /// The newest view, complete up to the last closed slot.
    ///
    /// # Errors
    /// A worker that fell, or nothing read yet.
    pub fn settle(&mut self) -> anyhow::Result<Arc<View>> {
        self.line.settle()
    }

    /// Rules that are in at the last closed slot, for spans still open at the end of a run.
    ///
    /// # Errors
    /// A worker that fell, or nothing read yet.
    pub fn open_spans(&mut self) -> anyhow::Result<Vec<Ended>> {
        self.line.open_spans()
    }

    /// Ends the workers.
    ///
    /// # Errors
    /// A worker that fell.
    pub fn stop(mut self) -> anyhow::Result<()> {
        self.line.stop()
    }
}

/// A record as the clocks take it.
pub(super) fn reading(item: &Item<'_>) -> Reading<Hit> {
    Reading {
        offset: item.offset,
        append_ms: item.append_ms,
        t: item.t,
        event: item.event.map_err(|reject| reject.reason),
    }
}
