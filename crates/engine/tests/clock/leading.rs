//! What a leader makes of interleavings, silence, garbage and partitions that cannot be read.

use crate::stream::{BASE, Rng, random};
use barrage_engine::control::{Config, Leader, Memory, Reading, Status, lead};
use barrage_protocol::control::{Control, Entry, Record, Step};
use barrage_protocol::event::Reason;
use barrage_protocol::ids::Slot;
use std::collections::BTreeMap;

/// A leader with its log in memory; every step is read back at once.
pub(crate) struct Alone {
    pub(crate) leader: Leader<u64>,
    pub(crate) log: Memory,
    /// (partition, payload) and the slot it was counted in.
    pub(crate) counted: BTreeMap<(u32, u64), Slot>,
    pub(crate) records: Vec<Record>,
}

impl Alone {
    pub(crate) fn new(partitions: u32, now: i64) -> Self {
        let mut log = Memory::new(100_000);
        log.append(lead(1));
        let mut leader = Leader::new(Config::default(), 1, now);
        (0..partitions).for_each(|p| leader.add_partition(p, 0, now));
        Self { leader, log, counted: BTreeMap::new(), records: Vec::new() }
    }

    pub(crate) fn turn(&mut self, now: i64) {
        let counted = &mut self.counted;
        let void = self.leader.turn(now, &mut |p, slot, id| {
            counted.insert((p, id), slot);
        });
        assert!(!void);
    }

    pub(crate) fn read(&mut self, p: u32, readings: &[Reading<u64>]) {
        let counted = &mut self.counted;
        for reading in readings {
            self.leader.read(p, *reading, &mut |p, slot, id| {
                counted.insert((p, id), slot);
            });
        }
    }

    pub(crate) fn ended(&mut self, p: u32) {
        let counted = &mut self.counted;
        self.leader.ended(p, &mut |p, slot, id| {
            counted.insert((p, id), slot);
        });
    }

    /// Takes records, closes what can be closed, writes steps and reads them back. Returns the last closed slot.
    pub(crate) fn close(&mut self, now: i64) -> Option<Slot> {
        self.records.extend(self.leader.records_due());
        while let Some(upto) = self.leader.closable(now) {
            self.leader.closed(upto, "", false);
        }
        while let Some(step) = self.leader.step(now) {
            self.log.append(Entry::Step(step));
            while let Some(entry) = self.log.get(self.leader.position()) {
                self.leader.entry(entry);
            }
        }
        self.leader.last_closed()
    }

    pub(crate) fn steps(&self) -> impl Iterator<Item = &Step> {
        (0..self.log.end()).filter_map(|i| match self.log.get(i) {
            Some(Entry::Step(step)) => Some(step),
            _ => None,
        })
    }
}

/// Whatever the order in which files are read, each record has the same fate, and nothing is late for having begun.
#[test]
fn interleavings_change_no_fate() {
    for seed in 0..30 {
        let mut rng = Rng(seed);
        let files: Vec<_> = (0..4).map(|p| random(&mut rng, 80, p % 2 == 0)).collect();
        let outcomes: Vec<_> =
            (0..8).map(|k| read_files(&files, &mut Rng(seed * 100 + k))).collect();
        assert!(!outcomes[0].0.is_empty());
        for (k, outcome) in outcomes.iter().enumerate() {
            assert_eq!(*outcome, outcomes[0], "seed {seed}, order {k}");
        }
    }
}

type Outcome = (BTreeMap<(u32, u64), Slot>, Vec<String>, Option<Slot>, u64);

fn read_files(files: &[Vec<Reading<u64>>], rng: &mut Rng) -> Outcome {
    let mut alone = Alone::new(files.len() as u32, 0);
    let mut at = vec![0; files.len()];
    let mut now = 0;
    while !alone.leader.is_finished() {
        now += rng.range(0, 400);
        assert!(now < 10_000_000, "{at:?}");
        alone.turn(now);
        let p = (rng.next() % files.len() as u64) as usize;
        if alone.leader.can_read(p as u32) {
            let to = files[p].len().min(at[p] + rng.range(1, 20) as usize);
            alone.read(p as u32, &files[p][at[p]..to]);
            at[p] = to;
            alone.leader.answered(p as u32, now, false);
            if to == files[p].len() {
                alone.ended(p as u32);
            }
        }
        alone.close(now);
    }
    let counters = |p: u32| format!("{:?}", alone.leader.counters(p).unwrap());
    let counters = (0..files.len() as u32).map(counters).collect();
    let last = alone.leader.last_closed();
    (alone.counted, counters, last, alone.leader.misplaced())
}

fn at(offset: u64, t: i64) -> Reading<u64> {
    Reading { offset, append_ms: Some(t), t: Some(t), event: Ok(offset) }
}

/// Lets partition 0 bring an event every 100 ms of a clock that is both the broker's and the monotonic one;
/// `other` is asked at each instant what partition 1 does.
fn run_two(for_ms: i64, mut other: impl FnMut(&mut Alone, i64)) -> Alone {
    let mut alone = Alone::new(2, 0);
    for i in 0..for_ms / 100 {
        let now = i * 100;
        alone.turn(now);
        if alone.leader.can_read(0) {
            alone.read(0, &[at(i.unsigned_abs(), BASE + now)]);
            alone.leader.answered(0, now, true);
        }
        if alone.leader.can_read(1) {
            other(&mut alone, now);
        }
        alone.close(now);
    }
    alone
}

#[test]
fn a_partition_of_garbage_alone_does_not_stop_the_site() {
    let garbage = |offset: u64, now: i64| Reading {
        offset,
        append_ms: Some(BASE + now),
        t: None,
        event: Err(Reason::Json),
    };
    let alone = run_two(20_000, |alone, now| {
        alone.read(1, &[garbage((now / 100).unsigned_abs(), now)]);
        alone.leader.answered(1, now, true);
    });
    // It lags by `lag_max` and `out_of_order`, and no more.
    let closed = alone.leader.last_closed().unwrap();
    assert_eq!(closed.end_ms(), BASE + 19_900 - 2_500);
    assert_eq!(alone.leader.counters(1).unwrap().rejected, 200);
    assert_eq!(alone.leader.status(1), Some(Status::Active));
}

/// Without a broker's clock garbage says nothing of the time: its partition is not waited for.
#[test]
fn garbage_without_a_brokers_clock_is_silence() {
    let alone = run_two(20_000, |alone, now| {
        let offset = (now / 100).unsigned_abs();
        alone.read(1, &[Reading { offset, append_ms: None, t: None, event: Err(Reason::Json) }]);
        alone.leader.answered(1, now, true);
    });
    // A round later than without it: each record ends the step, since offsets are part of it.
    assert_eq!(alone.leader.last_closed().unwrap().end_ms(), BASE + 19_800 - 500);
    assert_eq!(alone.leader.status(1), Some(Status::Idle));
}

#[test]
fn who_was_not_answered_at_the_end_is_not_idle() {
    let alone = run_two(20_000, |alone, now| alone.leader.answered(1, now, false));
    assert_eq!(alone.leader.status(1), Some(Status::Active));
    assert_eq!(alone.leader.last_closed(), None, "the start waits for it");
    let alone = run_two(20_000, |alone, now| alone.leader.answered(1, now, true));
    assert_eq!(alone.leader.status(1), Some(Status::Idle));
    assert_eq!(alone.leader.last_closed().unwrap().end_ms(), BASE + 19_900 - 500);
}

#[test]
fn a_woken_partition_is_read_in_the_next_step() {
    let alone = run_two(10_000, |alone, now| {
        if now == 0 || now == 6_000 {
            alone.read(1, &[at((now > 0).into(), BASE + now - 400)]);
        }
        alone.leader.answered(1, now, true);
    });
    let waking = alone.steps().position(|s| s.offsets[&1] == 2).unwrap();
    let steps: Vec<_> = alone.steps().collect();
    let cut = steps[waking - 1];
    assert_eq!(cut.offsets[&1], 1, "the step before ends before the record");
    assert!(cut.slot.end_ms() >= BASE + 5_200, "and has closed slots without it");
    // The record at 5,600 ms: its slot was open still, the step having closed up to 5,500.
    assert_eq!(alone.counted[&(1, 1)], Slot::of_ms(BASE + 5_600));
    assert_eq!(alone.leader.misplaced(), 0);
}

#[test]
fn who_cannot_be_read_holds_then_is_absent_then_back() {
    let alone = run_two(60_000, |alone, now| {
        if !(2_000..45_000).contains(&now) {
            let lost = alone.leader.status(1) == Some(Status::Absent);
            alone.read(1, &[at((now / 100).unsigned_abs(), BASE + now)]);
            alone.leader.answered(1, now, true);
            assert!(!lost || now == 45_000);
        } else {
            alone.leader.failed(1, now);
            let closed = alone.leader.last_closed().unwrap().end_ms();
            if now < 31_900 {
                assert!(closed <= BASE + 1_900, "{now}: its slots are held");
            }
        }
    });
    let moment = |wanted: &Control| {
        let found = alone.records.iter().find(|r| r.control == *wanted);
        found.unwrap_or_else(|| panic!("no {wanted:?}")).from.start_ms() - BASE
    };
    assert_eq!(moment(&Control::Absent { partition: 1 }), 1_400);
    assert_eq!(moment(&Control::Back { partition: 1 }), 44_400);
    assert_eq!(alone.leader.status(1), Some(Status::Active));
    assert_eq!(alone.leader.last_closed().unwrap().end_ms(), BASE + 59_400);
}

#[test]
fn with_all_absent_nothing_closes() {
    let mut alone = Alone::new(1, 0);
    alone.turn(0);
    alone.read(0, &[at(0, BASE)]);
    alone.leader.answered(0, 0, false);
    alone.close(0);
    for now in (0..90_000).step_by(100) {
        alone.turn(now);
        alone.leader.failed(0, now);
        alone.close(now);
    }
    assert_eq!(alone.leader.status(0), Some(Status::Absent));
    assert_eq!(alone.leader.last_closed().unwrap().end_ms(), BASE - 500);
}

/// A process that stood still for a minute does not hold that against the partitions.
#[test]
fn a_pause_makes_nobody_absent() {
    let mut alone = Alone::new(1, 0);
    alone.turn(0);
    alone.read(0, &[at(0, BASE)]);
    alone.leader.answered(0, 0, false);
    alone.close(0);
    alone.turn(60_000);
    alone.leader.failed(0, 60_000);
    alone.close(60_000);
    assert_eq!(alone.leader.status(0), Some(Status::Active));
    assert!(alone.records.iter().all(|r| !matches!(r.control, Control::Absent { .. })));
}

#[test]
fn a_partition_far_ahead_is_not_read() {
    let mut alone = Alone::new(2, 0);
    alone.turn(0);
    alone.read(0, &[at(0, BASE)]);
    let mut n = 0;
    while alone.leader.can_read(1) {
        alone.read(1, &[at(n, BASE + n as i64 * 100)]);
        n += 1;
        assert!(n < 1_000, "it has a bound");
    }
    alone.turn(0);
    alone.close(0);
    assert!((300..320).contains(&n), "{n}: thirty seconds");
    alone.ended(0);
    alone.turn(10);
    alone.close(10);
    assert!(alone.leader.can_read(1), "slots closed, it may be read on");
}

#[test]
fn skipped_records_are_counted_and_recorded() {
    let mut alone = Alone::new(1, 0);
    alone.turn(0);
    alone.read(0, &[at(0, BASE), at(1, BASE + 100)]);
    alone.turn(0);
    alone.close(0);
    let skip = |from_offset, to_offset| Control::Skip { partition: 0, from_offset, to_offset };
    assert!(alone.leader.propose(skip(5, 9)).is_err(), "not where it is read");
    assert!(alone.leader.propose(skip(2, 2)).is_err(), "nothing to skip");
    alone.leader.propose(skip(2, 10)).unwrap();
    alone.read(0, &[at(9, BASE + 200), at(10, BASE + 300)]);
    let c = alone.leader.counters(0).unwrap();
    assert_eq!((c.read, c.skipped, c.in_slot, c.repeated), (11, 8, 3, 1));
    assert_eq!(alone.leader.clock(0).unwrap().next(), 11);
}

/// K04: a record that cannot be parsed is read once, and reading goes on.
#[test]
fn a_record_that_cannot_be_parsed_is_read_once() {
    let mut alone = Alone::new(1, 0);
    alone.turn(0);
    let poison = Reading { t: None, event: Err(Reason::Json), ..at(1, BASE) };
    alone.read(0, &[at(0, BASE), poison, at(2, BASE + 100)]);
    assert_eq!(alone.leader.clock(0).unwrap().next(), 3);
    assert_eq!(alone.leader.counters(0).unwrap().rejected, 1);
}
