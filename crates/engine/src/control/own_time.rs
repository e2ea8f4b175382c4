//! Partitions without a broker's clock: whom to believe at the start, and who is parked later (semantics §1).

use super::config::Config;
use barrage_protocol::event::Reason;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// A record whose fate is not decided yet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Held<P> {
    pub(super) offset: u64,
    pub(super) t: i64,
    pub(super) event: Result<P, Reason>,
}

/// What the records' own times say about a record.
pub(super) enum Verdict<P> {
    /// It counts.
    Counts(Held<P>),
    /// It does not, for this reason (its own, if it was none to begin with).
    Rejected(Reason),
}

/// Held records of a partition that has only its own times to go by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct OwnTime<P> {
    /// Whether the partition has a watermark.
    started: bool,
    /// Before: the last records, at most `start_of`. After: what is parked, at most `parked` less one.
    held: VecDeque<Held<P>>,
    /// How many records have gone through the start.
    tried: usize,
}

impl<P> Default for OwnTime<P> {
    fn default() -> Self {
        Self { started: false, held: VecDeque::new(), tried: 0 }
    }
}

impl<P: Copy> OwnTime<P> {
    /// Records whose fate is not decided yet.
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    /// Takes a record with a usable time; what is decided by it goes to `out` in order. `watermark` is the one before
    /// it, a step's raise included. Returns whether it is news that deserves waiting for: it decides something, or it
    /// is one of the first that a start may need.
    pub(super) fn read(
        &mut self,
        config: &Config,
        record: Held<P>,
        watermark: i64,
        out: &mut Vec<Verdict<P>>,
    ) -> bool {
        if !self.started {
            return self.start(config, record, out);
        }
        if record.t < watermark.saturating_sub(config.jump_max_ms) {
            out.push(reject(&record, Reason::Past));
            return false;
        }
        if record.t > watermark.saturating_add(config.jump_max_ms) {
            self.park(config, record, out);
            return !out.is_empty();
        }
        out.extend(self.held.drain(..).map(|parked| reject(&parked, Reason::Future)));
        out.push(Verdict::Counts(record));
        true
    }

    fn start(&mut self, config: &Config, record: Held<P>, out: &mut Vec<Verdict<P>>) -> bool {
        self.held.push_back(record);
        self.tried = self.tried.saturating_add(1);
        if self.held.len() > config.start_of
            && let Some(oldest) = self.held.pop_front()
        {
            out.push(reject(&oldest, Reason::Outside));
        }
        let mut times: Vec<i64> = self.held.iter().map(|h| h.t).collect();
        times.sort_unstable();
        let cluster = times
            .windows(config.start_need)
            .find(|w| w[w.len() - 1].saturating_sub(w[0]) <= config.jump_max_ms);
        if let Some(cluster) = cluster {
            let least = cluster[0];
            self.settle(least, least.saturating_add(config.jump_max_ms), out);
        }
        self.tried <= config.start_of || self.started
    }

    /// Ends the start: what lies in the span counts.
    fn settle(&mut self, least: i64, greatest: i64, out: &mut Vec<Verdict<P>>) {
        self.started = true;
        out.extend(self.held.drain(..).map(|held| {
            if (least..=greatest).contains(&held.t) {
                Verdict::Counts(held)
            } else {
                reject(&held, Reason::Outside)
            }
        }));
    }

    fn park(&mut self, config: &Config, record: Held<P>, out: &mut Vec<Verdict<P>>) {
        while self.held.iter().any(|h| h.t.abs_diff(record.t) > config.jump_max_ms.unsigned_abs()) {
            if let Some(first) = self.held.pop_front() {
                out.push(reject(&first, Reason::Future));
            }
        }
        self.held.push_back(record);
        if self.held.len() >= config.parked {
            out.extend(self.held.drain(..).map(Verdict::Counts));
        }
    }

    /// The partition has ended.
    pub(super) fn end(&mut self, config: &Config, out: &mut Vec<Verdict<P>>) {
        if self.started {
            out.extend(self.held.drain(..).map(|parked| reject(&parked, Reason::Future)));
            return;
        }
        let mut times: Vec<i64> = self.held.iter().map(|h| h.t).collect();
        times.sort_unstable();
        // Of two middle ones the earlier: a mean of the two might be believed by nobody.
        if let Some(&median) = times.get(times.len().saturating_sub(1) / 2) {
            self.settle(
                median.saturating_sub(config.jump_max_ms),
                median.saturating_add(config.jump_max_ms),
                out,
            );
        }
    }
}

fn reject<P>(held: &Held<P>, reason: Reason) -> Verdict<P> {
    Verdict::Rejected(held.event.as_ref().err().copied().unwrap_or(reason))
}
