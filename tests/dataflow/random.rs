//! Random streams: the graph against the oracle, on 1 to 4 workers, any batch sizes, records split at random.

use crate::oracle::Oracle;
use crate::stream::{Log, Rng, START, Stream, bytes, run};
use barrage::worker::Host;
use barrage_dataflows::command::Options;
use barrage_engine::fixed::Fixed;
use barrage_engine::rules::{Group, Matcher, RuleSet, Trigger};
use barrage_protocol::decision::Kind;
use barrage_protocol::ids::{Class, Outcome, Slot};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Rules that small rooms can trip, drawn by the seed; groups `a…`, `b…` and the rest.
pub(crate) fn low(rng: &mut Rng) -> RuleSet {
    let mut rules = RuleSet::shipped();
    let n = 20 + rng.below(40) as u32;
    for rule in &mut rules.rules {
        match &mut rule.trigger {
            Trigger::Burst(r) => r.min_count_60s = n,
            Trigger::Fast(r) => (r.min_count_1s, r.rate_exit) = (n / 2, Fixed::int(1)),
            Trigger::Rate(r) => {
                let above = i64::from(n) / 2;
                r.steps.iter_mut().for_each(|s| s.above = Fixed::int(above));
                r.exit = Fixed::int(above / 2);
            }
            Trigger::Surge(r) => r.c = 4 + rng.below(6) as u32,
            Trigger::Micro(r) => r.min_rate = Fixed::int(40 + rng.below(100) as i64),
        }
    }
    rules.ladder.frozen_alarm = 100;
    let group = |id: &str| {
        let mut group: Group = rules.groups[0].clone();
        (group.id, group.matcher) = (id.to_owned(), Matcher::Prefix(id.to_owned()));
        group.set.clear();
        group
    };
    let mut groups = vec![group("a"), group("b")];
    groups[1].set.insert("burst.min_count_60s".to_owned(), Fixed::int(i64::from(n) * 2));
    let mut last = group("default");
    last.matcher = Matcher::Any;
    groups.push(last);
    rules.groups = groups;
    rules.hash = format!("{:064x}", rng.next());
    rules
}

/// A stream over a dozen rooms: steady, bursting, silent, coming and going.
pub(crate) fn stream(rng: &mut Rng, slots: u64) -> Stream {
    let mut stream = Stream::default();
    for i in 0..12 {
        let room = format!("{}{i}", ["a", "b", "c"][rng.below(3) as usize]);
        let (mut base, mut slot) = (rng.below(60), rng.below(slots / 2));
        while slot < slots {
            let last = (slot + 20 + rng.below(400)).min(slots);
            let now = match rng.below(6) {
                0 => 0,
                1 => base * 4 + 20,
                2 => base * 12 + 100,
                _ => base,
            };
            for slot in slot..last {
                // In tenths of an event a slot.
                let n = now / 10 + u64::from(rng.below(10) < now % 10);
                let class = Class::ALL[rng.below(6) as usize];
                let outcome = Outcome::ALL[(rng.below(12) / 2).min(4) as usize];
                let part = rng.below(8) as u32;
                stream.add_with(START + slot, part, &room, (class, outcome), n as u32);
            }
            if rng.below(4) == 0 {
                base = rng.below(60);
            }
            slot = last;
        }
    }
    stream.end = START + slots - 1;
    stream
}

#[test]
fn the_graph_decides_as_the_oracle() {
    let mut kinds = BTreeSet::new();
    for seed in 0..10 {
        let mut rng = Rng(seed);
        let rules = Arc::new(low(&mut rng));
        let stream = stream(&mut rng, 2_000);
        let expected = Oracle::decide(&rules, &stream, 300);
        kinds.extend(expected.iter().map(|d| d.kind));
        let end = stream.end + 300;
        for workers in 1..=4 {
            let batch = [1, 7, 0, 0][(seed as usize + workers) % 4];
            let mut host =
                Host::start(workers, Slot(START), Arc::clone(&rules), Options::default()).unwrap();
            let log = run(&mut host, &stream, (START, end), batch, &mut rng);
            host.stop().unwrap();
            same(&log, &expected, &format!("seed {seed}, {workers} workers, batch {batch}"));
        }
    }
    let all =
        [Kind::Level, Kind::Surge, Kind::Micro, Kind::BlastCap, Kind::FlapHold, Kind::FrozenLong];
    assert!(all.iter().all(|k| kinds.contains(k)), "only {kinds:?} occurred");
}

/// Partitions go absent and come back, rooms are rebased, on any number of workers.
#[test]
fn absences_and_rebases_hold_from_their_slot() {
    for seed in 100..106 {
        let mut rng = Rng(seed);
        let rules = Arc::new(low(&mut rng));
        let stream = stream(&mut rng, 1_600);
        let absences: Vec<(u64, u32)> =
            (1..6).map(|i| (START + i * 250 + rng.below(90), 1 << rng.below(8))).collect();
        let rebase = (START + 700 + rng.below(500), format!("a{}", rng.below(12)));
        let mask = |slot| absences.iter().find(|(at, _)| *at == slot).map(|(_, mask)| *mask);
        let mut oracle = Oracle::new(START, &rules);
        let mut expected = Log::new();
        for slot in START..=stream.end {
            oracle.absent = mask(slot).unwrap_or(oracle.absent);
            if slot == rebase.0 {
                oracle.rebase(&rebase.1);
            }
            expected.extend(oracle.close(&stream.all(slot)));
        }
        for workers in 1..=3 {
            let mut host =
                Host::start(workers, Slot(START), Arc::clone(&rules), Options::default()).unwrap();
            for (at, mask) in &absences {
                host.absent(Slot(*at), *mask).unwrap();
            }
            host.rebase(Slot(rebase.0), &rebase.1).unwrap();
            let log = run(&mut host, &stream, (START, stream.end), 0, &mut rng);
            host.stop().unwrap();
            same(&log, &expected, &format!("seed {seed}, {workers} workers"));
        }
    }
}

/// Equal byte for byte, or the first difference is shown.
pub(crate) fn same(log: &Log, expected: &Log, what: &str) {
    let (log, expected) = (bytes(log), bytes(expected));
    let differ = log.iter().zip(&expected).position(|(a, b)| a != b);
    if let Some(i) = differ {
        panic!("{what}: decision {i} differs\n got {}\nwant {}", log[i], expected[i]);
    }
    assert_eq!(log.len(), expected.len(), "{what}: number of decisions");
}
