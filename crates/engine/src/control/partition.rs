//! The clock of one partition: which slot an event belongs to, whether it is late, and how far the partition is.

use super::config::{Config, Flaw};
use super::own_time::{Held, OwnTime, Verdict};
use barrage_protocol::event::Reason;
use barrage_protocol::ids::{SLOT_MS, Slot};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// One record of a partition, as the parser hands it on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading<P> {
    /// Offset within the partition, growing (gaps are allowed).
    pub offset: u64,
    /// The broker's timestamp in milliseconds (`LogAppendTime`), where there is one. The first record of a partition
    /// decides whether it goes by the broker's clock or by its own times.
    pub append_ms: Option<i64>,
    /// Event time in milliseconds, wherever the record has a usable one, rejected or not.
    pub t: Option<i64>,
    /// What is counted, or why the record is no event.
    pub event: Result<P, Reason>,
}

/// What became of the records of a partition:
/// `read = in_slot + late + rejected + skipped + overflow + held`, always.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Records met, and offsets skipped.
    pub read: u64,
    /// Counted in a slot.
    pub in_slot: u64,
    /// Too late for their slot.
    pub late: u64,
    /// No event, or not believed.
    pub rejected: u64,
    /// Gone, and passed over by the operator's order.
    pub skipped: u64,
    /// Counted nowhere for want of room in a table.
    pub overflow: u64,
    /// Not decided yet: start-up and parked records.
    pub held: u64,
    /// The rejected, by reason.
    pub reasons: BTreeMap<Reason, u64>,
    /// Records met again and passed over (an offset that went back). Not part of `read`.
    pub repeated: u64,
}

/// How a partition tells the time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Kind<P> {
    /// By the broker's timestamps; the last one stands in for one that is missing.
    Broker { append_ms: i64 },
    /// By the records' own.
    Own(OwnTime<P>),
}

/// The clock of one partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartitionClock<P> {
    next: u64,
    kind: Option<Kind<P>>,
    /// Watermark by the records read.
    own: Option<i64>,
    /// Watermark by steps.
    raised: Option<i64>,
    counters: Counters,
    /// The least and the greatest slot that an event was counted in (the slot of the first watermark included in the
    /// least).
    least: Option<Slot>,
    greatest: Option<Slot>,
    /// (slot, offset): up to this slot, what the watermark had not passed before it passed at this offset.
    passed: VecDeque<(Slot, u64)>,
    ended: bool,
    /// First slot it belongs to.
    since: Slot,
}

impl<P: Copy> PartitionClock<P> {
    /// A partition that will be read from `first_offset` on.
    #[must_use]
    pub fn new(first_offset: u64) -> Self {
        Self {
            next: first_offset,
            kind: None,
            own: None,
            raised: None,
            counters: Counters::default(),
            least: None,
            greatest: None,
            passed: VecDeque::new(),
            ended: false,
            since: Slot(0),
        }
    }

    /// It belongs to the slots from `slot` on: what comes for earlier ones is late.
    pub(super) fn begin(&mut self, slot: Slot) {
        self.since = slot;
        self.raise(slot.start_ms());
    }

    pub(super) fn since(&self) -> Slot {
        self.since
    }

    /// First offset not read. The end of a file counts as one.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The watermark in milliseconds, raises included: nothing earlier is expected.
    #[must_use]
    pub fn watermark(&self) -> Option<i64> {
        self.own.max(self.raised)
    }

    /// Whether records (not only steps) have given it a watermark.
    #[must_use]
    pub fn told(&self) -> bool {
        self.own.is_some()
    }

    /// Whether its end was taken.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// What became of its records.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The least slot that anything was counted in, or in which the watermark began.
    #[must_use]
    pub fn least(&self) -> Option<Slot> {
        self.least
    }

    /// The greatest slot that anything was counted in.
    #[must_use]
    pub fn greatest(&self) -> Option<Slot> {
        self.greatest
    }

    /// Whether the watermark has passed the end of `slot`.
    #[must_use]
    pub fn has_passed(&self, slot: Slot) -> bool {
        self.watermark().is_some_and(|w| w >= slot.end_ms())
    }

    /// The first offset at which the watermark had passed the end of `slot`, raises included; the first one not read
    /// where it has not, yet. Good for slots not forgotten.
    #[must_use]
    pub fn offset_at(&self, slot: Slot) -> u64 {
        let i = self.passed.partition_point(|(upto, _)| *upto < slot);
        self.passed.get(i).map_or(self.next, |(_, offset)| *offset)
    }

    /// Forgets where slots up to `slot` were passed.
    pub fn forget(&mut self, slot: Slot) {
        while self.passed.front().is_some_and(|(upto, _)| *upto <= slot) {
            self.passed.pop_front();
        }
    }

    /// Takes a record: what is counted goes to `sink` with its slot. Returns whether it is news that deserves waiting
    /// for. A record below [`Self::next`] was taken before, and is passed over.
    pub fn read(
        &mut self,
        config: &Config,
        reading: Reading<P>,
        sink: &mut impl FnMut(Slot, P),
    ) -> bool {
        if reading.offset < self.next || self.ended {
            self.counters.repeated += 1;
            return false;
        }
        self.next = reading.offset.saturating_add(1);
        self.counters.read += 1;
        let Reading { offset, append_ms, t, event } = reading;
        match self.kind.get_or_insert_with(|| match append_ms {
            Some(append_ms) => Kind::Broker { append_ms },
            None => Kind::Own(OwnTime::default()),
        }) {
            Kind::Broker { append_ms: last } => {
                let append = append_ms.unwrap_or(*last);
                *last = append;
                self.by_broker(config, append, reading, sink);
                true
            }
            Kind::Own(own) => {
                let (Some(t), before) = (t, own.held()) else {
                    self.reject(event.err().unwrap_or(Reason::TsMissing));
                    return false;
                };
                let mut out = Vec::new();
                let w = self.own.max(self.raised).unwrap_or(i64::MIN);
                let news = own.read(config, Held { offset, t, event }, w, &mut out);
                self.counters.held = own.held() as u64;
                debug_assert!(before + 1 >= out.len(), "no more is decided than was held");
                self.decide(config, out, sink);
                news
            }
        }
    }

    /// The partition has ended (a file): what is held is decided. Counts as one offset.
    pub fn end(&mut self, config: &Config, sink: &mut impl FnMut(Slot, P)) {
        if self.ended {
            return;
        }
        let mut out = Vec::new();
        if let Some(Kind::Own(own)) = &mut self.kind {
            own.end(config, &mut out);
        }
        self.counters.held = 0;
        self.decide(config, out, sink);
        self.next = self.next.saturating_add(1);
        self.ended = true;
    }

    /// A step at the present offset: what comes for slots that end at or before `ms` is late.
    pub fn raise(&mut self, ms: i64) {
        if self.raised.is_none_or(|r| r < ms) {
            self.raised = Some(ms);
            self.note_passed(self.next);
        }
    }

    /// Records up to `to` are gone: passed over by the operator's order.
    pub fn skip(&mut self, to: u64) {
        let gone = to.saturating_sub(self.next);
        self.counters.read = self.counters.read.saturating_add(gone);
        self.counters.skipped = self.counters.skipped.saturating_add(gone);
        self.next = self.next.max(to);
    }

    /// Goes on at `to` where no record lies below it. Returns how many offsets that were.
    pub(super) fn pass(&mut self, to: u64) -> u64 {
        let empty = to.saturating_sub(self.next);
        self.next = self.next.max(to);
        empty
    }

    /// `n` events counted in a slot found no room in its table.
    pub fn overflow(&mut self, n: u64) {
        let n = n.min(self.counters.in_slot);
        self.counters.in_slot -= n;
        self.counters.overflow += n;
    }

    /// Forgets what the records said of the time, as a faulty checkpoint would.
    pub(super) fn lose_watermark(&mut self) {
        self.own = None;
        self.raised = None;
    }

    fn by_broker(
        &mut self,
        config: &Config,
        append: i64,
        reading: Reading<P>,
        sink: &mut impl FnMut(Slot, P),
    ) {
        let oldest = append.saturating_sub(config.lag_max_ms);
        match (reading.event, reading.t) {
            (Err(reason), _) => self.reject(reason),
            (Ok(_), None) => self.reject(Reason::TsMissing),
            (Ok(_), Some(t)) if t < append.saturating_sub(config.late_max_ms) => {
                self.reject(Reason::Past);
            }
            (Ok(_), Some(t)) if t > append.saturating_add(config.skew_max_ms) => {
                self.reject(Reason::Future);
            }
            (Ok(payload), Some(t)) => self.count(t, payload, sink),
        }
        if reading.event.is_err() && config.flawed(Flaw::Garbage) {
            return;
        }
        let t = reading.t.unwrap_or(oldest).max(oldest).min(append);
        self.advance(t.saturating_sub(config.out_of_order_ms), reading.offset);
    }

    fn decide(
        &mut self,
        config: &Config,
        verdicts: Vec<Verdict<P>>,
        sink: &mut impl FnMut(Slot, P),
    ) {
        let at = self.next.saturating_sub(1);
        for verdict in verdicts {
            match verdict {
                Verdict::Rejected(reason) => self.reject(reason),
                Verdict::Counts(held) => {
                    match held.event {
                        Ok(payload) => self.count(held.t, payload, sink),
                        Err(reason) => self.reject(reason),
                    }
                    // Passed where it was decided, not where the record lies: nobody knew before.
                    self.advance(held.t.saturating_sub(config.out_of_order_ms), at);
                }
            }
        }
    }

    fn count(&mut self, t: i64, payload: P, sink: &mut impl FnMut(Slot, P)) {
        let slot = Slot::of_ms(t);
        if self.has_passed(slot) {
            self.counters.late += 1;
            return;
        }
        self.counters.in_slot += 1;
        self.least = Some(self.least.map_or(slot, |s| s.min(slot)));
        self.greatest = self.greatest.max(Some(slot));
        sink(slot, payload);
    }

    fn reject(&mut self, reason: Reason) {
        self.counters.rejected += 1;
        *self.counters.reasons.entry(reason).or_default() += 1;
    }

    fn advance(&mut self, w: i64, offset: u64) {
        if self.own.is_none() {
            let slot = Slot::of_ms(w);
            self.least = Some(self.least.map_or(slot, |s| s.min(slot)));
        }
        if self.own.is_none_or(|own| own < w) {
            self.own = Some(w);
            self.note_passed(offset);
        }
    }

    fn note_passed(&mut self, offset: u64) {
        let slots = self.watermark().and_then(|w| u64::try_from(w).ok()).unwrap_or(0) / SLOT_MS;
        if let Some(last) = slots.checked_sub(1).map(Slot)
            && self.passed.back().is_none_or(|(upto, _)| *upto < last)
        {
            self.passed.push_back((last, offset));
        }
    }
}
