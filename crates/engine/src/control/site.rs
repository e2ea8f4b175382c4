//! What leader and follower have in common: the clocks of all partitions, and what is closed.

use super::checkpoint::{Checkpoint, History, Mark};
use super::config::{Config, Flaw};
use super::partition::{PartitionClock, Reading};
use barrage_protocol::control::{Control, Record, Step};
use barrage_protocol::ids::Slot;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Most slots closed at once: a clock that jumps by years must not hold the loop for as long.
pub(super) const BATCH: u64 = 1_000;

/// What was handed over before it may be taken.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pending<P> {
    Reading(Reading<P>),
    End,
}

/// Clocks, closed slots, control state.
#[derive(Clone, Debug)]
pub(super) struct Site<P> {
    pub(super) config: Config,
    pub(super) clocks: BTreeMap<u32, PartitionClock<P>>,
    /// Records handed over too early, per partition; at most one poll's worth each.
    pub(super) stash: BTreeMap<u32, VecDeque<Pending<P>>>,
    /// The last closed slot; none before the start.
    pub(super) closed: Option<Slot>,
    /// Slot of the last `start`.
    pub(super) start: Slot,
    /// Slots up to it are closed only to rebuild windows.
    pub(super) quiet_to: Option<Slot>,
    /// Records of slots up to it are read past.
    pub(super) base: Option<Slot>,
    /// Control records for whoever decides, in order.
    pub(super) due: VecDeque<Record>,
    pub(super) rules: Option<Record>,
    pub(super) absent: BTreeSet<u32>,
    pub(super) done: Slot,
    pub(super) history: History<P>,
    /// Records that hold from the next slot were handed out: slow state may be beyond the last closed slot.
    handed: bool,
    /// Everything counted so far is void: a break.
    pub(super) void: bool,
    /// Events for slots already closed: must stay 0.
    pub(super) misplaced: u64,
}

impl<P: Copy> Site<P> {
    pub(super) fn new(config: Config) -> Self {
        let history = History::new(&config);
        Self {
            config,
            clocks: BTreeMap::new(),
            stash: BTreeMap::new(),
            closed: None,
            start: Slot(0),
            quiet_to: None,
            base: None,
            due: VecDeque::new(),
            rules: None,
            absent: BTreeSet::new(),
            done: Slot(0),
            history,
            handed: false,
            void: false,
            misplaced: 0,
        }
    }

    pub(super) fn restore(config: Config, checkpoint: &Checkpoint<P>) -> Self {
        let mut site = Self::new(config);
        let mark = &checkpoint.mark;
        site.clocks = mark.clocks.clone();
        if site.config.flawed(Flaw::CheckpointClock) {
            site.clocks.values_mut().for_each(PartitionClock::lose_watermark);
        }
        site.closed = Some(checkpoint.base);
        site.start = mark.start;
        site.quiet_to = Some(checkpoint.slot);
        site.base = Some(checkpoint.base);
        site.rules = mark.rules.clone();
        site.absent = mark.absent.clone();
        site.done = mark.done;
        let from = checkpoint.base.next();
        site.due.extend(mark.rules.clone().map(|r| Record { from, ..r }));
        site.due.extend(
            mark.absent.iter().map(|p| Record { from, control: Control::Absent { partition: *p } }),
        );
        site.history.push(mark.clone());
        site
    }

    /// First slot not closed.
    pub(super) fn open(&self) -> Slot {
        self.closed.map_or(Slot(0), Slot::next)
    }

    /// Everything begins (anew) at `start` and `offsets`.
    pub(super) fn begin(&mut self, start: Slot, offsets: &BTreeMap<u32, u64>) {
        self.clocks.clear();
        self.stash.clear();
        self.absent.clear();
        self.due.clear();
        self.history.clear();
        self.quiet_to = None;
        self.base = None;
        self.void = true;
        self.start = start;
        self.closed = Some(start.minus(1));
        for (p, offset) in offsets {
            self.add(*p, *offset, start);
        }
    }

    /// A step that is given up: the rules it brought stay in force.
    pub(super) fn keep_rules(&mut self, step: &Step) {
        let rules = step.records.iter().rfind(|r| matches!(r.control, Control::Rules { .. }));
        if let Some(rules) = rules {
            self.rules = Some(rules.clone());
        }
    }

    /// After a `start`: whoever decides begins anew under the rules in force.
    pub(super) fn repeat_rules(&mut self) -> Option<Record> {
        let rules = self.rules.clone()?;
        let record = Record { from: self.start, ..rules };
        self.due.push_back(record.clone());
        Some(record)
    }

    /// A partition, read from `offset` on, that nobody waited for before slot `from`.
    pub(super) fn add(&mut self, partition: u32, offset: u64, from: Slot) {
        let clock = self.clocks.entry(partition).or_insert_with(|| PartitionClock::new(offset));
        clock.begin(from);
    }

    /// Takes a record; returns whether it is news that deserves waiting for.
    pub(super) fn read(
        &mut self,
        partition: u32,
        reading: Reading<P>,
        sink: &mut impl FnMut(u32, Slot, P),
    ) -> bool {
        let Some(clock) = self.clocks.get_mut(&partition) else { return false };
        let (base, closed) = (self.base, self.closed);
        let misplaced = &mut self.misplaced;
        clock.read(&self.config, reading, &mut |slot, payload| {
            place(base, closed, misplaced, slot, &mut |slot| sink(partition, slot, payload));
        })
    }

    pub(super) fn end(&mut self, partition: u32, sink: &mut impl FnMut(u32, Slot, P)) {
        let Some(clock) = self.clocks.get_mut(&partition) else { return };
        let (base, closed) = (self.base, self.closed);
        let misplaced = &mut self.misplaced;
        clock.end(&self.config, &mut |slot, payload| {
            place(base, closed, misplaced, slot, &mut |slot| sink(partition, slot, payload));
        });
    }

    /// What holds from a control record on, for clocks and checkpoints; the rest is for whoever decides.
    pub(super) fn apply(&mut self, record: &Record) {
        match &record.control {
            Control::Absent { partition } => {
                self.absent.insert(*partition);
            }
            Control::Back { partition } => {
                self.absent.remove(partition);
            }
            Control::Partitions { added } => {
                for (p, offset) in added {
                    self.add(*p, *offset, record.from);
                }
            }
            Control::Rules { .. } => self.rules = Some(record.clone()),
            Control::Start { .. }
            | Control::Rebase { .. }
            | Control::Skip { .. }
            | Control::Unknown => {}
        }
        self.due.push_back(record.clone());
    }

    /// Control records that hold from the next slot.
    pub(super) fn records_due(&mut self) -> Vec<Record> {
        let open = self.open();
        let n = self.due.iter().take_while(|r| r.from <= open).count();
        self.handed |= n > 0;
        self.due.drain(..n).collect()
    }

    /// Whether such a record waits to be taken.
    pub(super) fn is_record_due(&self) -> bool {
        self.due.front().is_some_and(|r| r.from <= self.open())
    }

    /// Slots up to `upto` were closed.
    pub(super) fn close(&mut self, upto: Slot) {
        self.closed = self.closed.max(Some(upto));
        self.handed = false;
        self.clocks.values_mut().for_each(|c| c.forget(upto));
    }

    /// A step is taken or made: whatever comes now for a slot up to `slot` is late.
    pub(super) fn raise(&mut self, slot: Slot) {
        if !self.config.flawed(Flaw::Raise) {
            self.clocks.values_mut().for_each(|c| c.raise(slot.end_ms()));
            if let Some(closed) = self.closed {
                self.clocks.values_mut().for_each(|c| c.forget(closed));
            }
        }
    }

    /// Keeps how things stand after a step, so that a checkpoint may start from it.
    pub(super) fn mark(&mut self, step: &Step, position: Option<u64>) {
        if self.history.wants(step.slot) {
            self.history.push(Mark {
                position,
                epoch: step.epoch,
                seq: step.seq,
                slot: step.slot,
                done: step.done,
                start: self.start,
                clocks: self.clocks.clone(),
                rules: self.rules.clone(),
                absent: self.absent.clone(),
            });
        }
    }

    /// A checkpoint at the last closed slot. None between records that hold from the next slot and its close: whoever
    /// decides has taken them already, and they may never become final.
    pub(super) fn checkpoint(&self) -> Option<Checkpoint<P>> {
        let closed = self.closed?;
        if self.handed || self.quiet_to.is_some_and(|s| closed < s) {
            return None;
        }
        self.history.checkpoint(closed)
    }

    pub(super) fn offsets(&self) -> BTreeMap<u32, u64> {
        self.clocks.iter().map(|(p, c)| (*p, c.next())).collect()
    }

    pub(super) fn offsets_at(&self, slot: Slot) -> BTreeMap<u32, u64> {
        let there = self.clocks.iter().filter(|(_, c)| c.since() <= slot);
        there.map(|(p, c)| (*p, c.offset_at(slot))).collect()
    }

    pub(super) fn late(&self) -> BTreeMap<u32, u64> {
        self.clocks.iter().map(|(p, c)| (*p, c.counters().late)).collect()
    }
}

/// An event of a slot that a checkpoint covers is read past; one of a slot already closed must not exist.
fn place(
    base: Option<Slot>,
    closed: Option<Slot>,
    misplaced: &mut u64,
    slot: Slot,
    sink: &mut dyn FnMut(Slot),
) {
    if base.is_some_and(|base| slot <= base) {
        return;
    }
    if closed.is_some_and(|closed| slot <= closed) {
        *misplaced += 1;
        return;
    }
    sink(slot);
}
