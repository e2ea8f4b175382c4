//! What every decision about a room is shown with: counts, window bounds, the baseline in force and its sums.

use super::baseline::{Frozen, InForce};
use super::exact::rate_milli;
use super::ladder::{Position, Wish};
use super::live::Live;
use super::{burst, fast, micro, rate, surge};
use crate::decision::{int, text};
use crate::features::{Features, Source, W1, W10, W60, W70};
use crate::rules::{Ladder, Rule, Trigger};
use barrage_protocol::decision::{Evidence, Value};
use barrage_protocol::ids::Slot;

/// Counts, window bounds and baseline. Windows end with `window_to`; each begins with its `…_from`, both included.
#[must_use]
pub(super) fn common(f: &Features, base: &InForce, frozen: Option<&Frozen>) -> Evidence {
    let mut e = Evidence::new();
    let mut put = |name: &str, value: Value| e.insert(name.to_owned(), value);
    put("window_to", int(f.slot.0));
    for (name, count, slots) in
        [("1s", f.count_1s, W1), ("10s", f.count_10s, W10), ("60s", f.count_60s, W60)]
    {
        put(&format!("count_{name}"), int(count));
        put(&format!("window_{name}_from"), int(f.slot.minus(slots - 1).0));
    }
    put("count_3s", int(f.count_3s));
    put("count_5s", int(f.count_5s));
    put("count_100ms", int(f.count));
    put("rate_10s", Value::milli(rate_milli(f.count_10s.into(), W10)));
    put("life_from", int(f.first.0));
    put("baseline", Value::milli(base.baseline.per_second_milli()));
    put("baseline_n", int(base.baseline.n));
    put("baseline_sum", int(base.baseline.sum));
    put("baseline_sum_of_squares", int(base.baseline.sumsq));
    put("baseline_source", text(source_name(base.source)));
    // The sliding window's bounds are known; those of a baseline kept over a hole are those of the last event before it.
    let (origin, at) = match frozen {
        Some(frozen) if base.source == Source::Frozen => {
            put("baseline_frozen_at", int(frozen.since.0));
            put("baseline_frozen_from", text(source_name(frozen.origin)));
            (frozen.origin, frozen.since)
        }
        _ => (base.source, f.slot),
    };
    if origin == Source::Window {
        put("baseline_from", int(at.minus(W70 - 1).0.max(f.first.0)));
        put("baseline_to", int(at.minus(W10).0));
    }
    e
}

fn source_name(source: Source) -> &'static str {
    match source {
        Source::Window => "window",
        Source::Hole => "hole",
        Source::Frozen => "frozen",
    }
}

/// The thresholds of one rule, and what it alone compares.
pub(super) fn rule(rule: &Rule, f: &Features, base: &InForce, e: &mut Evidence) {
    match &rule.trigger {
        Trigger::Burst(r) => burst::evidence(r, f, base, e),
        Trigger::Fast(r) => fast::evidence(r, f, base, e),
        Trigger::Rate(r) => rate::evidence(r, f, e),
        Trigger::Surge(r) => surge::evidence(r, f, e),
        Trigger::Micro(r) => micro::evidence(r, f, e),
    }
}

/// Since when a rule is in, and its ticks in a row.
pub(super) fn live(live: &Live, e: &mut Evidence) {
    let mut put = |name: &str, value: Value| e.insert(name.to_owned(), value);
    if let Some(since) = live.since {
        put("rule_in_since", int(since.0));
    }
    put("last_entering_slot", int(live.last.0));
    put("ticks_leaving", int(live.leaving));
}

/// Where the ladder stands and what it compared.
pub(super) fn ladder(at: &Position, ladder: &Ladder, slot: Slot, wish: Wish, e: &mut Evidence) {
    let mut put = |name: &str, value: Value| e.insert(name.to_owned(), value);
    put("level_asked", int(wish.asks.0));
    put("level_held", int(wish.holds.0));
    put("level_since", int(at.since.0));
    put("level_stood", int(slot.0.saturating_sub(at.since.0)));
    put("min_dwell", int(ladder.min_dwell));
    put("step_every", int(ladder.step_every));
    if let Some(d) = at.descended {
        put("last_descent", int(d.0));
    }
    put("moves", int(at.moves_in(slot, ladder)));
    put("max_moves", int(ladder.max_moves));
    put("moves_within", int(ladder.moves_within));
}
