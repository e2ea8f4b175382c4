//! The fast rule (semantics §3): a multiple of the baseline within the second.

use super::baseline::InForce;
use super::exact::{Excess, rate_cmp, second_above};
use super::live::Verdict;
use crate::decision::int;
use crate::features::{Features, W10};
use crate::rules::Fast;
use barrage_protocol::decision::{Evidence, Value};
use barrage_protocol::ids::Level;

/// What the rule says about a slot.
#[must_use]
pub fn verdict(rule: &Fast, f: &Features, base: &InForce) -> Verdict {
    if !base.baseline.known() {
        return Verdict::Unknown;
    }
    let enters = f.count_1s > rule.min_count_1s
        && second_above(f.count_1s, &base.baseline, rule.baseline_floor, rule.ratio);
    let excess = Excess::new(f.count_10s, &base.baseline, rule.baseline_floor);
    let leaves = excess.ratio_cmp(rule.ratio_exit).is_lt()
        || rate_cmp(f.count_10s.into(), W10, rule.rate_exit).is_lt();
    Verdict::Known { asks: if enters { rule.level } else { Level::NORMAL }, leaves }
}

/// Every threshold of the rule.
pub fn evidence(rule: &Fast, f: &Features, base: &InForce, e: &mut Evidence) {
    let excess = Excess::new(f.count_10s, &base.baseline, rule.baseline_floor);
    let mut put = |name: &str, value: Value| e.insert(name.to_owned(), value);
    put("burst_ratio", Value::milli(excess.ratio_milli()));
    put("times_baseline", Value::milli(rule.ratio.to_milli()));
    put("min_count_1s", int(rule.min_count_1s));
    put("fast_level", int(rule.level.0));
    put("baseline_floor", Value::milli(rule.baseline_floor.to_milli()));
    put("ratio_exit", Value::milli(rule.ratio_exit.to_milli()));
    put("rate_exit", Value::milli(rule.rate_exit.to_milli()));
    put("enter_ticks", int(rule.enter_ticks));
    put("exit_ticks", int(rule.exit_ticks));
}
