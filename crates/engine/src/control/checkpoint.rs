//! What a restart needs of time and of the control log, and when it may be kept (semantics §1 "Restart").

use super::config::{Config, Flaw};
use super::partition::PartitionClock;
use barrage_protocol::control::Record;
use barrage_protocol::ids::Slot;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How everything stood right after a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mark<P> {
    /// Position in the log after the step; unknown until it is read back.
    pub(super) position: Option<u64>,
    pub(super) epoch: u64,
    pub(super) seq: u64,
    pub(super) slot: Slot,
    pub(super) done: Slot,
    /// Slot of the last `start`.
    pub(super) start: Slot,
    pub(super) clocks: BTreeMap<u32, PartitionClock<P>>,
    pub(super) rules: Option<Record>,
    pub(super) absent: BTreeSet<u32>,
}

impl<P: Copy> Mark<P> {
    /// Whether every record of a slot after `base` lies behind it, and nothing after `base` was closed before it.
    fn reaches(&self, base: Slot) -> bool {
        self.slot <= base && self.clocks.values().all(|c| c.greatest().is_none_or(|s| s <= base))
    }
}

/// The control side of a checkpoint: take it together with the slow state and the decisions' hash of the same slot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint<P> {
    /// The slot whose close the slow state belongs to.
    pub slot: Slot,
    /// Windows are rebuilt from the slots after this one: records of slots up to it are read past.
    pub base: Slot,
    /// The step that reading starts again from.
    pub(super) mark: Mark<P>,
}

impl<P> Checkpoint<P> {
    /// Position in the control log to read from.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.mark.position.unwrap_or(0)
    }

    /// Per partition, the offset to read from.
    #[must_use]
    pub fn offsets(&self) -> BTreeMap<u32, u64>
    where
        P: Copy,
    {
        self.mark.clocks.iter().map(|(p, c)| (*p, c.next())).collect()
    }
}

/// Marks are no closer together than this many slots.
const APART: u64 = 10;
/// Most marks kept: 100 s of slots and some; beyond it the oldest goes, and checkpoints wait until it is not needed.
const MARKS_MAX: usize = 256;

/// Marks that a checkpoint may start from.
#[derive(Clone, Debug)]
pub(super) struct History<P> {
    marks: VecDeque<Mark<P>>,
    window: u64,
}

impl<P: Copy> History<P> {
    pub(super) fn new(config: &Config) -> Self {
        Self { marks: VecDeque::new(), window: config.window_slots }
    }

    /// Whether a mark at this slot would be kept.
    pub(super) fn wants(&self, slot: Slot) -> bool {
        self.marks.back().is_none_or(|m| slot.0 >= m.slot.0.saturating_add(APART))
    }

    pub(super) fn push(&mut self, mark: Mark<P>) {
        let base = self.base(&mark);
        self.marks.push_back(mark);
        while self.marks.len() > MARKS_MAX
            || self.marks.get(1).is_some_and(|m| m.position.is_some() && m.reaches(base))
        {
            self.marks.pop_front();
        }
    }

    /// A break: what was before leads nowhere.
    pub(super) fn clear(&mut self) {
        self.marks.clear();
    }

    /// The step `seq` of `epoch` was read back; `position` is the one after it.
    pub(super) fn written(&mut self, epoch: u64, seq: u64, position: u64) {
        if let Some(mark) = self.marks.iter_mut().find(|m| (m.epoch, m.seq) == (epoch, seq)) {
            mark.position = Some(position);
        }
    }

    /// A checkpoint at the closed slot `slot`, if there is a step to start from.
    pub(super) fn checkpoint(&self, slot: Slot) -> Option<Checkpoint<P>> {
        let start = self.marks.back()?.start;
        let base = slot.minus(self.window).max(start.minus(1));
        let mark = self.marks.iter().rev().find(|m| m.position.is_some() && m.reaches(base))?;
        Some(Checkpoint { slot, base, mark: mark.clone() })
    }

    fn base(&self, last: &Mark<P>) -> Slot {
        last.slot.minus(self.window).max(last.start.minus(1))
    }
}

/// Checkpoints that wait until they may be kept: their slot final, its effects out. `T` is whatever belongs to one.
#[derive(Clone, Debug)]
pub struct Waiting<T> {
    queue: VecDeque<(Slot, T)>,
    early: Option<Flaw>,
}

/// Most checkpoints that wait.
const WAITING_MAX: usize = 4;

impl<T> Waiting<T> {
    /// None waits.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let early =
            [Flaw::CheckpointFinal, Flaw::CheckpointDone].into_iter().find(|f| config.flawed(*f));
        Self { queue: VecDeque::new(), early }
    }

    /// A checkpoint of the closed slot `slot`. With too many waiting, it is dropped: the older will be kept sooner.
    pub fn push(&mut self, slot: Slot, checkpoint: T) {
        if self.queue.len() < WAITING_MAX {
            self.queue.push_back((slot, checkpoint));
        }
    }

    /// The next one that may be kept, given the last final slot and the last whose effects are out (for a checkpoint
    /// that stays on this machine: are in its spool).
    pub fn ready(&mut self, last_final: Slot, done: Slot) -> Option<T> {
        let (slot, _) = self.queue.front()?;
        let is_final = *slot <= last_final || self.early == Some(Flaw::CheckpointFinal);
        let is_out = *slot <= done || self.early.is_some();
        if is_final && is_out { self.queue.pop_front().map(|(_, t)| t) } else { None }
    }
}
