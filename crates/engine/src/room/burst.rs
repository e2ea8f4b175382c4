//! The burst rule (semantics §3): burst ratio over a step, enough events, and z.

use super::baseline::InForce;
use super::exact::{Excess, wide};
use super::live::Verdict;
use crate::decision::int;
use crate::features::Features;
use crate::fixed::{Fixed, ONE};
use crate::rules::{Burst, StepTo};
use barrage_protocol::decision::{Evidence, Value};
use barrage_protocol::ids::Level;

/// What the rule says about a slot.
#[must_use]
pub fn verdict(rule: &Burst, f: &Features, base: &InForce) -> Verdict {
    if !base.baseline.known() {
        return Verdict::Unknown;
    }
    let excess = Excess::new(f.count_10s, &base.baseline, rule.baseline_floor);
    let mut asks = Level::NORMAL;
    if f.count_60s > rule.min_count_60s {
        asks = highest(&rule.steps, |above| excess.ratio_cmp(above).is_gt());
        if asks > Level::NORMAL && !excess.z_above(rule.z, rule.dispersion) {
            asks = Level::NORMAL;
        }
    }
    let leaves = excess.ratio_cmp(rule.ratio_exit).is_lt() || too_few(rule, f);
    Verdict::Known { asks, leaves }
}

/// The highest level among the steps whose threshold is exceeded.
pub(super) fn highest(steps: &[StepTo], exceeded: impl Fn(Fixed) -> bool) -> Level {
    steps.iter().filter(|s| exceeded(s.above)).map(|s| s.level).max().unwrap_or_default()
}

/// `rate_10s < share × min_count_60s / 60`, as 6·count_10s·10^6 < share_millionths·min.
fn too_few(rule: &Burst, f: &Features) -> bool {
    wide(f.count_10s.into(), 6 * ONE) < wide(rule.count_exit_share.0, rule.min_count_60s.into())
}

/// Every threshold of the rule, and z.
pub fn evidence(rule: &Burst, f: &Features, base: &InForce, e: &mut Evidence) {
    let excess = Excess::new(f.count_10s, &base.baseline, rule.baseline_floor);
    let mut put = |name: &str, value: Value| e.insert(name.to_owned(), value);
    put("burst_ratio", Value::milli(excess.ratio_milli()));
    put("sigma_squared", Value::milli(excess.sigma_squared_milli()));
    if let Some(z) = excess.z_milli(rule.dispersion) {
        put("z", Value::milli(z));
    }
    for step in &rule.steps {
        put(&format!("ratio_level_{}", step.level.0), Value::milli(step.above.to_milli()));
    }
    put("min_count_60s", int(rule.min_count_60s));
    put("z_above", Value::milli(rule.z.to_milli()));
    put("z_dispersion", Value::milli(rule.dispersion.to_milli()));
    put("baseline_floor", Value::milli(rule.baseline_floor.to_milli()));
    put("ratio_exit", Value::milli(rule.ratio_exit.to_milli()));
    put("count_exit_share", Value::milli(rule.count_exit_share.to_milli()));
    put("enter_ticks", int(rule.enter_ticks));
    put("exit_ticks", int(rule.exit_ticks));
}

/// The 10 s rate, in thousandths per second, above which the next level after `level` could be asked for.
#[must_use]
pub fn next_rate(rule: &Burst, base: &InForce, level: Level) -> Option<i64> {
    let step = rule.steps.iter().filter(|s| s.level > level).min_by_key(|s| s.level)?;
    let base_milli = i128::from(base.baseline.per_second_milli());
    let floored = base_milli.max(i128::from(rule.baseline_floor.to_milli()));
    let by_ratio = base_milli + i128::from(step.above.0) * floored / i128::from(ONE);
    // Sixty seconds at this rate are what `min_count_60s` asks for.
    let by_count = i128::from(rule.min_count_60s) * 1_000 / 60;
    i64::try_from(by_ratio.max(by_count)).ok()
}

#[cfg(test)]
mod tests {
    //! The rule against its formulas written with fractions.
    use super::*;
    use crate::features::{Baseline, Source};

    fn rule() -> Burst {
        Burst {
            steps: vec![StepTo { level: Level(1), above: Fixed::int(2) }],
            min_count_60s: 1_500,
            z: Fixed::int(4),
            dispersion: Fixed::milli(1_600),
            baseline_floor: Fixed::int(1),
            ratio_exit: Fixed::milli(800),
            count_exit_share: Fixed::milli(800),
            enter_ticks: 1,
            exit_ticks: 100,
        }
    }

    #[test]
    fn unknown_in_warm_up() {
        let base =
            InForce { baseline: Baseline { n: 299, sum: 1, sumsq: 1 }, source: Source::Window };
        assert_eq!(verdict(&rule(), &Features::default(), &base), Verdict::Unknown);
    }

    #[test]
    fn leaves_below_the_ratio_or_below_the_count() {
        let base = |sum| InForce {
            baseline: Baseline { n: 600, sum, sumsq: sum },
            source: Source::Window,
        };
        let at = |count_10s, sum| {
            let f = Features { count_10s, count_60s: 5_000, ..Features::default() };
            verdict(&rule(), &f, &base(sum))
        };
        let known = |asks, leaves| Verdict::Known { asks: Level(asks), leaves };
        // 10/s; 18/s is a ratio of exactly 0.8, and 20/s are 0.8 × 1,500 / 60.
        assert_eq!(at(200, 600), known(0, false));
        assert_eq!(at(199, 600), known(0, true));
        assert_eq!(at(300, 600), known(0, false));
        assert_eq!(at(301, 600), known(1, false));
        // 120/s: 216/s is a ratio of exactly 0.8.
        assert_eq!(at(2_160, 7_200), known(0, false));
        assert_eq!(at(2_159, 7_200), known(0, true));
    }
}
