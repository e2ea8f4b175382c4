//! What a leader and a follower have in common: counts to the workers, decisions to the canonical log.

use crate::ingest::slotting::{Batch, Slotting};
use crate::worker::Host;
use anyhow::Context as _;
use barrage_dataflows::command::Options;
use barrage_dataflows::report::{Ended, Row};
use barrage_dataflows::snapshot::Snapshot;
use barrage_dataflows::view::View;
use barrage_engine::control::{self, Outbox};
use barrage_engine::decision::Canon;
use barrage_engine::features::W70;
use barrage_engine::rules::{self, RuleSet};
use barrage_protocol::control::{Control, Entry, Record};
use barrage_protocol::decision::Decision;
use barrage_protocol::event::Hit;
use barrage_protocol::ids::{Level, Slot};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Slots handed to the workers before their decisions are fetched; far below what the worker lets counts run ahead.
const CHUNK: u64 = 500;

/// How a line is built.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Time and control log.
    pub control: control::Config,
    /// Worker threads of the dataflow.
    pub workers: usize,
    /// What the dataflow is built for.
    pub graph: Options,
    /// Puts every room into this group.
    pub group: Option<String>,
    /// Most records taken from a partition in one poll.
    pub batch: usize,
    /// Most slots closed in one round, so that steps are no further apart than that.
    pub slots: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            control: control::Config::default(),
            workers: 1,
            graph: Options::default(),
            group: None,
            batch: 1024,
            slots: 10,
        }
    }
}

/// Who looks on as slots close. Nothing it does can change a decision.
pub trait Observer {
    /// Counts of one partition in a slot about to close.
    fn counts(&mut self, slot: Slot, batch: &Batch) {
        let _ = (slot, batch);
    }

    /// Slots up to `upto` are closed; `view` is the newest that the dataflow has.
    ///
    /// # Errors
    /// Ends the run.
    fn closed(&mut self, upto: Slot, view: &Arc<View>) -> anyhow::Result<()> {
        let _ = (upto, view);
        Ok(())
    }

    /// Rules that left in slots just closed; asked for with `spans` of the graph's options.
    fn ended(&mut self, ended: Vec<Ended>) {
        let _ = ended;
    }

    /// Rows of slots just closed (`bench rows`).
    ///
    /// # Errors
    /// Ends the run.
    fn rows(&mut self, rows: Vec<Row>) -> anyhow::Result<()> {
        let _ = rows;
        Ok(())
    }

    /// Decisions of a final slot, in canonical order, with their canonical lines.
    ///
    /// # Errors
    /// Ends the run.
    fn decided(
        &mut self,
        slot: Slot,
        decisions: &[Decision],
        lines: &[String],
    ) -> anyhow::Result<()>;

    /// Effects of which slots are out, where those up to `handed` were handed out: asked in every round of a leader.
    fn done(&mut self, handed: Slot) -> Slot {
        handed
    }

    /// An entry was written to the control log.
    ///
    /// # Errors
    /// Ends the run.
    fn written(&mut self, entry: &Entry) -> anyhow::Result<()> {
        let _ = entry;
        Ok(())
    }
}

/// Everything that a restart needs (semantics §1 "Restart").
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The control side.
    pub control: control::Checkpoint<Hit>,
    /// Slow state of rooms and of the whole.
    pub snapshot: Arc<Snapshot>,
    /// The running hash of the decisions.
    pub canon: Canon,
}

/// Decisions of a slot on their way out.
#[derive(Clone, Debug)]
pub(super) struct Final {
    pub(super) decisions: Vec<Decision>,
    pub(super) lines: Vec<String>,
}

/// Workers, open counts and the canonical log of one line.
pub(super) struct Line {
    pub(super) settings: Settings,
    pub(super) slotting: BTreeMap<u32, Slotting>,
    pub(super) outbox: Outbox<Final>,
    pub(super) canon: Canon,
    host: Option<Host>,
    rules: Arc<RuleSet>,
    absent: BTreeSet<u32>,
}

impl Line {
    pub(super) fn new(settings: Settings, rules: RuleSet) -> anyhow::Result<Self> {
        let rules = Arc::new(in_group(rules, settings.group.as_deref())?);
        Ok(Self {
            settings,
            slotting: BTreeMap::new(),
            outbox: Outbox::default(),
            canon: Canon::default(),
            host: None,
            rules,
            absent: BTreeSet::new(),
        })
    }

    /// A line that goes on from a checkpoint: counts from the slot after its base are closed without deciding first.
    pub(super) fn restore(settings: Settings, checkpoint: &Checkpoint) -> anyhow::Result<Self> {
        let snapshot = Arc::clone(&checkpoint.snapshot);
        let mut line = Self::new(settings, snapshot.rules().clone())?;
        line.canon = checkpoint.canon.clone();
        line.absent = (0..32).filter(|p| snapshot.absent() >> p & 1 == 1).collect();
        let first = checkpoint.control.base.next();
        let host = Host::restore(line.settings.workers, snapshot, first, line.settings.graph)?;
        line.host = Some(host);
        Ok(line)
    }

    /// Control records that hold from the next slot.
    pub(super) fn apply(&mut self, records: &[Record]) -> anyhow::Result<()> {
        let starts = |r: &&Record| matches!(r.control, Control::Start { .. });
        if let Some(start) = records.iter().rfind(starts) {
            self.start(start, records)?;
            return Ok(());
        }
        for record in records {
            self.take(record)?;
        }
        Ok(())
    }

    /// Decisions begin, or begin anew: whatever was known before is let go. What was counted before went when the clocks
    /// said so; what they have counted since belongs to the new beginning.
    fn start(&mut self, start: &Record, records: &[Record]) -> anyhow::Result<()> {
        let Control::Start { levels, .. } = &start.control else { return Ok(()) };
        if let Some(host) = self.host.take() {
            host.stop()?;
            self.absent.clear();
        }
        for record in records {
            if let Control::Rules { text, .. } = &record.control {
                self.rules = self.parse(text)?;
            }
        }
        let workers = self.settings.workers;
        let rules = Arc::clone(&self.rules);
        let mut host = Host::start(workers, start.from, rules, self.settings.graph)?;
        if !levels.is_empty() {
            let levels = levels.iter().map(|(room, level)| (room.as_str().into(), *level));
            host.seed(levels.collect(), Slot(start.from.0 + W70))?;
        }
        self.host = Some(host);
        let others = records.iter().filter(|r| !matches!(r.control, Control::Rules { .. }));
        others.into_iter().try_for_each(|record| self.take(record))
    }

    fn take(&mut self, record: &Record) -> anyhow::Result<()> {
        // A restart meets records again that hold from before the slots it rebuilds.
        let from = record.from.max(self.host()?.next());
        match &record.control {
            Control::Rules { text, .. } => {
                self.rules = self.parse(text)?;
                let rules = Arc::clone(&self.rules);
                self.host()?.rules(from, rules)?;
            }
            Control::Absent { partition } => {
                self.absent.insert(*partition);
                self.tell_absent(from)?;
            }
            Control::Back { partition } => {
                self.absent.remove(partition);
                self.tell_absent(from)?;
            }
            Control::Rebase { room, .. } => self.host()?.rebase(from, room)?,
            // A record of a later version: what it says cannot be decided here.
            Control::Unknown => anyhow::bail!("the control log holds a record of a later version"),
            // The clocks see to these.
            Control::Start { .. } | Control::Partitions { .. } | Control::Skip { .. } => {}
        }
        Ok(())
    }

    fn tell_absent(&mut self, from: Slot) -> anyhow::Result<()> {
        let mask = self.absent.iter().fold(0, |mask, p| mask | 1 << (p % 32));
        Ok(self.host()?.absent(from, mask)?)
    }

    fn parse(&self, text: &str) -> anyhow::Result<Arc<RuleSet>> {
        let parsed = rules::parse(text).map_err(|problems| {
            let first = problems.first().map(|p| p.what.clone()).unwrap_or_default();
            anyhow::anyhow!("a rule set in the control log cannot be read: {first}")
        })?;
        Ok(Arc::new(in_group(parsed, self.settings.group.as_deref())?))
    }

    fn host(&mut self) -> anyhow::Result<&mut Host> {
        self.host.as_mut().context("the control log does not begin with a start")
    }

    /// The rule set in force.
    pub(super) fn rules(&self) -> &Arc<RuleSet> {
        &self.rules
    }

    /// The counts of a partition.
    pub(super) fn slotting(&mut self, partition: u32) -> &mut Slotting {
        self.slotting.entry(partition).or_insert_with(|| Slotting::new(partition))
    }

    /// Closes the slots up to `upto`; `offsets` tells where a slot closed. Returns whether there were decisions.
    pub(super) fn close(
        &mut self,
        upto: Slot,
        offsets: impl Fn(Slot) -> BTreeMap<u32, u64>,
        observer: &mut dyn Observer,
    ) -> anyhow::Result<bool> {
        let mut any = false;
        let mut next = self.host()?.next();
        while next <= upto {
            let last = Slot(next.0 + CHUNK - 1).min(upto);
            self.send_counts(last, observer)?;
            for (slot, mut decisions) in self.host()?.close(last)? {
                let lines = self.canon.append(slot, &mut decisions, &offsets(slot));
                any |= !decisions.is_empty();
                self.outbox.push(slot, Final { decisions, lines });
            }
            let ended = self.host()?.spans();
            if !ended.is_empty() {
                observer.ended(ended);
            }
            let rows = self.host()?.rows();
            if !rows.is_empty() {
                observer.rows(rows)?;
            }
            next = last.next();
        }
        let view = self.host()?.view();
        observer.closed(upto, &view)?;
        Ok(any)
    }

    fn send_counts(&mut self, last: Slot, observer: &mut dyn Observer) -> anyhow::Result<()> {
        let host = self.host.as_mut().context("counts without a start")?;
        loop {
            let open = self.slotting.values().filter_map(Slotting::first_open);
            let Some(slot) = open.min().filter(|slot| *slot <= last) else { return Ok(()) };
            for (partition, slotting) in &mut self.slotting {
                if slotting.first_open() == Some(slot) {
                    let batch = slotting.drain(slot);
                    observer.counts(slot, &batch);
                    host.counts_of(*partition, slot, &batch.records, batch.names)?;
                    slotting.recycle(batch.records);
                }
            }
        }
    }

    /// Hands out what has become final.
    pub(super) fn send(
        &mut self,
        last_final: Slot,
        observer: &mut dyn Observer,
    ) -> anyhow::Result<Option<Slot>> {
        let mut sent = None;
        while let Some((slot, what)) = self.outbox.send(last_final) {
            observer.decided(slot, &what.decisions, &what.lines)?;
            sent = Some(slot);
        }
        Ok(sent)
    }

    /// Slow state and hash of the last closed slot, joined with the control side of the same slot.
    pub(super) fn checkpoint(
        &mut self,
        control: Option<control::Checkpoint<Hit>>,
    ) -> anyhow::Result<Option<Checkpoint>> {
        let Some(control) = control else { return Ok(None) };
        let snapshot = Arc::new(self.host()?.snapshot()?);
        Ok(Some(Checkpoint { control, snapshot, canon: self.canon.clone() }))
    }

    /// Levels of the rooms above normal at the last closed slot.
    pub(super) fn levels(&mut self) -> anyhow::Result<BTreeMap<String, Level>> {
        let snapshot = self.host()?.snapshot()?;
        Ok(snapshot.levels().map(|(room, level)| (room.to_owned(), level)).collect())
    }

    /// Rules that are in at the last closed slot.
    pub(super) fn open_spans(&mut self) -> anyhow::Result<Vec<Ended>> {
        Ok(self.host()?.snapshot()?.open().collect())
    }

    /// The newest view, complete up to the last closed slot.
    pub(super) fn settle(&mut self) -> anyhow::Result<Arc<View>> {
        let host = self.host()?;
        let last = host.next().minus(1);
        Ok(host.settle(last)?)
    }

    /// Ends the workers.
    pub(super) fn stop(&mut self) -> anyhow::Result<()> {
        match self.host.take() {
            Some(host) => Ok(host.stop()?),
            None => Ok(()),
        }
    }
}

fn in_group(rules: RuleSet, group: Option<&str>) -> anyhow::Result<RuleSet> {
    match group {
        Some(name) => rules.only_group(name).map_err(anyhow::Error::msg),
        None => Ok(rules),
    }
}
