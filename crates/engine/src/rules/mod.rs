//! Rule sets as the engine uses them: validated, in slots and exact decimals, resolved per group.
//!
//! [`parse()`] reads the text that people write; [`RuleSet::configs`] is what holds for each group of rooms;
//! [`Floors::of`] says below which counts no live rule can enter. Every setting is described in docs/rules.md.

#[cfg(test)]
mod floors;
#[cfg(test)]
mod hostile;
pub mod keys;
pub mod parse;
mod resolve;
#[cfg(test)]
mod tests;
pub mod text;

pub use parse::{Problem, parse};
pub use resolve::resolve;

use crate::fixed::Fixed;
use barrage_protocol::ids::{Class, Level};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A whole rule set in force: immutable once made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RuleSet {
    /// blake3 of the text it was read from, hexadecimal.
    pub hash: String,
    /// The text it was read from.
    pub text: String,
    /// Settings of the ladder and its guards.
    pub ladder: Ladder,
    /// What each level does to each class, for the policies.
    pub levels: BTreeMap<Level, LevelPolicy>,
    /// The degrade plan: switches in the order in which they are turned off.
    pub plan: Vec<String>,
    /// Groups in order: the first whose matcher fits a room is the room's group. The last one fits every room.
    pub groups: Vec<Group>,
    /// Rules, ordered by id.
    pub rules: Vec<Rule>,
    /// What the text says that this version does not act on, a sentence each: to be told, never swallowed.
    pub notes: Vec<String>,
}

/// Ladder, flap guard, blast radius, frozen baselines (semantics §2, §4); times in slots.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ladder {
    /// A level stands at least this long before a descent.
    pub min_dwell: u64,
    /// Descents are at least this far apart.
    pub step_every: u64,
    /// A descent begins only if fewer moves than this lie in `moves_within`.
    pub max_moves: u32,
    /// Slots over which moves are counted (10 minutes).
    pub moves_within: u64,
    /// Transitions to level 2 and above that automation may always make within `blast_within`.
    pub blast_min: u32,
    /// Share of the rooms with `count_60s > 0` that it may make otherwise.
    pub blast_max_share: Fixed,
    /// Slots over which they are counted (60 s).
    pub blast_within: u64,
    /// The cap is lifted while the site's 10 s rate is at least this multiple of its own baseline.
    pub blast_lift_ratio: Fixed,
    /// A frozen baseline is let go after this many slots (2 h).
    pub frozen_max: u64,
    /// Alarm after this many slots frozen (15 min).
    pub frozen_alarm: u64,
}

/// What a level does to one class of ordinary users' messages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// Share admitted; none: all.
    pub admit: Option<Fixed>,
    /// Delay of admitted messages, in milliseconds.
    pub delay_ms: Option<u32>,
    /// Messages that may wait instead of being refused.
    pub buffer: Option<u32>,
    /// How long they may wait, in milliseconds.
    pub ttl_ms: Option<u32>,
    /// Only users named in the policy's `users.top` pass.
    pub top_only: bool,
}

/// What a level does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LevelPolicy {
    /// Measure per class; absent: admitted.
    pub classes: BTreeMap<Class, Measure>,
    /// The first so many switches of the plan are off.
    pub off: u32,
}

/// Which rooms a group holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Matcher {
    /// Rooms whose id begins so.
    Prefix(String),
    /// One room.
    Exact(String),
    /// Every room.
    Any,
}

impl Matcher {
    /// Whether the room belongs.
    #[must_use]
    pub fn fits(&self, room: &str) -> bool {
        match self {
            Self::Prefix(p) => room.starts_with(p.as_str()),
            Self::Exact(e) => room == e,
            Self::Any => true,
        }
    }
}

/// How a downstream's queue is shaped while a micro-burst is on (semantics §3, §7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Shape {
    /// Messages that may wait.
    pub capacity: u32,
    /// Longest wait, in milliseconds.
    pub max_wait_ms: u32,
    /// Messages let through per second.
    pub drain_qps: u32,
}

/// A group of rooms with its own settings.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Group {
    /// Name.
    pub id: String,
    /// Which rooms.
    pub matcher: Matcher,
    /// Settings that override a rule's, by `rule-kind.setting`, as validated values (times in slots).
    pub set: BTreeMap<String, Fixed>,
    /// Shaping that the policies of its rooms carry while a micro-burst is on.
    pub shape: Shape,
}

/// Whether a rule decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Not evaluated.
    Off,
    /// Evaluated and enforced.
    Enforce,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Rule {
    /// Id, unique in the set.
    pub id: String,
    /// Version.
    pub version: u64,
    /// Mode.
    pub mode: Mode,
    /// Group it applies to; none: all (`*`).
    pub group: Option<String>,
    /// What it looks at and when it moves.
    pub trigger: Trigger,
}

/// A level asked for beyond a threshold; steps are ordered by level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StepTo {
    /// Level asked for.
    pub level: Level,
    /// Threshold that must be exceeded (a ratio for burst, events per second for rate).
    pub above: Fixed,
}

/// What a rule compares (semantics §3).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Trigger {
    /// Burst ratio over the baseline.
    Burst(Burst),
    /// A multiple of the baseline within the second.
    Fast(Fast),
    /// An absolute rate.
    Rate(Rate),
    /// A rise over the room's own background, small rooms too; never a level.
    Surge(Surge),
    /// A burst of less than a second.
    Micro(Micro),
}

/// `burst_ratio > step and count_60s > min_count_60s and z > z`, for `enter_ticks`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Burst {
    /// Steps by burst ratio.
    pub steps: Vec<StepTo>,
    /// `count_60s` must exceed it.
    pub min_count_60s: u32,
    /// z must exceed it.
    pub z: Fixed,
    /// Over-dispersion in z (1.6).
    pub dispersion: Fixed,
    /// The baseline counts as at least this, per second.
    pub baseline_floor: Fixed,
    /// Leaves below this ratio.
    pub ratio_exit: Fixed,
    /// ... or when `rate_10s` is below this share of `min_count_60s / 60`.
    pub count_exit_share: Fixed,
    /// Slots in a row that must enter.
    pub enter_ticks: u32,
    /// Slots in a row that must leave.
    pub exit_ticks: u32,
}

/// `count_1s > ratio × baseline and count_1s > min_count_1s`; leaves as a burst rule does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Fast {
    /// Multiple of the baseline.
    pub ratio: Fixed,
    /// `count_1s` must exceed it.
    pub min_count_1s: u32,
    /// Level asked for.
    pub level: Level,
    /// The baseline counts as at least this, per second.
    pub baseline_floor: Fixed,
    /// Leaves below this burst ratio.
    pub ratio_exit: Fixed,
    /// ... or when `rate_10s` is below this many events per second.
    pub rate_exit: Fixed,
    /// Whether [`resolve`] takes `ratio_exit`, `rate_exit` and `baseline_floor` from the burst rule of the same
    /// group. In a [`Config`] it has done so: the fields themselves are the ones to compare with.
    pub exit_as_burst: bool,
    /// Slots in a row that must enter.
    pub enter_ticks: u32,
    /// Slots in a row that must leave.
    pub exit_ticks: u32,
}

/// Window of a rate rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Window {
    /// Last 10 slots.
    S1,
    /// Last 100 slots.
    S10,
    /// Last 600 slots.
    S60,
}

impl Window {
    /// Length in slots.
    #[must_use]
    pub const fn slots(self) -> u64 {
        match self {
            Self::S1 => 10,
            Self::S10 => 100,
            Self::S60 => 600,
        }
    }
}

/// An absolute rate over a window; valid in warm-up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Rate {
    /// The window.
    pub window: Window,
    /// Only events of this class; none: all.
    pub class: Option<Class>,
    /// Steps by events per second.
    pub steps: Vec<StepTo>,
    /// Leaves below this many events per second.
    pub exit: Fixed,
    /// Slots in a row that must enter.
    pub enter_ticks: u32,
    /// Slots in a row that must leave.
    pub exit_ticks: u32,
}

/// The surge rule; `c` in events.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Surge {
    /// Events above what 3 or 5 seconds should hold.
    pub c: u32,
    /// Slots of life before it may enter (300).
    pub min_life: u64,
    /// Slots in a row that must fail.
    pub exit_ticks: u32,
}

/// The micro-burst rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Micro {
    /// Multiple of the mean of the second before.
    pub ratio: Fixed,
    /// `rate_100ms` must exceed it, per second.
    pub min_rate: Fixed,
    /// Slots of life needed.
    pub min_life: u64,
    /// Slots in a row without, to end.
    pub exit_ticks: u32,
}

/// What holds for the rooms of one group: rules with the group's settings applied, ordered by id; `Off` ones left out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Config {
    /// The group.
    pub group: String,
    /// Hash of the rule set.
    pub rules_hash: String,
    /// Ladder and guards.
    pub ladder: Ladder,
    /// Rules in force.
    pub rules: Vec<Rule>,
}

/// Least values at which any live rule could enter: rooms below all of them need no evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Floors {
    /// Rooms with `count_60s` at or below it cannot enter a burst, fast or rate rule.
    pub count_60s: u32,
    /// Slots with a count at or below it cannot enter a micro rule.
    pub count_100ms: u32,
    /// Least `c` of a live surge rule; none: no surge rule is live.
    pub surge_c: Option<u32>,
}
