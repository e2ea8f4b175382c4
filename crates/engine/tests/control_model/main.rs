//! A random model of semantics §1 on the real state machines: three processes with pauses, crashes and take-overs, a
//! late joiner, unreadable partitions, silence, garbage, false clocks, changes of rules and of partitions, slow
//! writes. `BARRAGE_SEED=n` tells the story of one seed, `BARRAGE_SEEDS=n` runs more of them.
//!
//! The state machines are compiled into this test once more, because only under test can a rule be taken out.

#![allow(clippy::unwrap_used, reason = "a test")]

// The public interface is more than one test uses.
#[allow(dead_code, unused_imports, unreachable_pub)]
#[path = "../../src/control/mod.rs"]
mod control;
mod core;
mod process;
mod verdict;
mod world;

use control::Flaw;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use world::{Tally, Violation};

/// Runs seeds on two threads until one is found that breaks something.
fn search(seeds: u64, flaw: Option<Flaw>, tally: &Mutex<Tally>) -> Option<(u64, Violation)> {
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let found = Mutex::new(None);
    let run = || {
        while !stop.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                break;
            }
            let (violation, seen) = verdict::of(seed, flaw, false);
            tally.lock().unwrap().add(&seen);
            if let Some(violation) = violation {
                stop.store(true, Ordering::Relaxed);
                found.lock().unwrap().get_or_insert((seed, violation));
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(run);
        scope.spawn(run);
    });
    found.into_inner().unwrap()
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|n| n.parse().unwrap_or_else(|_| panic!("{name}={n} is no number")))
}

#[test]
fn no_schedule_breaks_a_rule() {
    if let Some(seed) = number("BARRAGE_SEED") {
        let (violation, _) = verdict::of(seed, None, true);
        assert_eq!(violation, None, "seed {seed}");
        return;
    }
    let seeds = number("BARRAGE_SEEDS").unwrap_or(5_000);
    let tally = Mutex::default();
    let found = search(seeds, None, &tally);
    let tally = tally.into_inner().unwrap();
    println!("{seeds} seeds: {tally}");
    if let Some((seed, violation)) = found {
        panic!("{violation:?}; BARRAGE_SEED={seed} tells the story");
    }
    tally.check(seeds);
}

/// Every rule that can be taken out, the seeds within which that must be found, and what it is called in the design.
const RULES: [(Flaw, u64, &str); 18] = [
    (Flaw::Finality, 500, "effects leave only after their step is written"),
    (Flaw::Done, 500, "`done` stands in the step"),
    (Flaw::CheckpointFinal, 500, "checkpoints are of final slots"),
    (Flaw::CheckpointDone, 500, "checkpoints wait until effects are out"),
    (Flaw::CheckpointClock, 500, "the watermark stands in the checkpoint"),
    (Flaw::FencedStays, 500, "a fenced leader ends"),
    (Flaw::ReadBeyond, 500, "followers read not beyond the step's offsets"),
    (Flaw::CloseEarly, 500, "followers read up to the step's offsets"),
    (Flaw::Reach, 500, "a new leader first reaches the last step"),
    (Flaw::Break, 500, "a new leader that cannot reach it breaks"),
    (Flaw::FenceLate, 500, "fence first, then read to the end"),
    (Flaw::Drop, 500, "readers drop what a lower epoch wrote"),
    (Flaw::Garbage, 500, "rejected records move the watermark"),
    (Flaw::ClockAllIdle, 500, "the clock runs when none is waited for and one is idle"),
    (Flaw::BackNeedsRecord, 500, "an absent partition is back without a record"),
    (Flaw::IdleAbsent, 500, "an idle partition becomes absent too"),
    (Flaw::Cut, 500, "the step ends before a woken partition is read"),
    (Flaw::Raise, 500, "steps raise the watermark"),
];

#[test]
fn each_rule_taken_out_is_found() {
    let mut missed = Vec::new();
    for (flaw, seeds, rule) in RULES {
        match search(seeds, Some(flaw), &Mutex::default()) {
            Some((seed, violation)) => {
                println!(
                    "without \"{rule}\": seed {seed}: {} ({})",
                    violation.kind, violation.detail
                );
            }
            None => missed.push(rule),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:#?}");
}
