//! Rule sets that change in mid-flight: from their slot on as if they were resolved from scratch.

use crate::oracle::Oracle;
use crate::random::{low, same, stream};
use crate::stream::{Log, Rng, START, run};
use barrage::worker::Host;
use barrage_dataflows::command::Options;
use barrage_engine::rules::{Matcher, RuleSet};
use barrage_protocol::ids::Slot;
use std::sync::Arc;

/// Another rule set: other thresholds, or other groups, or a rule gone.
fn other(rng: &mut Rng) -> RuleSet {
    let mut rules = low(rng);
    match rng.below(4) {
        0 => rules.groups.swap(0, 1),
        1 => rules.groups[0].matcher = Matcher::Exact("a1".to_owned()),
        2 => {
            rules.groups.remove(rng.below(2) as usize);
        }
        _ => {
            let at = rng.below(rules.rules.len() as u64) as usize;
            rules.rules.remove(at);
        }
    }
    rules
}

#[test]
fn a_change_holds_from_its_slot() {
    for seed in 400..410 {
        let mut rng = Rng(seed);
        let rules = Arc::new(low(&mut rng));
        let stream = stream(&mut rng, 1_800);
        let mut changes: Vec<(u64, Arc<RuleSet>)> =
            (0..5).map(|_| (START + rng.below(1_700), Arc::new(other(&mut rng)))).collect();
        changes.sort_by_key(|(at, _)| *at);
        // Two for one slot: the last one counts.
        changes.push((changes[4].0, Arc::new(other(&mut rng))));
        let mut oracle = Oracle::new(START, &rules);
        let mut expected = Log::new();
        for slot in START..=stream.end {
            if let Some((_, rules)) = changes.iter().rfind(|(at, _)| *at == slot) {
                oracle.put(rules);
            }
            expected.extend(oracle.close(&stream.all(slot)));
        }
        for workers in 1..=3 {
            let mut host =
                Host::start(workers, Slot(START), Arc::clone(&rules), Options::default()).unwrap();
            for (at, rules) in &changes {
                host.rules(Slot(*at), Arc::clone(rules)).unwrap();
            }
            let log = run(&mut host, &stream, (START, stream.end), 0, &mut rng);
            host.stop().unwrap();
            same(&log, &expected, &format!("seed {seed}, {workers} workers"));
        }
    }
}
