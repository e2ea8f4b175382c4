//! Tests of the floors: against the rules themselves, searched slowly over everything a room could have counted.

use super::*;
use crate::features::{Baseline, Features, Source};
use crate::room::baseline::InForce;
use crate::room::live::Verdict;
use crate::room::{burst, fast, micro, rate};
use barrage_protocol::ids::Slot;

/// Kind by kind, from the shipped rules: a kind that is not live lowers nothing.
#[test]
fn floors_follow_the_rules_that_are_live() {
    let default = RuleSet::shipped().configs().pop().expect("the default group");
    let of = |keep: &str| {
        let mut config = default.clone();
        config.rules.retain(|r| r.id == keep);
        Floors::of(&[config])
    };
    let none = u32::MAX;
    assert_eq!(of("burst"), Floors { count_60s: 1_500, count_100ms: none, surge_c: None });
    assert_eq!(of("fast"), Floors { count_60s: 800, count_100ms: none, surge_c: None });
    // More than 2,000/s over 10 s are at least 20,001 events in the last 60 s.
    assert_eq!(of("rate"), Floors { count_60s: 20_000, count_100ms: none, surge_c: None });
    assert_eq!(of("micro"), Floors { count_60s: none, count_100ms: 100, surge_c: None });
    assert_eq!(of("surge"), Floors { count_60s: none, count_100ms: none, surge_c: Some(8) });
    assert_eq!(of("-"), Floors { count_60s: none, count_100ms: none, surge_c: None });
}

/// Small generator with a seed that failures print (splitmix64).
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n.max(1)
    }

    fn fixed(&mut self, least: u64, most: u64) -> Fixed {
        let millionths = least * 1_000_000 + self.below((most - least) * 1_000_000);
        Fixed(i64::try_from(millionths).expect("small"))
    }

    fn small(&mut self, least: u64, most: u64) -> u32 {
        u32::try_from(least + self.below(most - least + 1)).expect("small")
    }
}

/// Whether some room with so many events in the last minute (or slot) could enter: tried with every split of the
/// minute between its newest second, the rest of the ten seconds and the rest, over several baselines.
fn could_enter(rule: &Trigger, count_60s: u32, slot: u32) -> bool {
    let known = |sum: u64| Baseline { n: 600, sum, sumsq: sum };
    let splits = |n: u32| [0, n / 3, n.saturating_sub(1), n];
    for base in [0, 1, 60, 600].map(known) {
        let base = InForce { baseline: base, source: Source::Window };
        for count_10s in splits(count_60s) {
            for count_1s in splits(count_10s) {
                for before_1s in [0, slot / 10, slot] {
                    let f = Features {
                        slot: Slot(100_000),
                        first: Slot(0),
                        count: slot,
                        before_1s,
                        count_1s,
                        count_10s,
                        count_60s,
                        classes: [[count_1s; 6], [count_10s; 6], [count_60s; 6]],
                        ..Features::default()
                    };
                    let verdict = match rule {
                        Trigger::Burst(r) => burst::verdict(r, &f, &base),
                        Trigger::Fast(r) => fast::verdict(r, &f, &base),
                        Trigger::Rate(r) => rate::verdict(r, &f),
                        Trigger::Micro(r) => micro::verdict(r, &f),
                        Trigger::Surge(_) => Verdict::Unknown,
                    };
                    if matches!(verdict, Verdict::Known { asks, .. } if asks > Level::NORMAL) {
                        return true;
                    }
                }
            }
        }
    }
    false
}

/// Rules with figures drawn at random; of burst and fast such that their counts bind, not their ratios.
fn any_rule(rng: &mut Seeded, kind: usize) -> Trigger {
    let mut trigger = RuleSet::shipped().rules[kind].trigger.clone();
    match &mut trigger {
        Trigger::Burst(b) => {
            b.min_count_60s = rng.small(200, 3_000);
            b.steps = vec![StepTo { level: Level(1), above: rng.fixed(1, 4) }];
            b.z = rng.fixed(0, 5);
        }
        Trigger::Fast(f) => {
            f.min_count_1s = rng.small(20, 2_000);
            f.ratio = rng.fixed(1, 10);
        }
        Trigger::Rate(r) => {
            r.window = [Window::S1, Window::S10, Window::S60][rng.small(0, 2) as usize];
            r.class = [None, Some(Class::Gift)][rng.small(0, 1) as usize];
            let first = rng.fixed(0, 50);
            r.steps = vec![
                StepTo { level: Level(1), above: first },
                StepTo { level: Level(2), above: Fixed(first.0 + rng.fixed(1, 50).0) },
            ];
        }
        Trigger::Micro(m) => m.min_rate = rng.fixed(0, 3_000),
        Trigger::Surge(s) => s.c = rng.small(1, 50),
    }
    trigger
}

/// At its floor a rule cannot enter whatever else holds, and one event more could: so nothing is missed and nothing is
/// looked at for nothing. Of several rules the least counts.
#[test]
fn floors_are_the_greatest_counts_that_cannot_enter() {
    let template = RuleSet::shipped().configs().pop().expect("the default group");
    for seed in 0..400 {
        let mut rng = Seeded(seed);
        let mut config = Config { rules: Vec::new(), ..template.clone() };
        for kind in 0..RuleSet::shipped().rules.len() {
            let mut rule = RuleSet::shipped().rules[kind].clone();
            rule.trigger = any_rule(&mut rng, kind);
            let alone = Config { rules: vec![rule.clone()], ..template.clone() };
            let floors = Floors::of(&[alone]);
            let (count, slot) = (floors.count_60s, floors.count_100ms);
            match &rule.trigger {
                Trigger::Surge(s) => assert_eq!(floors.surge_c, Some(s.c), "seed {seed}"),
                Trigger::Micro(_) => {
                    assert!(!could_enter(&rule.trigger, 1, slot), "seed {seed}: {rule:?}");
                    assert!(could_enter(&rule.trigger, 1, slot + 1), "seed {seed}: {rule:?}");
                }
                _ => {
                    for less in [0, count / 7, count / 2, count.saturating_sub(1), count] {
                        assert!(
                            !could_enter(&rule.trigger, less, 0),
                            "seed {seed}: {less} {rule:?}"
                        );
                    }
                    assert!(could_enter(&rule.trigger, count + 1, 0), "seed {seed}: {rule:?}");
                }
            }
            config.rules.push(rule);
        }
        let least = Floors::of(std::slice::from_ref(&config));
        for rule in &config.rules {
            let below = [0, least.count_60s / 2, least.count_60s];
            let enters = |n: &u32| could_enter(&rule.trigger, *n, least.count_100ms);
            assert!(!below.iter().any(enters), "seed {seed}: {rule:?}");
        }
        let calm = Config { rules: Vec::new(), ..template.clone() };
        assert_eq!(Floors::of(&[calm, config]), least, "seed {seed}: of all groups together");
    }
}
