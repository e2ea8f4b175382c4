//! The surge rule (semantics §3): more than a room's own background should hold in 3 or 5 seconds.

use super::live::Verdict;
use crate::decision::int;
use crate::features::Features;
use crate::rules::Surge;
use barrage_protocol::decision::{Evidence, Value};
use barrage_protocol::ids::Level;

/// Of the last five seconds so many must hold an event: a poller's batch is no surge.
pub const SECONDS: u8 = 3;

/// `L = max(M, 1000)`: milli-events per 10 s that the room counts as holding at rest.
#[must_use]
pub fn rest(f: &Features) -> u64 {
    f.background.max(1_000)
}

/// Whether the slot enters: 2.2 × what 3 or 5 seconds should hold, plus c events.
#[must_use]
pub fn enters(rule: &Surge, f: &Features) -> bool {
    let (n3, n5, c) = (u64::from(f.count_3s), u64::from(f.count_5s), u64::from(rule.c));
    let l = rest(f);
    f.slot.0.saturating_sub(f.first.0) >= rule.min_life
        && f.seconds_of_5 >= SECONDS
        && (50_000 * n3 >= l.saturating_mul(33).saturating_add(50_000 * c)
            || 10_000 * n5 >= l.saturating_mul(11).saturating_add(10_000 * c))
}

/// What the rule says about a slot; leaving is not entering.
#[must_use]
pub fn verdict(rule: &Surge, f: &Features) -> Verdict {
    let hot = enters(rule, f);
    Verdict::Known { asks: Level(u8::from(hot)), leaves: !hot }
}

/// What was compared: counts, background, and the counts that would have been enough, rounded up.
pub fn evidence(rule: &Surge, f: &Features, e: &mut Evidence) {
    let (l, c) = (u128::from(rest(f)), u128::from(rule.c));
    let mut put = |name: &str, value: Value| e.insert(name.to_owned(), value);
    put("background_milli_per_10s", int(f.background));
    put("background_counted_milli", int(l));
    put("c", int(rule.c));
    put("count_3s_enough", int((33 * l + 50_000 * c).div_ceil(50_000)));
    put("count_5s_enough", int((11 * l + 10_000 * c).div_ceil(10_000)));
    put("seconds_of_5", int(f.seconds_of_5));
    put("seconds_of_5_enough", int(SECONDS));
    put("life_slots", int(f.slot.0.saturating_sub(f.first.0)));
    put("life_slots_enough", int(rule.min_life));
    put("exit_ticks", int(rule.exit_ticks));
}
