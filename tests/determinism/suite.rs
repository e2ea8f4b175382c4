//! One hash of the canonical decision log, for any interleaving, any batches, any number of workers.

use super::case::{Case, Random, Stored};
use super::run::{Log, Topics, follow, follower, lead, rules, settings};
use super::seeds;
use barrage::app::{Lead, Round};
use barrage_engine::control::Status;
use barrage_protocol::control::{Control, Entry};
use barrage_protocol::decision::Kind;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

/// Cases of the suite.
const CASES: u64 = 300;

/// Every kind of decision that exists.
const KINDS: [Kind; 6] =
    [Kind::Level, Kind::Surge, Kind::Micro, Kind::BlastCap, Kind::FlapHold, Kind::FrozenLong];

#[test]
fn one_hash_for_any_interleaving_batch_and_number_of_workers() {
    let mut kinds = BTreeSet::new();
    let mut decisions = 0;
    let seeds = seeds(CASES);
    for &seed in &seeds {
        let case = Case::new(seed);
        let led = lead(&case, 1 + (seed % 3) as usize, &[], case.end);
        assert_input(&case, &led.late, &led.log, &led.statuses);
        let mut random = Random(seed);
        for _ in 0..2 {
            let workers = random.within(1, 5) as usize;
            let batch = [1, 7, 1024][random.within(0, 3) as usize];
            let line = follower(&case, random.next(), workers, batch);
            let (log, hash, late) = follow(&case, line, &led.log.entries);
            let what = format!("seed {seed}, {workers} workers, batches of {batch}");
            assert_eq!(hash, led.hash, "{what}");
            assert_eq!(late, led.late, "{what}");
            assert_eq!(log.lines, led.log.lines, "{what}");
        }
        decisions += led.log.lines.len();
        kinds.extend(led.log.kinds);
    }
    println!("{} cases, {decisions} decisions, kinds {kinds:?}", seeds.len());
    if seeds.len() as u64 == CASES {
        assert_eq!(kinds, BTreeSet::from(KINDS), "every kind of decision must be among them");
    }
}

/// Each case's input holds what it is there for.
fn assert_input(
    case: &Case,
    late: &std::collections::BTreeMap<u32, u64>,
    log: &Log,
    statuses: &[(u32, Status)],
) {
    let seed = case.seed;
    assert!(late.values().sum::<u64>() > 0, "seed {seed}: no late event");
    let of = |p: u32| statuses.iter().filter(move |s| s.0 == p).map(|s| s.1);
    let silent: Vec<_> = of(case.silence.0).skip_while(|s| *s != Status::Idle).take(2).collect();
    assert_eq!(silent, [Status::Idle, Status::Active], "seed {seed}: falls idle, and wakes");
    let steps = log.entries.iter().filter_map(|e| match e {
        Entry::Step(step) => Some(step),
        Entry::Lead { .. } => None,
    });
    let records: Vec<_> = steps.flat_map(|s| s.records.iter().map(|r| &r.control)).collect();
    let has = |f: &dyn Fn(&Control) -> bool| records.iter().any(|c| f(c));
    let partition = case.outage.0;
    assert!(has(&|c| *c == Control::Absent { partition }), "seed {seed}: absent");
    assert!(has(&|c| *c == Control::Back { partition }), "seed {seed}: back");
    let activations = records.iter().filter(|c| matches!(c, Control::Rules { .. })).count();
    assert_eq!(activations, 2, "seed {seed}: rules at the start, and new ones");
    assert!(!log.lines.is_empty(), "seed {seed}: nothing decided");
}

/// The contrast: one watermark over all partitions depends on the order in which they are read, and so do the
/// decisions. If this did not fail the test above, the test above would prove nothing.
#[test]
fn a_global_watermark_does_not_have_one_hash() {
    let mut differ = 0;
    let seeds = seeds(12);
    for &seed in &seeds {
        let mut case = Case::new(seed);
        case.outage = (0, 0, 0);
        let hashes: BTreeSet<String> =
            (0..3).map(|order| merged(&case, seed.wrapping_mul(31) + order)).collect();
        differ += usize::from(hashes.len() > 1);
    }
    println!("a global watermark: {differ} of {} cases depend on the interleaving", seeds.len());
    assert!(differ * 2 > seeds.len(), "{differ} of {} cases differ", seeds.len());
}

/// All partitions merged into one, as one reader happened to interleave them (each keeps its own order), and decided.
fn merged(case: &Case, order: u64) -> String {
    let mut random = Random(order);
    let mut queues: Vec<std::collections::VecDeque<Stored>> =
        case.partitions.iter().map(|log| log.iter().cloned().collect()).collect();
    let mut one = Vec::new();
    while queues.iter().any(|q| !q.is_empty()) {
        // The reader takes a fetch of one partition at a time, up to a second ahead of the slowest.
        let heads = queues.iter().filter_map(|q| q.front().map(|s| s.append_ms));
        let least = heads.min().unwrap_or(0);
        let p = random.within(0, queues.len() as i64) as usize;
        for _ in 0..random.within(1, 30) {
            let Some(head) = queues[p].front() else { break };
            if head.append_ms > least + 1_000 {
                break;
            }
            one.extend(queues[p].pop_front());
        }
    }
    let merged = Case { partitions: vec![one], ..Case::new(case.seed) };
    let topics = Topics::new(&merged);
    topics.now.store(i64::MAX, Ordering::Relaxed);
    let mut log = Log::default();
    let sources = topics.sources_at_end();
    let mut line =
        Lead::new(settings(1, 256), rules(case, false), sources, 0, &mut log).expect("a leader");
    while line.round(0, &mut log).expect("a round") == Round::Busy {}
    let hash = line.hash();
    line.stop().expect("the workers end");
    hash
}
