//! Semantics §1 once more, as slow and plain as it can be: every question is answered from all records before.

use barrage_engine::control::{Config, Reading};
use barrage_protocol::event::Reason;
use std::collections::BTreeMap;

/// What becomes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Slot(u64),
    Late,
    Rejected(Reason),
    /// Not decided yet.
    Held,
}

/// Fates of `records` by offset, and the watermark after each, with steps that raise it: (before the record at this
/// index, to this time). `ended`: nothing comes after the last.
pub(crate) fn fates(
    config: &Config,
    records: &[Reading<u64>],
    raises: &[(usize, i64)],
    ended: bool,
) -> (BTreeMap<u64, Fate>, Vec<Option<i64>>) {
    match records.first() {
        Some(first) if first.append_ms.is_some() => by_broker(config, records, raises),
        _ => by_own(config, records, raises, ended),
    }
}

fn raise_before(raises: &[(usize, i64)], index: usize) -> Option<i64> {
    raises.iter().filter(|(i, _)| *i <= index).map(|(_, ms)| *ms).max()
}

/// What a record does to the watermark.
fn pushes(config: &Config, r: &Reading<u64>) -> i64 {
    let append = r.append_ms.unwrap();
    let oldest = append - config.lag_max_ms;
    let t = match r.t {
        None => oldest,
        Some(t) if t < oldest => oldest,
        Some(t) if t > append => append,
        Some(t) => t,
    };
    t - config.out_of_order_ms
}

fn by_broker(
    config: &Config,
    records: &[Reading<u64>],
    raises: &[(usize, i64)],
) -> (BTreeMap<u64, Fate>, Vec<Option<i64>>) {
    let mut fates = BTreeMap::new();
    let mut watermarks = Vec::new();
    for (i, r) in records.iter().enumerate() {
        let told = |n: usize| records[..n].iter().map(|r| pushes(config, r)).max();
        let before = told(i).max(raise_before(raises, i));
        let append = r.append_ms.unwrap();
        let fate = match (r.event, r.t) {
            (Err(reason), _) => Fate::Rejected(reason),
            (Ok(_), None) => unreachable!("events have a time"),
            (Ok(_), Some(t)) if t < append - config.late_max_ms => Fate::Rejected(Reason::Past),
            (Ok(_), Some(t)) if t > append + config.skew_max_ms => Fate::Rejected(Reason::Future),
            (Ok(_), Some(t)) => place(t, before),
        };
        fates.insert(r.offset, fate);
        watermarks.push(told(i + 1).max(raise_before(raises, i)));
    }
    (fates, watermarks)
}

fn place(t: i64, before: Option<i64>) -> Fate {
    let slot = t.div_euclid(100).unsigned_abs();
    let end = (slot as i64 + 1) * 100;
    if before.is_some_and(|w| end <= w) { Fate::Late } else { Fate::Slot(slot) }
}

struct Own<'a> {
    config: &'a Config,
    records: &'a [Reading<u64>],
    fates: BTreeMap<u64, Fate>,
    own: Option<i64>,
}

impl Own<'_> {
    fn reject(&mut self, i: usize, reason: Reason) {
        let r = &self.records[i];
        self.fates.insert(r.offset, Fate::Rejected(r.event.err().unwrap_or(reason)));
    }

    fn counts(&mut self, i: usize, raised: Option<i64>) {
        let r = &self.records[i];
        let t = r.t.unwrap();
        let fate = match r.event {
            Err(reason) => Fate::Rejected(reason),
            Ok(_) => place(t, self.own.max(raised)),
        };
        self.fates.insert(r.offset, fate);
        self.own = self.own.max(Some(t - self.config.out_of_order_ms));
    }

    /// The least time that begins a span of `jump_max` with `need` of these records in it.
    fn cluster(&self, of: &[usize], need: usize) -> Option<i64> {
        let time = |i: &usize| self.records[*i].t.unwrap();
        of.iter()
            .map(time)
            .filter(|lo| {
                let span = *lo..=*lo + self.config.jump_max_ms;
                of.iter().filter(|i| span.contains(&time(i))).count() >= need
            })
            .min()
    }

    fn settle(&mut self, held: &[usize], lo: i64, hi: i64, raised: Option<i64>) {
        for &i in held {
            if (lo..=hi).contains(&self.records[i].t.unwrap()) {
                self.counts(i, raised);
            } else {
                self.reject(i, Reason::Outside);
            }
        }
    }

    fn end(&mut self, started: bool, held: &[usize], raised: Option<i64>) {
        if started {
            held.iter().for_each(|&i| self.reject(i, Reason::Future));
        } else if !held.is_empty() {
            let mut times: Vec<i64> = held.iter().map(|&i| self.records[i].t.unwrap()).collect();
            times.sort_unstable();
            let median = times[(times.len() - 1) / 2];
            let jump = self.config.jump_max_ms;
            self.settle(held, median - jump, median + jump, raised);
        }
    }
}

fn by_own(
    config: &Config,
    records: &[Reading<u64>],
    raises: &[(usize, i64)],
    ended: bool,
) -> (BTreeMap<u64, Fate>, Vec<Option<i64>>) {
    let mut own = Own { config, records, fates: BTreeMap::new(), own: None };
    let (mut started, mut held) = (false, Vec::<usize>::new());
    let mut watermarks = Vec::new();
    for (i, r) in records.iter().enumerate() {
        let raised = raise_before(raises, i);
        let w = own.own.max(raised);
        match r.t {
            None => own.reject(i, Reason::TsMissing),
            Some(_) if !started => {
                held.push(i);
                if held.len() > config.start_of {
                    own.reject(held.remove(0), Reason::Outside);
                }
                if let Some(lo) = own.cluster(&held, config.start_need) {
                    own.settle(&held, lo, lo + config.jump_max_ms, raised);
                    (started, held) = (true, Vec::new());
                }
            }
            Some(t) if t < w.unwrap() - config.jump_max_ms => own.reject(i, Reason::Past),
            Some(t) if t > w.unwrap() + config.jump_max_ms => {
                held.push(i);
                while own.cluster(&held, held.len()).is_none() {
                    own.reject(held.remove(0), Reason::Future);
                }
                if held.len() == config.parked {
                    std::mem::take(&mut held).into_iter().for_each(|i| own.counts(i, raised));
                }
            }
            Some(_) => {
                std::mem::take(&mut held).into_iter().for_each(|i| own.reject(i, Reason::Future));
                own.counts(i, raised);
            }
        }
        watermarks.push(own.own.max(raised));
    }
    if ended {
        own.end(started, &held, raise_before(raises, records.len()));
    } else {
        for i in held {
            own.fates.insert(records[i].offset, Fate::Held);
        }
    }
    (own.fates, watermarks)
}
