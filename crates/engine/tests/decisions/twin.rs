//! The features of a room by recounting: every window is summed anew from the counts of the slots. Slow and obvious.

use barrage_engine::features::{Baseline, Features};
use barrage_protocol::ids::{CLASSES, Class, OUTCOMES, Slot};

/// All counts of one room since its first slot.
pub(crate) struct Twin {
    start: u64,
    counts: Vec<u32>,
    /// Index of the first event.
    first: Option<usize>,
    /// Index of the last event, and the baseline in force there.
    last: Option<(usize, Baseline)>,
    /// Baseline kept over a hole, and the index at which it is let go, once known.
    hole: Option<(Baseline, Option<usize>)>,
    blocks: Vec<u64>,
}

impl Twin {
    /// The first slot to be closed is `start`.
    pub(crate) fn new(start: u64) -> Self {
        Self { start, counts: Vec::new(), first: None, last: None, hole: None, blocks: Vec::new() }
    }

    pub(crate) fn born(&self) -> bool {
        self.first.is_some()
    }

    pub(crate) fn next(&self) -> Slot {
        Slot(self.start + self.counts.len() as u64)
    }

    pub(crate) fn last_closed(&self) -> Slot {
        Slot(self.start + self.counts.len() as u64 - 1)
    }

    /// Σ of `f` over the `slots` slots that end `back` slots before the last closed one.
    fn sum(&self, back: usize, slots: usize, f: impl Fn(u64) -> u64) -> u64 {
        let end = self.counts.len().saturating_sub(back);
        let from = end.saturating_sub(slots);
        self.counts[from..end].iter().map(|c| f(u64::from(*c))).sum()
    }

    fn count(&self, slots: usize) -> u32 {
        self.sum(0, slots, |c| c) as u32
    }

    /// Mean over the 600 slots before the last 100, of those since the first event.
    fn sliding(&self) -> Baseline {
        let (Some(first), end) = (self.first, self.counts.len().saturating_sub(100)) else {
            return Baseline::default();
        };
        let from = end.saturating_sub(600).max(first);
        let slots = self.counts.get(from..end.max(from)).unwrap_or(&[]);
        Baseline {
            n: slots.len() as u16,
            sum: slots.iter().map(|c| u64::from(*c)).sum(),
            sumsq: slots.iter().map(|c| u64::from(*c) * u64::from(*c)).sum(),
        }
    }

    /// The baseline, and whether it is kept over a hole; to be called once a slot.
    fn baseline(&mut self) -> (Baseline, bool) {
        let t = self.counts.len() - 1;
        if self.counts[t] > 0 {
            if let Some((_, until @ None)) = &mut self.hole {
                *until = Some(t + 700);
            }
        } else if let Some((last, at)) = self.last {
            let silence = (t - last) as u64;
            if silence >= 50 && at.n >= 300 && at.sum * silence >= 12 * u64::from(at.n) {
                self.hole = Some((at, None));
            }
        }
        let kept = self.hole.filter(|(_, until)| until.is_none_or(|until| t < until));
        let (baseline, hole) = match kept {
            Some((kept, _)) => (kept, true),
            None => (self.sliding(), false),
        };
        if self.counts[t] > 0 {
            self.last = Some((t, baseline));
        }
        (baseline, hole)
    }

    /// `M` of the surge rule: the median of the last 18 finished blocks, × 1000.
    fn background(&mut self, surge: Option<Slot>) -> u64 {
        let end = self.start + self.counts.len() as u64;
        let young = surge.is_some_and(|start| end - (start.0 + 1) < 100);
        let alive = self.first.is_some_and(|first| self.start + (first as u64) < end);
        if end.is_multiple_of(100) && alive && !young {
            self.blocks.push(self.sum(0, 100, |c| c));
        }
        let from = self.blocks.len().saturating_sub(18);
        let mut last = self.blocks[from..].to_vec();
        last.sort_unstable();
        match last.len() {
            0 => 0,
            n => (last[(n - 1) / 2] + last[n / 2]) * 500,
        }
    }

    /// Closes the next slot. `surge`: the slot that opened the surge that is on. A third of the events are gifts, the
    /// rest is chat.
    pub(crate) fn close(&mut self, count: u32, surge: Option<Slot>) -> Features {
        self.counts.push(count);
        if count > 0 && self.first.is_none() {
            self.first = Some(self.counts.len() - 1);
        }
        let (baseline, hole) = self.baseline();
        let background = self.background(surge);
        let mut classes = [[0; CLASSES]; 3];
        let mut outcomes = [[0; OUTCOMES]; 3];
        for (w, slots) in [10, 100, 600].into_iter().enumerate() {
            let gifts = self.sum(0, slots, |c| c / 3) as u32;
            classes[w][Class::Gift as usize] = gifts;
            classes[w][Class::Chat as usize] = self.count(slots) - gifts;
            outcomes[w][0] = self.count(slots);
        }
        Features {
            slot: self.last_closed(),
            first: Slot(self.start + self.first.unwrap_or(0) as u64),
            last: Slot(self.start + self.last.map_or(0, |l| l.0) as u64),
            count,
            before_1s: self.sum(1, 10, |c| c) as u32,
            count_1s: self.count(10),
            count_3s: self.count(30),
            count_5s: self.count(50),
            count_10s: self.count(100),
            count_60s: self.count(600),
            seconds_of_5: (0..5).filter(|k| self.sum(10 * k, 10, |c| c) > 0).count() as u8,
            baseline,
            hole,
            background,
            classes,
            outcomes,
        }
    }
}
