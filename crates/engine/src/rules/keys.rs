//! Every setting of a rule: its name, unit and range. What is parsed, overridden per group, printed and documented
//! follows this one table, so that none of them can forget a setting.

use super::{Burst, Fast, Ladder, Measure, Micro, Rate, StepTo, Surge, Trigger};
use crate::fixed::{Fixed, ONE};
use barrage_protocol::ids::Level;

/// What a setting's number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A ratio or multiple: a decimal with at most six places.
    Ratio,
    /// Events per second: a decimal with at most six places.
    PerSecond,
    /// A whole number of events, rooms, moves, messages.
    Events,
    /// A whole number of slots in a row.
    Ticks,
    /// A time in whole slots, written as `"10s"`.
    Time,
    /// A time in whole milliseconds, written as `"100ms"`.
    Millis,
}

impl Unit {
    /// Name of the unit, for tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ratio => "ratio",
            Self::PerSecond => "events/s",
            Self::Events => "number",
            Self::Ticks => "slots in a row",
            Self::Time => "time in whole slots",
            Self::Millis => "time",
        }
    }
}

/// One numeric setting of a kind of rule.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Name, as written in `trigger`, `hold` and, behind the kind and a dot, in a group's `set`.
    pub key: &'static str,
    /// Table of the rule in which it stands.
    pub table: &'static str,
    /// Unit.
    pub unit: Unit,
    /// Least value (millionths; times in slots).
    pub min: Fixed,
    /// Greatest value.
    pub max: Fixed,
}

const fn setting(
    table: &'static str,
    key: &'static str,
    unit: Unit,
    min: Fixed,
    max: Fixed,
) -> Setting {
    Setting { key, table, unit, min, max }
}

const fn ratio(key: &'static str, min_milli: i64, max: i64) -> Setting {
    setting("trigger", key, Unit::Ratio, Fixed::milli(min_milli), Fixed::int(max))
}

const fn rate(key: &'static str, min_milli: i64) -> Setting {
    setting("trigger", key, Unit::PerSecond, Fixed::milli(min_milli), Fixed::int(1_000_000_000))
}

const fn events(key: &'static str, min: i64) -> Setting {
    setting("trigger", key, Unit::Events, Fixed::int(min), Fixed::int(1_000_000_000))
}

const fn life(max: i64) -> Setting {
    setting("trigger", "min_life", Unit::Time, Fixed::int(0), Fixed::int(max))
}

const fn time(table: &'static str, key: &'static str, min: i64, max: i64) -> Setting {
    setting(table, key, Unit::Time, Fixed::int(min), Fixed::int(max))
}

const ENTER: Setting =
    setting("hold", "enter_ticks", Unit::Ticks, Fixed::int(1), Fixed::int(6_000));
const EXIT: Setting = setting("hold", "exit_ticks", Unit::Ticks, Fixed::int(1), Fixed::int(36_000));

/// Settings of a burst rule.
pub const BURST: &[Setting] = &[
    ratio("ratio_exit", 0, 1_000),
    ratio("count_exit_share", 0, 1),
    events("min_count_60s", 0),
    ratio("z", 0, 100),
    ratio("dispersion", 100, 100),
    rate("baseline_floor", 1),
    ENTER,
    EXIT,
];
/// Settings of a fast rule.
pub const FAST: &[Setting] = &[
    ratio("ratio", 1_000, 1_000),
    events("min_count_1s", 0),
    rate("baseline_floor", 1),
    ratio("ratio_exit", 0, 1_000),
    rate("rate_exit", 0),
    ENTER,
    EXIT,
];
/// Settings of a rate rule, beside its window and class.
pub const RATE: &[Setting] = &[rate("enter", 0), rate("exit", 0), ENTER, EXIT];
/// Settings of a surge rule.
pub const SURGE: &[Setting] = &[events("c", 1), life(36_000), EXIT];
/// Settings of a micro-burst rule.
pub const MICRO: &[Setting] = &[ratio("ratio", 1_000, 1_000), rate("min_rate", 0), life(700), EXIT];

/// Settings of the ladder and its guards.
pub const LADDER: &[Setting] = &[
    time("ladder", "min_dwell", 0, 36_000),
    time("ladder", "step_every", 1, 36_000),
    setting("ladder", "max_moves_per_10m", Unit::Events, Fixed::int(1), Fixed::int(1_000)),
    setting("ladder.blast", "min", Unit::Events, Fixed::int(0), Fixed::int(1_000_000)),
    setting("ladder.blast", "max_share", Unit::Ratio, Fixed::int(0), Fixed::int(1)),
    time("ladder.blast", "within", 1, 36_000),
    setting("ladder.blast", "lift_ratio", Unit::Ratio, Fixed::int(1), Fixed::int(1_000)),
    time("ladder.frozen", "max", 10, 864_000),
    time("ladder.frozen", "alarm", 10, 864_000),
];
/// Settings of a class at a level, beside `top_only`.
pub const MEASURE: &[Setting] = &[
    setting("levels", "admit", Unit::Ratio, Fixed::int(0), Fixed::int(1)),
    setting("levels", "delay", Unit::Millis, Fixed::int(1), Fixed::int(60_000)),
    setting("levels", "buffer", Unit::Events, Fixed::int(1), Fixed::int(1_000_000)),
    setting("levels", "ttl", Unit::Millis, Fixed::int(1), Fixed::int(600_000)),
];
/// Settings of a group's shape.
pub const SHAPE: &[Setting] = &[
    setting("shape", "capacity", Unit::Events, Fixed::int(1), Fixed::int(10_000_000)),
    setting("shape", "max_wait", Unit::Millis, Fixed::int(1), Fixed::int(60_000)),
    setting("shape", "drain_qps", Unit::Events, Fixed::int(1), Fixed::int(1_000_000_000)),
];
/// Most switches of the plan.
pub const MAX_PLAN: usize = 64;
/// Switches that a level turns off.
pub const OFF: Setting =
    setting("levels", "off", Unit::Events, Fixed::int(0), Fixed::int(MAX_PLAN as i64));

/// Kinds of rule that this version decides.
pub const KINDS: [&str; 5] = ["burst", "fast", "rate", "surge", "micro"];
/// Kinds of rule that belong to the language but are not decided by this version: noted, not evaluated.
pub const LATER_KINDS: [&str; 8] =
    ["breaker", "limit", "threshold", "shape", "site", "user", "health", "schedule"];

/// The settings of a kind; none for a kind that this version does not decide.
#[must_use]
pub fn settings(kind: &str) -> &'static [Setting] {
    match kind {
        "burst" => BURST,
        "fast" => FAST,
        "rate" => RATE,
        "surge" => SURGE,
        "micro" => MICRO,
        _ => &[],
    }
}

/// Name and range of a step's threshold for the kinds whose steps have one.
#[must_use]
pub fn step_threshold(kind: &str) -> Option<Setting> {
    match kind {
        "burst" => Some(ratio("ratio", 0, 1_000)),
        "rate" => Some(rate("enter", 0)),
        _ => None,
    }
}

impl Trigger {
    /// Name of the kind, as written in a rule.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Burst(_) => "burst",
            Self::Fast(_) => "fast",
            Self::Rate(_) => "rate",
            Self::Surge(_) => "surge",
            Self::Micro(_) => "micro",
        }
    }

    /// The steps, for the kinds that have thresholds per level.
    #[must_use]
    pub fn steps(&self) -> &[StepTo] {
        match self {
            Self::Burst(Burst { steps, .. }) | Self::Rate(Rate { steps, .. }) => steps,
            _ => &[],
        }
    }

    /// The steps, to change them.
    pub(super) fn steps_mut(&mut self) -> Option<&mut Vec<StepTo>> {
        match self {
            Self::Burst(Burst { steps, .. }) | Self::Rate(Rate { steps, .. }) => Some(steps),
            _ => None,
        }
    }

    /// The value of a setting (times in slots), if this kind has it. `enter` of a rate rule is its lowest step's.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Fixed> {
        let n = |n: u32| Some(Fixed::int(i64::from(n)));
        let t = |n: u64| Some(Fixed::int(i64::try_from(n).unwrap_or(i64::MAX / ONE)));
        match self {
            Self::Burst(b) => match key {
                "ratio_exit" => Some(b.ratio_exit),
                "count_exit_share" => Some(b.count_exit_share),
                "min_count_60s" => n(b.min_count_60s),
                "z" => Some(b.z),
                "dispersion" => Some(b.dispersion),
                "baseline_floor" => Some(b.baseline_floor),
                "enter_ticks" => n(b.enter_ticks),
                "exit_ticks" => n(b.exit_ticks),
                _ => None,
            },
            Self::Fast(f) => match key {
                "ratio" => Some(f.ratio),
                "min_count_1s" => n(f.min_count_1s),
                "baseline_floor" => Some(f.baseline_floor),
                "ratio_exit" => Some(f.ratio_exit),
                "rate_exit" => Some(f.rate_exit),
                "enter_ticks" => n(f.enter_ticks),
                "exit_ticks" => n(f.exit_ticks),
                _ => None,
            },
            Self::Rate(r) => match key {
                "enter" => r.steps.iter().map(|s| s.above).min(),
                "exit" => Some(r.exit),
                "enter_ticks" => n(r.enter_ticks),
                "exit_ticks" => n(r.exit_ticks),
                _ => None,
            },
            Self::Surge(s) => match key {
                "c" => n(s.c),
                "min_life" => t(s.min_life),
                "exit_ticks" => n(s.exit_ticks),
                _ => None,
            },
            Self::Micro(m) => match key {
                "ratio" => Some(m.ratio),
                "min_rate" => Some(m.min_rate),
                "min_life" => t(m.min_life),
                "exit_ticks" => n(m.exit_ticks),
                _ => None,
            },
        }
    }

    /// Puts a value that lies in the setting's range; `steps.N` is the threshold of the step to level N, which is
    /// added where the rule has none. Whether the kind has that setting.
    pub(super) fn put(&mut self, key: &str, v: Fixed) -> bool {
        if let Some(level) = key.strip_prefix("steps.").and_then(|n| n.parse().ok()) {
            return self.put_step(Level(level), v);
        }
        let n = u32::try_from(v.0 / ONE).unwrap_or(0);
        let done = match self {
            Self::Burst(b) => put_burst(b, key, v, n),
            Self::Fast(f) => put_fast(f, key, v, n),
            Self::Rate(r) => put_rate(r, key, v, n),
            Self::Surge(s) => put_surge(s, key, n),
            Self::Micro(m) => put_micro(m, key, v, n),
        };
        done.is_some()
    }

    fn put_step(&mut self, level: Level, above: Fixed) -> bool {
        let Some(steps) = self.steps_mut() else { return false };
        match steps.iter_mut().find(|s| s.level == level) {
            Some(step) => step.above = above,
            None => steps.push(StepTo { level, above }),
        }
        steps.sort();
        true
    }
}

fn put_burst(b: &mut Burst, key: &str, v: Fixed, n: u32) -> Option<()> {
    match key {
        "ratio_exit" => b.ratio_exit = v,
        "count_exit_share" => b.count_exit_share = v,
        "min_count_60s" => b.min_count_60s = n,
        "z" => b.z = v,
        "dispersion" => b.dispersion = v,
        "baseline_floor" => b.baseline_floor = v,
        "enter_ticks" => b.enter_ticks = n,
        "exit_ticks" => b.exit_ticks = n,
        _ => return None,
    }
    Some(())
}

fn put_fast(f: &mut Fast, key: &str, v: Fixed, n: u32) -> Option<()> {
    match key {
        "ratio" => f.ratio = v,
        "min_count_1s" => f.min_count_1s = n,
        "baseline_floor" => (f.baseline_floor, f.exit_as_burst) = (v, false),
        "ratio_exit" => (f.ratio_exit, f.exit_as_burst) = (v, false),
        "rate_exit" => (f.rate_exit, f.exit_as_burst) = (v, false),
        "enter_ticks" => f.enter_ticks = n,
        "exit_ticks" => f.exit_ticks = n,
        _ => return None,
    }
    Some(())
}

fn put_rate(r: &mut Rate, key: &str, v: Fixed, n: u32) -> Option<()> {
    match key {
        // One threshold says nothing about several steps; the reader of the text refuses it there.
        "enter" => r.steps.iter_mut().for_each(|s| s.above = v),
        "exit" => r.exit = v,
        "enter_ticks" => r.enter_ticks = n,
        "exit_ticks" => r.exit_ticks = n,
        _ => return None,
    }
    Some(())
}

fn put_surge(s: &mut Surge, key: &str, n: u32) -> Option<()> {
    match key {
        "c" => s.c = n,
        "min_life" => s.min_life = u64::from(n),
        "exit_ticks" => s.exit_ticks = n,
        _ => return None,
    }
    Some(())
}

fn put_micro(m: &mut Micro, key: &str, v: Fixed, n: u32) -> Option<()> {
    match key {
        "ratio" => m.ratio = v,
        "min_rate" => m.min_rate = v,
        "min_life" => m.min_life = u64::from(n),
        "exit_ticks" => m.exit_ticks = n,
        _ => return None,
    }
    Some(())
}

impl Ladder {
    /// The value of one of [`LADDER`]'s settings (times in slots).
    #[must_use]
    pub fn get(&self, table: &str, key: &str) -> Option<Fixed> {
        let n = |n: u64| Some(Fixed::int(i64::try_from(n).unwrap_or(i64::MAX / ONE)));
        match (table, key) {
            ("ladder", "min_dwell") => n(self.min_dwell),
            ("ladder", "step_every") => n(self.step_every),
            ("ladder", "max_moves_per_10m") => n(u64::from(self.max_moves)),
            ("ladder.blast", "min") => n(u64::from(self.blast_min)),
            ("ladder.blast", "max_share") => Some(self.blast_max_share),
            ("ladder.blast", "within") => n(self.blast_within),
            ("ladder.blast", "lift_ratio") => Some(self.blast_lift_ratio),
            ("ladder.frozen", "max") => n(self.frozen_max),
            ("ladder.frozen", "alarm") => n(self.frozen_alarm),
            _ => None,
        }
    }

    /// Puts a value that lies in the setting's range.
    pub(super) fn put(&mut self, table: &str, key: &str, v: Fixed) {
        let n = u64::try_from(v.0 / ONE).unwrap_or(0);
        let n32 = u32::try_from(n).unwrap_or(u32::MAX);
        match (table, key) {
            ("ladder", "min_dwell") => self.min_dwell = n,
            ("ladder", "step_every") => self.step_every = n,
            ("ladder", "max_moves_per_10m") => self.max_moves = n32,
            ("ladder.blast", "min") => self.blast_min = n32,
            ("ladder.blast", "max_share") => self.blast_max_share = v,
            ("ladder.blast", "within") => self.blast_within = n,
            ("ladder.blast", "lift_ratio") => self.blast_lift_ratio = v,
            ("ladder.frozen", "max") => self.frozen_max = n,
            ("ladder.frozen", "alarm") => self.frozen_alarm = n,
            _ => {}
        }
    }
}

impl Measure {
    /// The value of one of [`MEASURE`]'s settings, where it is set (times in milliseconds).
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Fixed> {
        let n = |n: Option<u32>| n.map(|n| Fixed::int(i64::from(n)));
        match key {
            "admit" => self.admit,
            "delay" => n(self.delay_ms),
            "buffer" => n(self.buffer),
            "ttl" => n(self.ttl_ms),
            _ => None,
        }
    }
}
