//! Whether any rule could enter: a cheap question, asked of rooms that have nothing to remember. Where the answer is
//! no, a step of such a room changes nothing and says nothing, and may be left out.

use super::exact::{Excess, rate_cmp, second_above};
use super::live::Verdict;
use super::{State, verdict};
use crate::features::Features;
use crate::fixed::Fixed;
use crate::rules::{Burst, Config, Fast, Rate, Rule, Trigger, Window};
use crate::windows::Glance;
use barrage_protocol::ids::Level;

/// The rules that ask for a level or enter in this slot, of a room without a memory: bit i is rule i of `config`,
/// rules beyond the 32nd left out.
#[must_use]
pub fn entering(config: &Config, f: &Features) -> u32 {
    let base = State::default().in_force(f);
    let asks = |rule: &Rule| matches!(verdict(&rule.trigger, f, &base), Verdict::Known { asks, .. } if asks > Level::NORMAL);
    (0..32).zip(&config.rules).filter(|(_, rule)| asks(rule)).fold(0, |bits, (i, _)| bits | 1 << i)
}

/// False only if no rule of `config` enters with these numbers.
#[must_use]
pub fn may_enter(config: &Config, glance: &Glance) -> bool {
    let may = |rule: &Rule| match &rule.trigger {
        Trigger::Burst(r) => burst(r, glance),
        Trigger::Fast(r) => fast(r, glance),
        Trigger::Rate(r) => rate(r, glance),
        Trigger::Surge(_) => glance.rising,
        Trigger::Micro(r) => rate_cmp(glance.count.into(), 1, r.min_rate).is_gt(),
    };
    config.rules.iter().any(may)
}

/// Without z, which is dear and refuses little that the ratio has not refused.
fn burst(rule: &Burst, g: &Glance) -> bool {
    let excess = || Excess::new(g.count_10s, &g.baseline, rule.baseline_floor);
    g.baseline.known()
        && g.count_60s > rule.min_count_60s
        && least(&rule.steps).is_some_and(|above| excess().ratio_cmp(above).is_gt())
}

fn fast(rule: &Fast, g: &Glance) -> bool {
    g.baseline.known()
        && g.count_1s > rule.min_count_1s
        && second_above(g.count_1s, &g.baseline, rule.baseline_floor, rule.ratio)
}

/// With the events of all classes: of one class there are no more.
fn rate(rule: &Rate, g: &Glance) -> bool {
    let count = match rule.window {
        Window::S1 => g.count_1s,
        Window::S10 => g.count_10s,
        Window::S60 => g.count_60s,
    };
    let slots = rule.window.slots();
    least(&rule.steps).is_some_and(|above| rate_cmp(count.into(), slots, above).is_gt())
}

fn least(steps: &[crate::rules::StepTo]) -> Option<Fixed> {
    steps.iter().map(|s| s.above).min()
}

#[cfg(test)]
mod tests {
    //! The question against the step itself, on numbers about the thresholds of every rule.
    use super::*;
    use crate::features::Baseline;
    use crate::room::{Context, step};
    use crate::rules::RuleSet;
    use barrage_protocol::ids::{Class, Slot};
    use std::collections::BTreeSet;

    struct Rng(u64);

    impl Rng {
        fn below(&mut self, n: u64) -> u64 {
            self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            (z ^ (z >> 29)) % n
        }
    }

    /// Features with sums that fit each other, of a room somewhere between calm and flooded.
    fn draw(rng: &mut Rng) -> Features {
        let base = [0, 5, 120, 1_000, 1_900][rng.below(5) as usize];
        let times = [1, 1, 1, 2, 3, 5, 12][rng.below(7) as usize];
        let per_s = base * times + rng.below(base / 4 + 30);
        let n = [0, 299, 300, 600][rng.below(4) as usize];
        let sum = base * n / 10;
        let count_1s = (per_s * (1 + rng.below(3))) as u32;
        let count_10s = count_1s + (per_s * 9 * rng.below(2)) as u32;
        let count_60s = count_10s + (base * 50) as u32;
        let mut f = Features {
            slot: Slot(10_000),
            first: Slot(10_000 - 100 - n),
            last: Slot(10_000),
            count: count_1s / [1, 2, 10][rng.below(3) as usize],
            before_1s: (base + rng.below(20)) as u32,
            count_1s,
            count_3s: count_1s,
            count_5s: count_1s,
            count_10s,
            count_60s,
            seconds_of_5: rng.below(6) as u8,
            background: base * 10_000,
            baseline: Baseline { n: n as u16, sum, sumsq: sum * sum / n.max(1) + rng.below(100) },
            ..Features::default()
        };
        for (window, sum) in f.classes.iter_mut().zip([count_1s, count_10s, count_60s]) {
            window[Class::Chat as usize] = sum;
        }
        f
    }

    /// What [`crate::windows::Windows::glance`] says of the same room.
    fn seen(f: &Features, rising: bool) -> Glance {
        Glance {
            count: f.count,
            count_1s: f.count_1s,
            count_10s: f.count_10s,
            count_60s: f.count_60s,
            baseline: f.baseline,
            rising,
        }
    }

    #[test]
    fn a_room_that_may_not_enter_is_not_changed_by_a_step() {
        let all = RuleSet::shipped().configs().remove(0);
        for of in [None, Some(Class::Chat)] {
            // Each rule alone too, so that none hides behind another.
            let alone = all.rules.iter().map(|rule| vec![rule.clone()]);
            for rules in std::iter::once(all.rules.clone()).chain(alone) {
                let mut config = Config { rules, ..all.clone() };
                for rule in &mut config.rules {
                    if let Trigger::Rate(rate) = &mut rule.trigger {
                        rate.class = of;
                    }
                }
                let mut answers = BTreeSet::new();
                for seed in 0..4_000 {
                    let f = draw(&mut Rng(seed));
                    let mut state = State::default();
                    let outcome = step(&mut state, &config, "r", &f, &Context::default());
                    let moved = state != State::default()
                        || !outcome.decisions.is_empty()
                        || outcome.request.is_some();
                    let surges = config.rules.iter().any(|r| match &r.trigger {
                        Trigger::Surge(r) => crate::room::surge::enters(r, &f),
                        _ => false,
                    });
                    let may = may_enter(&config, &seen(&f, surges));
                    assert!(may || !moved, "seed {seed}: {f:?} moved {state:?}");
                    answers.insert((may, moved));
                }
                assert!(answers.contains(&(true, true)), "nothing entered: {:?}", config.rules);
                assert!(answers.contains(&(false, false)), "all might: {:?}", config.rules);
            }
        }
    }
}
