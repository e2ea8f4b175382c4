//! A follower at work: takes the steps of a control log whole, decides the same, and compares.

use super::lead::{Lead, Round, reading};
use super::line::{Checkpoint, Line, Observer, Settings};
use super::log::Log;
use super::tap::Tap;
use crate::ingest::{Poll, Source};
use barrage_dataflows::report::Ended;
use barrage_dataflows::view::View;
use barrage_engine::control::{
    Alarms, Candidate, Counters, Divergence, Follower, Progress, Reader, lead,
};
use barrage_engine::rules::RuleSet;
use barrage_protocol::control::Entry;
use barrage_protocol::event::Hit;
use barrage_protocol::ids::{Level, Slot};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What it is on its way to.
enum Stage {
    Follows(Box<Follower<Hit>>),
    /// It won an election, and has to reach the last step before its own `lead`.
    Claims(Box<Candidate<Hit>>),
}

impl Stage {
    fn follower(&mut self) -> &mut Follower<Hit> {
        match self {
            Self::Follows(follower) => follower,
            Self::Claims(candidate) => &mut candidate.follower,
        }
    }

    fn peek(&self) -> &Follower<Hit> {
        match self {
            Self::Follows(follower) => follower,
            Self::Claims(candidate) => &candidate.follower,
        }
    }
}

/// A line that follows a control log.
pub struct Follow {
    line: Line,
    stage: Stage,
    sources: BTreeMap<u32, Tap>,
    /// Partitions whose end the follower has been told of.
    ended: BTreeSet<u32>,
}

impl Follow {
    /// A follower from the log's first entry on. `rules` hold until the log names others.
    ///
    /// # Errors
    /// A group that the rules do not have.
    pub fn new(
        settings: Settings,
        rules: RuleSet,
        sources: Vec<Box<dyn Source>>,
    ) -> anyhow::Result<Self> {
        Self::at(settings, rules, 0, (0..).zip(sources).collect())
    }

    /// A follower from an entry of the log on that stands before a `start`.
    ///
    /// # Errors
    /// A group that the rules do not have.
    pub fn at(
        settings: Settings,
        rules: RuleSet,
        position: u64,
        sources: BTreeMap<u32, Box<dyn Source>>,
    ) -> anyhow::Result<Self> {
        let follower = Follower::new(settings.control.clone(), position);
        Ok(Self::with(Line::new(settings, rules)?, follower, sources))
    }

    /// A follower that goes on from a checkpoint.
    ///
    /// # Errors
    /// A source that cannot go to the checkpoint's offset; workers that cannot be started.
    pub fn restore(
        settings: Settings,
        checkpoint: &Checkpoint,
        sources: Vec<Box<dyn Source>>,
    ) -> anyhow::Result<Self> {
        Self::restore_with(settings, checkpoint, (0..).zip(sources).collect())
    }

    /// As [`Self::restore`], with the partitions named.
    ///
    /// # Errors
    /// As there.
    pub fn restore_with(
        settings: Settings,
        checkpoint: &Checkpoint,
        sources: BTreeMap<u32, Box<dyn Source>>,
    ) -> anyhow::Result<Self> {
        let follower = Follower::restore(settings.control.clone(), &checkpoint.control);
        let mut new = Self::with(Line::restore(settings, checkpoint)?, follower, sources);
        for (p, offset) in checkpoint.control.offsets() {
            if let Some(source) = new.sources.get_mut(&p) {
                source.go(offset)?;
            }
        }
        Ok(new)
    }

    fn with(line: Line, follower: Follower<Hit>, sources: BTreeMap<u32, Box<dyn Source>>) -> Self {
        let sources = sources.into_iter().map(|(p, source)| (p, Tap::new(source))).collect();
        Self { line, stage: Stage::Follows(Box::new(follower)), sources, ended: BTreeSet::new() }
    }

    /// Adds the source of a partition that the log may name from now on.
    pub fn add(&mut self, partition: u32, source: Box<dyn Source>) {
        self.sources.entry(partition).or_insert_with(|| Tap::new(source));
    }

    /// Position of the next entry of the log, if one is wanted.
    #[must_use]
    pub fn wants(&self) -> Option<u64> {
        let follower = self.stage.peek();
        follower.wants_entries().then(|| follower.position())
    }

    /// Hands over the next entry of a log without holes.
    pub fn entry(&mut self, entry: Entry) {
        self.stage.follower().entry(entry);
    }

    /// Hands over the next entry of a log, with its position.
    pub fn entry_at(&mut self, position: u64, entry: Entry) {
        let follower = self.stage.follower();
        follower.pass(position);
        follower.entry(entry);
    }

    /// One round; [`Round::Finished`]: every step handed over is taken.
    ///
    /// # Errors
    /// A worker that fell, an observer that cannot go on, a rule set in the log that cannot be read.
    pub fn round(&mut self, now_ms: i64, observer: &mut dyn Observer) -> anyhow::Result<Round> {
        let line = &mut self.line;
        let follower = self.stage.follower();
        if follower.turn(now_ms, &mut |p, slot, hit| line.slotting(p).count(slot, hit)) {
            self.line.slotting.clear();
            self.ended.clear();
            for (p, source) in &mut self.sources {
                if let Some(next) = follower.next_of(*p) {
                    source.go(next)?;
                }
            }
        }
        let mut busy = self.poll()?;
        let follower = self.stage.follower();
        let due = follower.records_due();
        if !due.is_empty() {
            self.line.apply(&due)?;
            busy = true;
        }
        if let Some(upto) = follower.closable() {
            self.line.close(upto, |slot| follower.offsets_at(slot), observer)?;
            follower.closed(upto, &self.line.canon.hash());
            busy = true;
        }
        // What a follower closes is final already: the step that says so was read first.
        if let Some(closed) = follower.last_closed() {
            self.line.send(closed, observer)?;
            self.line.outbox.done(follower.done());
        }
        if !busy && follower.is_up_to_date() {
            return Ok(Round::Finished);
        }
        Ok(if busy { Round::Busy } else { Round::Idle })
    }

    fn poll(&mut self) -> anyhow::Result<bool> {
        let mut busy = false;
        let (follower, line) = (self.stage.follower(), &mut self.line);
        for (p, source) in &mut self.sources {
            let Some(wanted) = follower.wanted(*p) else { continue };
            // Offsets that an operator gave up are gone over; a partition that was added begins where the log says.
            // The end of a file counts as an offset, and there is nothing to go to.
            if !self.ended.contains(p) {
                source.go(wanted.start)?;
            }
            let many = usize::try_from(wanted.end - wanted.start).unwrap_or(usize::MAX);
            let poll = source.poll(many.min(line.settings.batch), &mut |item| {
                busy = true;
                if let Ok(hit) = item.event {
                    line.slotting(*p).intern(hit.room, item.room);
                }
                let sink = &mut |p, slot, hit| line.slotting(p).count(slot, hit);
                follower.read(*p, reading(&item), sink);
            });
            // Once only: a step may ask for more than the file holds, and that is no progress.
            if matches!(poll, Poll::Ended) && self.ended.insert(*p) {
                busy = true;
                follower.ended(*p);
            }
        }
        Ok(busy)
    }

    /// Takes a checkpoint at the last closed slot: final already.
    ///
    /// # Errors
    /// A worker that fell.
    pub fn checkpoint(&mut self) -> anyhow::Result<Option<Checkpoint>> {
        self.line.checkpoint(self.stage.peek().checkpoint())
    }

    /// Takes over: `lead {epoch}` goes to the log; from now on this line is on its way to the last step before it. Go on
    /// handing over entries, and ask [`Self::progress`] after each round.
    ///
    /// # Errors
    /// A log that takes no entry.
    pub fn claim(
        self,
        epoch: u64,
        log: &mut impl Log,
        now_ms: i64,
        observer: &mut dyn Observer,
    ) -> anyhow::Result<Self> {
        observer.written(&lead(epoch))?;
        log.append(&lead(epoch))?;
        let follower = match self.stage {
            Stage::Follows(follower) => *follower,
            Stage::Claims(candidate) => candidate.into_follower(),
        };
        let candidate = Box::new(Candidate::new(follower, epoch, now_ms));
        Ok(Self { stage: Stage::Claims(candidate), ..self })
    }

    /// How far a claim is; none: nothing was claimed.
    #[must_use]
    pub fn progress(&self, now_ms: i64) -> Option<Progress> {
        match &self.stage {
            Stage::Follows(_) => None,
            Stage::Claims(candidate) => Some(candidate.progress(now_ms)),
        }
    }

    /// Leads, once [`Self::progress`] is ready or a break; what the log says was not done is sent again. `levels` are
    /// those of the policies in force, for a start or a break.
    ///
    /// # Errors
    /// A claim that is not there yet, or that a higher epoch has overtaken.
    pub fn into_lead<L: Log>(
        self,
        log: L,
        now_ms: i64,
        levels: BTreeMap<String, Level>,
    ) -> anyhow::Result<Lead<L>> {
        let Self { mut line, stage, mut sources, .. } = self;
        let Stage::Claims(candidate) = stage else {
            anyhow::bail!("cannot lead without a claim");
        };
        let progress = candidate.progress(now_ms);
        line.outbox.again(candidate.done());
        let leader = candidate.into_leader(now_ms, &line.canon.hash(), levels);
        let mut leader = leader.map_err(|_| {
            anyhow::anyhow!(
                "cannot lead from here ({progress:?}): the log's last step is not taken"
            )
        })?;
        for (p, source) in &sources {
            if leader.clock(*p).is_none() {
                leader.add_partition(*p, source.source().first_offset(), now_ms);
            }
        }
        if progress == Progress::Break {
            for (p, source) in &mut sources {
                if let Some(clock) = leader.clock(*p) {
                    source.go(clock.next())?;
                }
            }
        }
        Ok(Lead::with(line, leader, log, sources))
    }

    /// The next divergence from what the leader wrote.
    pub fn divergence(&mut self) -> Option<Divergence> {
        self.stage.follower().divergence()
    }

    /// The epoch that leads, as far as the log was read.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.stage.peek().reader().epoch()
    }

    /// What was counted of the log and against it.
    #[must_use]
    pub fn alarms(&self) -> (Alarms, Reader) {
        let follower = self.stage.peek();
        (follower.alarms().clone(), follower.reader().clone())
    }

    /// Whether its windows are whole: after a checkpoint they are rebuilt first.
    #[must_use]
    pub fn rebuilt(&self) -> bool {
        self.stage.peek().rebuilds_to().is_none()
    }

    /// Whether all steps handed over are taken.
    #[must_use]
    pub fn is_up_to_date(&self) -> bool {
        self.stage.peek().is_up_to_date()
    }

    /// The last slot whose effects are out, by the log.
    #[must_use]
    pub fn last_done(&self) -> Slot {
        self.stage.peek().done()
    }

    /// The newest view that the dataflow has, complete up to the last closed slot.
    ///
    /// # Errors
    /// A worker that fell, or nothing read yet.
    pub fn settle(&mut self) -> anyhow::Result<Arc<View>> {
        self.line.settle()
    }

    /// The rule set in force.
    #[must_use]
    pub fn rules(&self) -> &Arc<RuleSet> {
        self.line.rules()
    }

    /// The last closed slot; none before the first record.
    #[must_use]
    pub fn last_closed(&self) -> Option<Slot> {
        self.stage.peek().last_closed()
    }

    /// What became of the records of a partition.
    #[must_use]
    pub fn counters(&self, partition: u32) -> Option<&Counters> {
        self.stage.peek().counters(partition)
    }

    /// Running hash of the canonical decision log.
    #[must_use]
    pub fn hash(&self) -> String {
        self.line.canon.hash()
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
