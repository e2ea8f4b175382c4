//! The rate rule (semantics §3): an absolute rate over a window, valid from a room's first slot.

use super::burst::highest;
use super::exact::{rate_cmp, rate_milli};
use super::live::Verdict;
use crate::decision::{int, text};
use crate::features::Features;
use crate::rules::{Rate, Window};
use barrage_protocol::decision::{Evidence, Value};
use barrage_protocol::ids::Level;

/// Events that the rule counts.
#[must_use]
pub fn count(rule: &Rate, f: &Features) -> u32 {
    match rule.class {
        Some(class) => {
            let window = match rule.window {
                Window::S1 => 0,
                Window::S10 => 1,
                Window::S60 => 2,
            };
            f.classes[window][class as usize]
        }
        None => match rule.window {
            Window::S1 => f.count_1s,
            Window::S10 => f.count_10s,
            Window::S60 => f.count_60s,
        },
    }
}

/// What the rule says about a slot.
#[must_use]
pub fn verdict(rule: &Rate, f: &Features) -> Verdict {
    let count = u64::from(count(rule, f));
    let slots = rule.window.slots();
    Verdict::Known {
        asks: highest(&rule.steps, |above| rate_cmp(count, slots, above).is_gt()),
        leaves: rate_cmp(count, slots, rule.exit).is_lt(),
    }
}

/// The count compared and every threshold of the rule.
pub fn evidence(rule: &Rate, f: &Features, e: &mut Evidence) {
    let counted = count(rule, f);
    let slots = rule.window.slots();
    let mut put = |name: &str, value: Value| e.insert(name.to_owned(), value);
    put("rate_count", int(counted));
    put("rate", Value::milli(rate_milli(counted.into(), slots)));
    put("rate_window_slots", int(slots));
    if let Some(class) = rule.class {
        put("rate_class", text(class.name()));
    }
    for step in &rule.steps {
        put(&format!("rate_level_{}", step.level.0), Value::milli(step.above.to_milli()));
    }
    put("rate_exit", Value::milli(rule.exit.to_milli()));
    put("enter_ticks", int(rule.enter_ticks));
    put("exit_ticks", int(rule.exit_ticks));
}

/// The 10 s rate, in thousandths per second, above which the next level after `level` could be asked for.
#[must_use]
pub fn next_rate(rule: &Rate, level: Level) -> Option<i64> {
    let whole_room = rule.class.is_none() && rule.window == Window::S10;
    let steps = rule.steps.iter().filter(|s| whole_room && s.level > level);
    steps.min_by_key(|s| s.level).map(|s| s.above.to_milli())
}
