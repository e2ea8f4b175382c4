//! Who takes steps whole: a standby, a replay, a new leader on its way to the last step.

use super::checkpoint::Checkpoint;
use super::config::{Config, Flaw};
use super::log::Reader;
use super::partition::{Counters, Reading};
use super::site::{BATCH, Pending, Site};
use barrage_protocol::control::{Control, Entry, Record, Step};
use barrage_protocol::ids::Slot;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

/// A follower does not agree with a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Divergence {
    /// The decisions up to the step's slot differ.
    Hash {
        /// The step's slot.
        slot: Slot,
        /// Hash computed here.
        ours: String,
        /// Hash in the step.
        theirs: String,
    },
    /// Another number of events was late.
    Late {
        /// The step's slot.
        slot: Slot,
        /// The partition.
        partition: u32,
        /// Late events counted here, up to the step's offset.
        ours: u64,
        /// Late events in the step.
        theirs: u64,
    },
}

impl std::fmt::Display for Divergence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Hash { slot, ours, theirs } => {
                write!(f, "decisions up to slot {}: hash {ours}, the log says {theirs}", slot.0)
            }
            Self::Late { slot, partition, ours, theirs } => write!(
                f,
                "late events of partition {partition} up to slot {}: {ours}, the log says {theirs}",
                slot.0
            ),
        }
    }
}

/// What a follower counts beside the partitions' counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alarms {
    /// Steps whose hash differed.
    pub hash: u64,
    /// Partitions of steps whose late count differed.
    pub late: u64,
    /// Breaks taken up without the slots before them.
    pub jumped: u64,
    /// Steps that could not be taken: they came before any `start`, or too many waited.
    pub lost: u64,
    /// Control records of a later version, which cannot be obeyed.
    pub unknown: u64,
    /// Offsets below a step's that hold no record here.
    pub missing: u64,
}

/// Where a step stands, for who has to break with it.
#[derive(Clone, Debug)]
pub(super) struct Last {
    pub(super) slot: Slot,
    pub(super) offsets: BTreeMap<u32, u64>,
    pub(super) done: Slot,
}

/// Steps read ahead at most, while there is progress.
const AHEAD: usize = 256;
/// Steps that wait at most; the older go, and only a `start` helps then.
const WAITING_MAX: usize = 16_384;
/// Divergences kept for a look; all are counted.
const KEPT: usize = 16;

/// A follower. Call [`Self::turn`] first in every round; see the module's example.
#[derive(Clone, Debug)]
pub struct Follower<P> {
    pub(super) site: Site<P>,
    pub(super) reader: Reader,
    /// Steps to take, each with the position after it. The first is being taken if `active`.
    pub(super) queue: VecDeque<(u64, Step)>,
    active: bool,
    compared: bool,
    /// Offsets gone, per partition: (from, to).
    skips: BTreeMap<u32, VecDeque<(u64, u64)>>,
    /// The step after the last taken is lost: nothing more can be taken before a `start`.
    broken: bool,
    pub(super) last: Option<Last>,
    moved: bool,
    progress_at: Option<i64>,
    turned_at: i64,
    found: VecDeque<Divergence>,
    alarms: Alarms,
}

impl<P: Copy> Follower<P> {
    /// Begins at `position` of the log, which must be before a `start`.
    #[must_use]
    pub fn new(config: Config, position: u64) -> Self {
        Self::with(Site::new(config), Reader::at(position), None)
    }

    /// Begins from a checkpoint: reads the log from [`Checkpoint::position`] and the partitions from
    /// [`Checkpoint::offsets`], closes up to its slot for the windows alone ([`Self::rebuilds_to`]), and goes on.
    #[must_use]
    pub fn restore(config: Config, checkpoint: &Checkpoint<P>) -> Self {
        let mark = &checkpoint.mark;
        let last = Last {
            slot: mark.slot,
            offsets: mark.clocks.iter().map(|(p, c)| (*p, c.next())).collect(),
            done: mark.done,
        };
        let mut reader = Reader::at(checkpoint.position());
        reader.resume(mark.epoch, mark.seq);
        Self::with(Site::restore(config, checkpoint), reader, Some(last))
    }

    pub(super) fn with(site: Site<P>, reader: Reader, last: Option<Last>) -> Self {
        Self {
            site,
            reader,
            queue: VecDeque::new(),
            active: false,
            compared: false,
            skips: BTreeMap::new(),
            broken: false,
            last,
            moved: false,
            progress_at: None,
            turned_at: 0,
            found: VecDeque::new(),
            alarms: Alarms::default(),
        }
    }

    /// Whether to hand over further entries of the log.
    #[must_use]
    pub fn wants_entries(&self) -> bool {
        self.queue.len() < AHEAD || self.is_stalled(self.turned_at)
    }

    /// Position of the next entry of the log.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.reader.position()
    }

    /// The next entry stands at `position` of the log. To be said before each entry where positions may be left out.
    pub fn pass(&mut self, position: u64) {
        self.reader.pass(position);
    }

    /// Takes the next entry of the log.
    pub fn entry(&mut self, entry: Entry) {
        if !self.reader.take(&self.site.config, &entry) {
            return;
        }
        let Entry::Step(step) = entry else { return };
        let starts = is_start(&step);
        self.last = Some(Last { slot: step.slot, offsets: step.offsets.clone(), done: step.done });
        if starts && self.broken || self.site.closed.is_none() && self.queue.is_empty() {
            self.broken = !starts;
        }
        if self.queue.len() >= WAITING_MAX {
            self.alarms.lost += self.queue.len() as u64;
            self.drop_steps(self.queue.len());
            self.broken = !starts;
        }
        if self.broken {
            self.alarms.lost += 1;
            self.site.keep_rules(&step);
            return;
        }
        self.queue.push_back((self.reader.position(), step));
    }

    /// What can be done without anybody's help: steps are begun and ended, records handed over too early are read.
    /// `now_ms` is monotonic. Returns whether everything counted so far is void: a `start` was taken.
    #[must_use = "after a start, whatever was counted and not closed has to go"]
    pub fn turn(&mut self, now_ms: i64, sink: &mut impl FnMut(u32, Slot, P)) -> bool {
        let patience = self.site.config.break_after_ms;
        let paused = now_ms.saturating_sub(self.turned_at) > patience / 2;
        self.turned_at = now_ms;
        let waits = !self.queue.is_empty() || self.broken;
        if self.moved || paused || !waits || self.progress_at.is_none() {
            self.moved = false;
            self.progress_at = Some(now_ms);
        }
        loop {
            let before = self.queue.len();
            self.begin_step();
            self.read_stash(sink);
            self.end_step();
            if self.queue.len() == before {
                break;
            }
            self.moved = true;
        }
        if self.is_stalled(now_ms) && self.jump() {
            self.progress_at = Some(now_ms);
        }
        std::mem::take(&mut self.site.void)
    }

    /// Whether nothing has moved for so long that a break is called for.
    pub(super) fn is_stalled(&self, now_ms: i64) -> bool {
        let since = self.progress_at.unwrap_or(now_ms);
        now_ms.saturating_sub(since) >= self.site.config.break_after_ms
    }

    /// Takes up from a `start` that cannot be reached.
    fn jump(&mut self) -> bool {
        let Some(i) = self.queue.iter().rposition(|(_, s)| is_start(s)) else { return false };
        self.drop_steps(i);
        self.alarms.jumped += 1;
        if let Some((position, step)) = self.queue.pop_front() {
            self.take_start(position, &step);
        }
        true
    }

    /// Gives up the first `n` steps; the rules they brought stay in force.
    pub(super) fn drop_steps(&mut self, n: usize) {
        for (_, step) in self.queue.drain(..n) {
            self.site.keep_rules(&step);
        }
        self.active = false;
    }

    fn begin_step(&mut self) {
        if self.active {
            return;
        }
        let Some((position, step)) = self.queue.front().cloned() else { return };
        if is_start(&step) {
            self.queue.pop_front();
            self.take_start(position, &step);
            return;
        }
        self.active = true;
        self.compared = false;
        for record in &step.records {
            match &record.control {
                Control::Skip { partition, from_offset, to_offset } => {
                    self.skips.entry(*partition).or_default().push_back((*from_offset, *to_offset));
                }
                Control::Unknown => self.alarms.unknown += 1,
                _ => {}
            }
            self.site.apply(record);
        }
    }

    fn take_start(&mut self, position: u64, step: &Step) {
        let start = step.records.iter().find_map(|r| match &r.control {
            Control::Start { offsets, .. } => Some((r, offsets)),
            _ => None,
        });
        if let Some((record, offsets)) = start {
            self.site.begin(record.from, offsets);
            self.skips.clear();
            self.site.done = step.done;
            for record in &step.records {
                self.site.apply(record);
            }
            self.site.repeat_rules();
            self.site.mark(step, Some(position));
        }
    }

    /// First offset of `partition` that belongs to a later step.
    fn bound(&self, partition: u32) -> Option<u64> {
        let (_, step) = self.queue.front().filter(|_| self.active)?;
        if self.site.config.flawed(Flaw::ReadBeyond) {
            return Some(u64::MAX);
        }
        step.offsets.get(&partition).copied()
    }

    fn read_stash(&mut self, sink: &mut impl FnMut(u32, Slot, P)) {
        let partitions: BTreeSet<u32> = self.site.clocks.keys().copied().collect();
        for p in partitions {
            let Some(bound) = self.bound(p) else { continue };
            self.skip(p, bound);
            while let Some(pending) = self.site.stash.get(&p).and_then(VecDeque::front).copied() {
                match pending {
                    Pending::Reading(r) if r.offset < bound => {
                        self.site.read(p, r, sink);
                    }
                    Pending::Reading(_) => {
                        self.pass_by(p, bound);
                        break;
                    }
                    Pending::End if self.next(p) < bound => self.site.end(p, sink),
                    Pending::End => break,
                }
                self.moved = true;
                if let Some(stash) = self.site.stash.get_mut(&p) {
                    stash.pop_front();
                }
                self.skip(p, bound);
            }
        }
    }

    /// Passes over offsets that an operator gave up.
    fn skip(&mut self, partition: u32, bound: u64) {
        let next = self.next(partition);
        let Some(skips) = self.skips.get_mut(&partition) else { return };
        while skips.front().is_some_and(|(_, to)| *to <= next) {
            skips.pop_front();
        }
        if let (Some((from, to)), Some(clock)) =
            (skips.front().copied(), self.site.clocks.get_mut(&partition))
            && from <= next
            && next < bound
        {
            clock.skip(to);
            self.moved = true;
        }
    }

    /// The leader met records up to the step's offset; here the next one lies beyond it.
    fn pass_by(&mut self, partition: u32, bound: u64) {
        if let Some(clock) = self.site.clocks.get_mut(&partition) {
            self.alarms.missing = self.alarms.missing.saturating_add(clock.pass(bound));
        }
    }

    fn next(&self, partition: u32) -> u64 {
        self.site.clocks.get(&partition).map_or(0, super::PartitionClock::next)
    }

    /// The next offset of a partition to be read, if it is known.
    #[must_use]
    pub fn next_of(&self, partition: u32) -> Option<u64> {
        self.site.clocks.get(&partition).map(super::PartitionClock::next)
    }

    /// Whether everything below the step's offsets is read.
    fn is_read(&self) -> bool {
        match self.queue.front().filter(|_| self.active) {
            Some((_, step)) => step.offsets.iter().all(|(p, offset)| self.next(*p) >= *offset),
            None => false,
        }
    }

    /// What of `partition` is to be read now.
    #[must_use]
    pub fn wanted(&self, partition: u32) -> Option<Range<u64>> {
        let next = self.next(partition);
        let is_stashed = self.site.stash.get(&partition).is_some_and(|s| !s.is_empty());
        let mut bound = self.bound(partition)?;
        if let Some((from, _)) = self.skips.get(&partition).and_then(VecDeque::front) {
            bound = bound.min((*from).max(next));
        }
        (next < bound && !is_stashed).then_some(next..bound)
    }

    /// Takes a record; what is counted goes to `sink`. One beyond what is wanted is kept for a later step.
    pub fn read(
        &mut self,
        partition: u32,
        reading: Reading<P>,
        sink: &mut impl FnMut(u32, Slot, P),
    ) {
        if self.wanted(partition).is_some_and(|w| reading.offset < w.end) {
            self.moved = true;
            self.site.read(partition, reading, sink);
        } else if self.site.clocks.contains_key(&partition) {
            self.site.stash.entry(partition).or_default().push_back(Pending::Reading(reading));
        }
    }

    /// The partition has ended (a file).
    pub fn ended(&mut self, partition: u32) {
        let stash = self.site.stash.entry(partition).or_default();
        if !matches!(stash.back(), Some(Pending::End)) {
            stash.push_back(Pending::End);
        }
    }

    /// Control records that hold from the next slot; to be taken before it is closed.
    pub fn records_due(&mut self) -> Vec<Record> {
        self.site.records_due()
    }

    /// Close up to and including this slot, if any can be closed now.
    #[must_use]
    pub fn closable(&self) -> Option<Slot> {
        let read = self.is_read() || self.site.config.flawed(Flaw::CloseEarly);
        let (_, step) = self.queue.front().filter(|_| self.active && read)?;
        if self.site.is_record_due() {
            return None;
        }
        let closed = self.site.closed?;
        let mut upto = step.slot.min(Slot(closed.0.saturating_add(BATCH)));
        if let Some(record) = self.site.due.front() {
            upto = upto.min(record.from.minus(1));
        }
        if let Some(quiet) = self.site.quiet_to.filter(|q| closed < *q) {
            upto = upto.min(quiet);
        }
        (upto > closed).then_some(upto)
    }

    /// Slots up to and including `upto` are closed; `hash` is that of the decisions up to it.
    pub fn closed(&mut self, upto: Slot, hash: &str) {
        self.moved = true;
        self.site.close(upto);
        let quiet = self.site.quiet_to.is_some_and(|q| upto < q);
        if let Some((_, step)) = self.queue.front().filter(|_| self.active)
            && step.slot == upto
            && !quiet
            && step.hash != hash
        {
            let theirs = step.hash.clone();
            self.alarms.hash += 1;
            self.found(Divergence::Hash { slot: upto, ours: hash.into(), theirs });
        }
    }

    fn end_step(&mut self) {
        let early = self.active && self.site.config.flawed(Flaw::CloseEarly);
        if !(self.is_read() || early) {
            return;
        }
        let Some((position, step)) = self.queue.front().cloned() else { return };
        if !self.compared && self.is_read() {
            self.compared = true;
            for (p, theirs) in &step.late {
                let ours = self.site.clocks.get(p).map_or(0, |c| c.counters().late);
                if ours != *theirs {
                    self.alarms.late += 1;
                    let slot = step.slot;
                    self.found(Divergence::Late { slot, partition: *p, ours, theirs: *theirs });
                }
            }
        }
        if self.site.closed.is_none_or(|closed| closed < step.slot) {
            return;
        }
        self.site.raise(step.slot);
        self.site.done = self.site.done.max(step.done);
        self.site.mark(&step, Some(position));
        self.queue.pop_front();
        self.active = false;
    }

    fn found(&mut self, divergence: Divergence) {
        if self.found.len() == KEPT {
            self.found.pop_front();
        }
        self.found.push_back(divergence);
    }

    /// The next divergence that was found, oldest first; of very many the first are gone, but counted.
    pub fn divergence(&mut self) -> Option<Divergence> {
        self.found.pop_front()
    }

    /// What was counted beside the partitions' counters.
    #[must_use]
    pub fn alarms(&self) -> &Alarms {
        &self.alarms
    }

    /// What the reader of the log dropped.
    #[must_use]
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// While it is some: slots up to it are closed for the windows alone; then the slow state is taken.
    #[must_use]
    pub fn rebuilds_to(&self) -> Option<Slot> {
        self.site.quiet_to.filter(|q| self.site.closed.is_none_or(|c| c < *q))
    }

    /// The last closed slot.
    #[must_use]
    pub fn last_closed(&self) -> Option<Slot> {
        self.site.closed
    }

    /// Effects of slots up to this one are out: decisions kept for a take-over can go.
    #[must_use]
    pub fn done(&self) -> Slot {
        self.site.done
    }

    /// Partitions known by now.
    pub fn partitions(&self) -> impl Iterator<Item = u32> + '_ {
        self.site.clocks.keys().copied()
    }

    /// What became of the records of a partition.
    #[must_use]
    pub fn counters(&self, partition: u32) -> Option<&Counters> {
        self.site.clocks.get(&partition).map(super::PartitionClock::counters)
    }

    /// Per partition, the first offset at which its watermark had passed the slot's end; for slots that can be closed
    /// and are not reported as closed.
    #[must_use]
    pub fn offsets_at(&self, slot: Slot) -> BTreeMap<u32, u64> {
        self.site.offsets_at(slot)
    }

    /// Events that came for a closed slot although they were not late. A fault of this program if it is not 0.
    #[must_use]
    pub fn misplaced(&self) -> u64 {
        self.site.misplaced
    }

    /// Whether everything handed over is taken: all steps read so far are closed.
    #[must_use]
    pub fn is_up_to_date(&self) -> bool {
        self.queue.is_empty() && !self.broken
    }

    /// A checkpoint at the last closed slot (none while records of the next are taken and it is not closed): to be kept with slow state and hash of that slot, not before [`Waiting`]
    /// says so.
    ///
    /// [`Waiting`]: super::Waiting
    #[must_use]
    pub fn checkpoint(&self) -> Option<Checkpoint<P>> {
        self.site.checkpoint()
    }
}

fn is_start(step: &Step) -> bool {
    step.records.iter().any(|r| matches!(r.control, Control::Start { .. }))
}
