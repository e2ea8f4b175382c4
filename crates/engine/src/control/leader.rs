//! The leader: when to close, what stands in a step, and when it is final.

mod views;

use super::config::{Config, Flaw};
use super::follower::Last;
use super::log::Reader;
use super::partition::{PartitionClock, Reading};
use super::site::{BATCH, Pending, Site};
use super::watch::{Status, Watch};
use barrage_protocol::control::{Control, Entry, Record, SCHEMA, Step};
use barrage_protocol::ids::{Level, SLOT_MS, Slot};
use std::collections::{BTreeMap, VecDeque};

/// A leader. Call [`Self::turn`] first in every round; see the module's example. All times are monotonic
/// milliseconds.
#[derive(Clone, Debug)]
pub struct Leader<P> {
    pub(super) site: Site<P>,
    reader: Reader,
    epoch: u64,
    next_seq: u64,
    watches: BTreeMap<u32, Watch>,
    /// Before the start: offsets that reading began at.
    first: BTreeMap<u32, u64>,
    /// Before the start: what to record from its slot on.
    proposed: Vec<Control>,
    /// Levels to begin with.
    levels: BTreeMap<String, Level>,
    /// The step with which everything begins, not sent yet.
    start: Option<Step>,
    /// Records of the step that is open.
    records: Vec<Record>,
    /// A woken partition waits for the step to end.
    cut: bool,
    /// A decision waits for its step.
    waits: bool,
    /// Where the clock closes slots: (time, slot closed by then).
    anchor: Option<(i64, Slot)>,
    stepped_at: Option<i64>,
    stepped: Slot,
    stepped_offsets: BTreeMap<u32, u64>,
    /// Steps not read back: (number, slot).
    flight: VecDeque<(u64, Slot)>,
    last_final: Slot,
    hash: String,
    fenced: bool,
    turned_at: Option<i64>,
}

impl<P: Copy> Leader<P> {
    /// A leader of a log that is empty but for its own `lead` ([`super::lead`]), already written, at position 0.
    #[must_use]
    pub fn new(config: Config, epoch: u64, now_ms: i64) -> Self {
        let mut reader = Reader::at(1);
        reader.resume(epoch, 0);
        Self::with(Site::new(config), reader, epoch, now_ms)
    }

    pub(super) fn with(site: Site<P>, reader: Reader, epoch: u64, now_ms: i64) -> Self {
        let watch = |p: &u32, clock: &PartitionClock<P>| {
            let absent = site.absent.contains(p);
            let status = match clock.ended() {
                true => Status::Ended,
                false if absent => Status::Absent,
                false => Status::Active,
            };
            (*p, Watch::new(status, now_ms))
        };
        let watches = site.clocks.iter().map(|(p, c)| watch(p, c)).collect();
        let stepped = site.closed.unwrap_or_default();
        Self {
            stepped_offsets: site.offsets(),
            site,
            reader,
            epoch,
            next_seq: 1,
            watches,
            first: BTreeMap::new(),
            proposed: Vec::new(),
            levels: BTreeMap::new(),
            start: None,
            records: Vec::new(),
            cut: false,
            waits: false,
            anchor: None,
            stepped_at: None,
            stepped,
            flight: VecDeque::new(),
            last_final: stepped,
            hash: String::new(),
            fenced: false,
            turned_at: None,
        }
    }

    /// Levels that the first `start` begins with (from the policies in force).
    pub fn begin_with(&mut self, levels: BTreeMap<String, Level>) {
        self.levels = levels;
    }

    pub(super) fn set_hash(&mut self, hash: String) {
        self.hash = hash;
    }

    /// Breaks with what cannot be reached: everything begins anew.
    pub(super) fn break_at(&mut self, last: &Last, now_ms: i64) {
        self.first.clone_from(&last.offsets);
        self.watches =
            last.offsets.keys().map(|p| (*p, Watch::new(Status::Active, now_ms))).collect();
        self.begin(last.slot.next(), last.done);
        self.records.extend(self.site.repeat_rules());
    }

    /// A partition to be read from `first_offset` on. Before the start it is waited for; later it is recorded, and
    /// starts idle.
    pub fn add_partition(&mut self, partition: u32, first_offset: u64, now_ms: i64) {
        if self.watches.contains_key(&partition) {
            return;
        }
        let mut status = Status::Active;
        if self.site.closed.is_some() {
            status = Status::Idle;
            self.record(Control::Partitions { added: [(partition, first_offset)].into() });
        } else {
            self.site.clocks.insert(partition, PartitionClock::new(first_offset));
            self.first.insert(partition, first_offset);
        }
        self.watches.insert(partition, Watch::new(status, now_ms));
    }

    /// Asks for a control record: rules, rebase, skip. It holds from the slot after the last closed (before the
    /// start, from its slot).
    ///
    /// # Errors
    /// A skip that does not begin where the partition is read; a record that only the leader itself may make.
    pub fn propose(&mut self, control: Control) -> Result<(), String> {
        match &control {
            Control::Rules { .. } | Control::Rebase { .. } => {}
            Control::Skip { partition, from_offset, to_offset } => {
                let next = self.site.clocks.get(partition).map(PartitionClock::next);
                if next != Some(*from_offset) || to_offset <= from_offset {
                    return Err(format!(
                        "partition {partition} is read up to {next:?}: cannot skip from {from_offset} to {to_offset}"
                    ));
                }
                if self.needs_cut(*partition) || self.site.closed.is_none() {
                    self.cut = true;
                    return Err(format!("partition {partition} cannot skip before the next step"));
                }
            }
            _ => return Err("only the leader itself makes this record".into()),
        }
        if self.site.closed.is_some() {
            if let Control::Skip { partition, to_offset, .. } = &control
                && let Some(clock) = self.site.clocks.get_mut(partition)
            {
                clock.skip(*to_offset);
            }
            self.record(control);
        } else {
            self.proposed.push(control);
        }
        Ok(())
    }

    fn record(&mut self, control: Control) {
        let record = Record { from: self.site.open(), control };
        self.site.apply(&record);
        self.records.push(record);
    }

    /// A slot was closed without this partition in the step that is open: nothing of it may be read before the step
    /// ends, because a follower reads first and closes then.
    fn needs_cut(&self, partition: u32) -> bool {
        let (Some(closed), Some(clock)) = (self.site.closed, self.site.clocks.get(&partition))
        else {
            return false;
        };
        closed > self.stepped && !clock.has_passed(closed) && !self.site.config.flawed(Flaw::Cut)
    }

    /// Whether to poll the partition now: not while it is far ahead of what is closed, and not while something of it
    /// waits for a step to end.
    #[must_use]
    pub fn can_read(&self, partition: u32) -> bool {
        if self.site.stash.get(&partition).is_some_and(|s| !s.is_empty()) {
            return false;
        }
        let Some(clock) = self.site.clocks.get(&partition) else { return false };
        let begun = self.site.clocks.values().filter_map(PartitionClock::least).min();
        let from = match self.site.closed {
            Some(closed) => closed.end_ms(),
            None => begun.map_or(i64::MAX, Slot::start_ms),
        };
        let ahead = clock.watermark().map_or(i64::MIN, |w| w.saturating_sub(from));
        !clock.ended() && ahead <= self.site.config.ahead_ms
    }

    /// Takes a record of a poll; what is counted goes to `sink`, at once or (if the partition has just woken) in the
    /// turn after the step that ends before it.
    pub fn read(
        &mut self,
        partition: u32,
        reading: Reading<P>,
        sink: &mut impl FnMut(u32, Slot, P),
    ) {
        let is_stashed = self.site.stash.get(&partition).is_some_and(|s| !s.is_empty());
        if is_stashed || self.needs_cut(partition) {
            self.cut = true;
            self.site.stash.entry(partition).or_default().push_back(Pending::Reading(reading));
            return;
        }
        if self.site.read(partition, reading, sink) {
            self.stir(partition);
        }
    }

    fn stir(&mut self, partition: u32) {
        let Some(watch) = self.watches.get_mut(&partition) else { return };
        watch.stirred = true;
        match watch.status {
            Status::Idle => watch.status = Status::Active,
            Status::Absent => self.back(partition),
            Status::Active | Status::Ended => {}
        }
    }

    fn back(&mut self, partition: u32) {
        if let Some(watch) = self.watches.get_mut(&partition) {
            watch.status = Status::Active;
            self.control(Control::Back { partition });
        }
    }

    fn control(&mut self, control: Control) {
        if self.site.closed.is_some() { self.record(control) } else { self.proposed.push(control) }
    }

    /// A poll was answered; `at_end`: there was nothing more to be had.
    pub fn answered(&mut self, partition: u32, now_ms: i64, at_end: bool) {
        let can_read = self.can_read(partition);
        let Some(watch) = self.watches.get_mut(&partition) else { return };
        watch.answered_at = now_ms;
        if watch.status == Status::Absent {
            if self.site.config.flawed(Flaw::BackNeedsRecord) {
                return;
            }
            watch.active_at = now_ms;
            self.back(partition);
            return;
        }
        if watch.stirred || !can_read {
            watch.stirred = false;
            watch.active_at = now_ms;
        }
        let silent = now_ms.saturating_sub(watch.active_at) >= self.site.config.idle_after_ms;
        if watch.status == Status::Active && at_end && silent {
            watch.status = Status::Idle;
        }
    }

    /// A poll failed: the partition holds its slots until it is absent.
    pub fn failed(&mut self, partition: u32, now_ms: i64) {
        self.lose(partition, now_ms);
    }

    fn lose(&mut self, partition: u32, now_ms: i64) {
        let patience = self.site.config.absent_after_ms;
        let idle_stays = self.site.config.flawed(Flaw::IdleAbsent);
        let Some(watch) = self.watches.get_mut(&partition) else { return };
        let counts = match watch.status {
            Status::Active => true,
            Status::Idle => !idle_stays,
            Status::Absent | Status::Ended => false,
        };
        if counts && now_ms.saturating_sub(watch.answered_at) >= patience {
            watch.status = Status::Absent;
            self.control(Control::Absent { partition });
        }
    }

    /// The partition has ended (a file).
    pub fn ended(&mut self, partition: u32, sink: &mut impl FnMut(u32, Slot, P)) {
        let Some(watch) = self.watches.get_mut(&partition) else { return };
        if watch.status == Status::Ended {
            return;
        }
        watch.status = Status::Ended;
        if self.needs_cut(partition) || !self.can_take(partition) {
            self.cut = true;
            self.site.stash.entry(partition).or_default().push_back(Pending::End);
        } else {
            self.site.end(partition, sink);
        }
    }

    fn can_take(&self, partition: u32) -> bool {
        self.site.stash.get(&partition).is_none_or(VecDeque::is_empty)
    }

    /// Lets time pass: partitions that do not answer, what waited for a step to end, the start. Returns whether
    /// everything counted so far is void, after a break.
    #[must_use = "after a break, whatever was counted and not closed has to go"]
    pub fn turn(&mut self, now_ms: i64, sink: &mut impl FnMut(u32, Slot, P)) -> bool {
        self.read_stash(sink);
        let gap = self.turned_at.map_or(0, |at| now_ms.saturating_sub(at));
        self.turned_at = Some(now_ms);
        // A process that stood still does not know that a partition did not answer.
        let stood = gap > self.site.config.absent_after_ms / 2;
        let partitions: Vec<u32> = self.watches.keys().copied().collect();
        for p in partitions {
            if stood || !self.can_read(p) {
                self.watches.entry(p).and_modify(|w| w.answered_at = now_ms);
            }
            self.lose(p, now_ms);
        }
        self.try_start();
        std::mem::take(&mut self.site.void)
    }

    fn read_stash(&mut self, sink: &mut impl FnMut(u32, Slot, P)) {
        let partitions: Vec<u32> = self.site.stash.keys().copied().collect();
        for p in partitions.into_iter().filter(|p| !self.needs_cut(*p)).collect::<Vec<_>>() {
            for pending in self.site.stash.remove(&p).unwrap_or_default() {
                match pending {
                    Pending::Reading(reading) => {
                        if self.site.read(p, reading, sink) {
                            self.stir(p);
                        }
                    }
                    Pending::End => {
                        self.site.end(p, sink);
                        self.watches.entry(p).and_modify(|w| w.status = Status::Ended);
                    }
                }
            }
        }
    }

    /// Begins as soon as every partition that is waited for has a watermark.
    fn try_start(&mut self) {
        if self.site.closed.is_some() {
            return;
        }
        let ready = self.watches.iter().all(|(p, w)| {
            w.status != Status::Active || self.site.clocks.get(p).is_some_and(PartitionClock::told)
        });
        let told = self.site.clocks.values().filter(|c| c.told());
        if let Some(start) = told.filter_map(PartitionClock::least).min().filter(|_| ready) {
            let read = self.site.clocks.clone();
            self.begin(start, start.minus(1));
            self.site.void = false;
            self.site.clocks = read;
            self.site.clocks.values_mut().for_each(|c| c.begin(start));
            for control in std::mem::take(&mut self.proposed) {
                self.record(control);
            }
        }
    }

    fn begin(&mut self, start: Slot, done: Slot) {
        let offsets = self.first.clone();
        self.site.begin(start, &offsets);
        self.stepped = start.minus(1);
        self.last_final = start.minus(1);
        self.site.done = done;
        self.hash.clear();
        let levels = std::mem::take(&mut self.levels);
        let control = Control::Start { offsets: offsets.clone(), levels };
        let record = Record { from: start, control };
        self.site.apply(&record);
        let step = Step {
            schema: SCHEMA,
            epoch: self.epoch,
            seq: self.take_seq(),
            slot: start.minus(1),
            late: offsets.keys().map(|p| (*p, 0)).collect(),
            offsets,
            records: vec![record],
            hash: String::new(),
            done,
        };
        self.site.mark(&step, None);
        self.start = Some(step);
    }

    fn take_seq(&mut self) -> u64 {
        self.next_seq += 1;
        self.next_seq - 1
    }

    /// Control records that hold from the next slot; to be taken before it is closed.
    pub fn records_due(&mut self) -> Vec<Record> {
        self.site.records_due()
    }

    /// Close up to and including this slot, if any can be closed now.
    #[must_use]
    pub fn closable(&mut self, now_ms: i64) -> Option<Slot> {
        let closed = self.site.closed?;
        let ahead = self.site.config.ahead_ms.unsigned_abs() / SLOT_MS;
        let unwritten = self.flight.len() >= self.site.config.in_flight
            && closed.0.saturating_sub(self.last_final.0) > ahead;
        // What waits for a step to end is read before anything more is closed without it.
        let stashed = self.site.stash.values().any(|s| !s.is_empty());
        if self.fenced || self.site.is_record_due() || unwritten || stashed {
            return None;
        }
        let upto = self.open_to(closed, now_ms)?.min(Slot(closed.0.saturating_add(BATCH)));
        (upto > closed).then_some(upto)
    }

    fn open_to(&mut self, closed: Slot, now_ms: i64) -> Option<Slot> {
        let has = |status| self.watches.values().any(|w| w.status == status);
        if has(Status::Active) {
            self.anchor = None;
            let active = self.watches.iter().filter(|(_, w)| w.status == Status::Active);
            let clocks = active.map(|(p, _)| self.site.clocks.get(p)?.watermark());
            let least = clocks.min()??;
            return (u64::try_from(least).ok()? / SLOT_MS).checked_sub(1).map(Slot);
        }
        let all_idle = !has(Status::Absent) || !self.site.config.flawed(Flaw::ClockAllIdle);
        if has(Status::Idle) && all_idle {
            let (at, slot) = *self.anchor.get_or_insert((now_ms, closed));
            let passed = u64::try_from(now_ms.saturating_sub(at)).unwrap_or(0) / SLOT_MS;
            return Some(Slot(slot.0.saturating_add(passed)));
        }
        self.anchor = None;
        let ended = !has(Status::Idle) && !has(Status::Absent);
        ended.then(|| self.site.clocks.values().filter_map(PartitionClock::greatest).max())?
    }

    /// Slots up to and including `upto` are closed. `hash` is that of the decisions up to it; `decisions`: there are
    /// some among these slots.
    pub fn closed(&mut self, upto: Slot, hash: &str, decisions: bool) {
        self.site.close(upto);
        self.hash = hash.into();
        self.waits |= decisions;
    }

    /// The step that is due now, if any: to be written to the log.
    pub fn step(&mut self, now_ms: i64) -> Option<Step> {
        if self.fenced || self.flight.len() >= self.site.config.in_flight {
            return None;
        }
        let closed = self.site.closed?;
        let step = match self.start.take() {
            Some(step) => step,
            None => {
                let every = self.site.config.step_every_ms;
                let time = self.stepped_at.is_none_or(|at| now_ms.saturating_sub(at) >= every);
                if !(self.cut || self.waits || time || self.is_end()) {
                    return None;
                }
                self.make_step(closed, now_ms)
            }
        };
        self.flight.push_back((step.seq, step.slot));
        Some(step)
    }

    fn make_step(&mut self, closed: Slot, now_ms: i64) -> Step {
        let done = if self.site.config.flawed(Flaw::Done) { closed } else { self.site.done };
        let step = Step {
            schema: SCHEMA,
            epoch: self.epoch,
            seq: self.take_seq(),
            slot: closed,
            offsets: self.site.offsets(),
            records: std::mem::take(&mut self.records),
            hash: self.hash.clone(),
            late: self.site.late(),
            done,
        };
        self.cut = false;
        self.waits = false;
        self.stepped_at = Some(now_ms);
        self.stepped = closed;
        self.stepped_offsets.clone_from(&step.offsets);
        self.site.raise(closed);
        self.site.mark(&step, None);
        step
    }

    /// All files are read and all slots closed, but the last step is not made.
    fn is_end(&self) -> bool {
        self.has_ended()
            && (Some(self.stepped) < self.site.closed
                || self.stepped_offsets != self.site.offsets())
    }

    fn has_ended(&self) -> bool {
        let greatest = self.site.clocks.values().filter_map(PartitionClock::greatest).max();
        self.watches.values().all(|w| w.status == Status::Ended)
            && self.site.stash.values().all(VecDeque::is_empty)
            && (self.site.closed >= greatest)
    }

    /// Whether all files are read, all slots closed, and the last step is read back.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        let started = self.site.closed.is_some();
        self.has_ended()
            && self.start.is_none()
            && self.flight.is_empty()
            && !(started && self.is_end())
    }

    /// The next entry stands at `position` of the log. To be said before each entry where positions may be left out.
    pub fn pass(&mut self, position: u64) {
        self.reader.pass(position);
    }

    /// Takes the next entry of the log, its own as well: a step is written when it is read back. Returns whether the
    /// entry made slots final.
    pub fn entry(&mut self, entry: &Entry) -> bool {
        let holds = self.reader.take(&self.site.config, entry);
        match entry {
            Entry::Lead { epoch, .. } if *epoch > self.epoch => self.fenced = true,
            Entry::Step(step) if holds && step.epoch == self.epoch => {
                while let Some((seq, slot)) = self.flight.front().copied()
                    && seq <= step.seq
                {
                    self.flight.pop_front();
                    self.last_final = self.last_final.max(slot);
                }
                self.site.history.written(step.epoch, step.seq, self.reader.position());
                return true;
            }
            Entry::Step(step) if step.epoch > self.epoch => self.fenced = true,
            _ => {}
        }
        false
    }

    /// A leader that does not end when it is fenced, as it must.
    #[cfg(test)]
    #[must_use]
    pub fn into_follower(self) -> super::Follower<P> {
        let last = Last { slot: self.stepped, offsets: self.site.offsets(), done: self.site.done };
        super::Follower::with(self.site, self.reader, Some(last))
    }

    /// Whether a higher epoch leads: this leader must end, and start from a checkpoint.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        self.fenced
    }

    /// The last slot whose effects may leave.
    #[must_use]
    pub fn last_final(&self) -> Slot {
        if self.site.config.flawed(Flaw::Finality) {
            return self.site.closed.unwrap_or(self.last_final);
        }
        self.last_final
    }

    /// Effects of slots up to `slot` are out.
    pub fn done(&mut self, slot: Slot) {
        self.site.done = self.site.done.max(slot.min(self.last_final()));
    }

    /// Effects of slots up to this one are out; those after it, up to [`Self::last_final`], are to be sent (again).
    #[must_use]
    pub fn last_done(&self) -> Slot {
        self.site.done
    }
}
