//! The micro-burst rule (semantics §3): one slot against the second before it.

use super::exact::{rate_cmp, rate_milli, wide};
use super::live::Verdict;
use crate::decision::int;
use crate::features::{Features, W1};
use crate::fixed::ONE;
use crate::rules::Micro;
use barrage_protocol::decision::{Evidence, Value};
use barrage_protocol::ids::Level;

/// Whether the slot enters: `rate_100ms > min_rate` and `> ratio ×` the mean of the second before, which must be of
/// the room's life. 10·count against ratio·before, as count·10·10^6 > ratio_millionths·before.
#[must_use]
pub fn enters(rule: &Micro, f: &Features) -> bool {
    let count = wide(f.count.into(), 10 * ONE);
    f.slot.0.saturating_sub(f.first.0) >= rule.min_life
        && rate_cmp(f.count.into(), 1, rule.min_rate).is_gt()
        && count > wide(rule.ratio.0, f.before_1s.into())
}

/// What the rule says about a slot; leaving is not entering.
#[must_use]
pub fn verdict(rule: &Micro, f: &Features) -> Verdict {
    let on = enters(rule, f);
    Verdict::Known { asks: Level(u8::from(on)), leaves: !on }
}

/// What was compared.
pub fn evidence(rule: &Micro, f: &Features, e: &mut Evidence) {
    let mut put = |name: &str, value: Value| e.insert(name.to_owned(), value);
    put("rate_100ms", Value::milli(rate_milli(f.count.into(), 1)));
    put("count_1s_before", int(f.before_1s));
    put("rate_1s_before", Value::milli(rate_milli(f.before_1s.into(), W1)));
    put("times_second_before", Value::milli(rule.ratio.to_milli()));
    put("rate_100ms_above", Value::milli(rule.min_rate.to_milli()));
    put("life_slots", int(f.slot.0.saturating_sub(f.first.0)));
    put("life_slots_enough", int(rule.min_life));
    put("exit_ticks", int(rule.exit_ticks));
}
