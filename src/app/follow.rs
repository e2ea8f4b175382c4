//! A follower at work: takes the steps of a control log whole, decides the same, and compares.

use super::lead::{Lead, Round, reading};
use super::line::{Checkpoint, Line, Observer, Settings};
use crate::ingest::{Poll, Source};
use barrage_dataflows::report::Ended;
use barrage_engine::control::{Candidate, Counters, Divergence, Follower, Memory, Progress, lead};
use barrage_engine::rules::RuleSet;
use barrage_protocol::control::Entry;
use barrage_protocol::event::Hit;
use barrage_protocol::ids::Slot;
use std::collections::{BTreeMap, BTreeSet};

/// A line that follows a control log.
pub struct Follow {
    line: Line,
    follower: Follower<Hit>,
    sources: BTreeMap<u32, Box<dyn Source>>,
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
        let follower = Follower::new(settings.control.clone(), 0);
        let line = Line::new(settings, rules)?;
        let sources = (0..).zip(sources).collect();
        Ok(Self { line, follower, sources, ended: BTreeSet::new() })
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
        let follower = Follower::restore(settings.control.clone(), &checkpoint.control);
        let line = Line::restore(settings, checkpoint)?;
        let mut sources: BTreeMap<_, _> = (0..).zip(sources).collect();
        for (p, offset) in checkpoint.control.offsets() {
            if let Some(source) = sources.get_mut(&p) {
                source.seek(offset).map_err(anyhow::Error::msg)?;
            }
        }
        Ok(Self { line, follower, sources, ended: BTreeSet::new() })
    }

    /// Position of the next entry of the log, if one is wanted.
    #[must_use]
    pub fn wants(&self) -> Option<u64> {
        self.follower.wants_entries().then(|| self.follower.position())
    }

    /// Hands over an entry of the log.
    pub fn entry(&mut self, entry: Entry) {
        self.follower.entry(entry);
    }

    /// One round; [`Round::Finished`]: every step handed over is taken.
    ///
    /// # Errors
    /// A worker that fell, an observer that cannot go on, a rule set in the log that cannot be read.
    pub fn round(&mut self, now_ms: i64, observer: &mut dyn Observer) -> anyhow::Result<Round> {
        let line = &mut self.line;
        if self.follower.turn(now_ms, &mut |p, slot, hit| line.slotting(p).count(slot, hit)) {
            self.line.slotting.clear();
            self.ended.clear();
        }
        let mut busy = self.poll();
        let due = self.follower.records_due();
        if !due.is_empty() {
            self.line.apply(&due)?;
            busy = true;
        }
        if let Some(upto) = self.follower.closable() {
            let follower = &self.follower;
            self.line.close(upto, |slot| follower.offsets_at(slot), observer)?;
            self.follower.closed(upto, &self.line.canon.hash());
            busy = true;
        }
        // What a follower closes is final already: the step that says so was read first.
        if let Some(closed) = self.follower.last_closed() {
            self.line.send(closed, observer)?;
            self.line.outbox.done(self.follower.done());
        }
        if !busy && self.follower.is_up_to_date() {
            return Ok(Round::Finished);
        }
        Ok(if busy { Round::Busy } else { Round::Idle })
    }

    fn poll(&mut self) -> bool {
        let mut busy = false;
        for (p, source) in &mut self.sources {
            let Some(wanted) = self.follower.wanted(*p) else { continue };
            let (follower, line) = (&mut self.follower, &mut self.line);
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
                self.follower.ended(*p);
            }
        }
        busy
    }

    /// Takes a checkpoint at the last closed slot: final already.
    ///
    /// # Errors
    /// A worker that fell.
    pub fn checkpoint(&mut self) -> anyhow::Result<Option<Checkpoint>> {
        self.line.checkpoint(self.follower.checkpoint())
    }

    /// Takes over: writes `lead {epoch}` into `log`, which was followed to its end, and goes on from its last step;
    /// what it says was not done is sent again.
    ///
    /// # Errors
    /// A log that was not followed to its end, or one that a higher epoch leads.
    pub fn into_lead(
        self,
        epoch: u64,
        mut log: Memory,
        now_ms: i64,
        observer: &mut dyn Observer,
    ) -> anyhow::Result<Lead> {
        let Self { mut line, mut follower, sources, .. } = self;
        observer.written(&lead(epoch))?;
        log.append(lead(epoch));
        while let Some(entry) = log.get(follower.position()) {
            follower.entry(entry.clone());
        }
        if follower.turn(now_ms, &mut |p, slot, hit| line.slotting(p).count(slot, hit)) {
            line.slotting.clear();
        }
        let hash = line.canon.hash();
        let candidate = Candidate::new(follower, epoch, now_ms);
        line.outbox.again(candidate.done());
        let progress = candidate.progress(now_ms);
        if progress != Progress::Ready {
            anyhow::bail!("cannot lead from here ({progress:?}): the log's last step is not taken");
        }
        let leader = candidate
            .into_leader(now_ms, &hash, BTreeMap::new())
            .map_err(|_| anyhow::anyhow!("cannot lead before the last step is taken"))?;
        Ok(Lead::with(line, leader, log, sources))
    }

    /// The next divergence from what the leader wrote.
    pub fn divergence(&mut self) -> Option<Divergence> {
        self.follower.divergence()
    }

    /// The last closed slot; none before the first record.
    #[must_use]
    pub fn last_closed(&self) -> Option<Slot> {
        self.follower.last_closed()
    }

    /// What became of the records of a partition.
    #[must_use]
    pub fn counters(&self, partition: u32) -> Option<&Counters> {
        self.follower.counters(partition)
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
