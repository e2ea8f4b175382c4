//! From a rule set to what holds for each group of rooms, and to the counts below which no rule can enter.

use super::keys::KINDS;
use super::text::nearest;
use super::{
    Burst, Config, Fast, Floors, Group, Ladder, Matcher, Mode, Rule, RuleSet, Trigger, Window,
    parse,
};
use crate::fixed::{Fixed, ONE};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// The rule set that ships with the program, as text with comments.
pub(super) const SHIPPED: &str = include_str!("shipped.toml");

/// Name of the group of the rooms that no other group takes.
pub(super) const DEFAULT_GROUP: &str = "default";

impl RuleSet {
    /// The rule set that ships with the program.
    #[must_use]
    pub fn shipped() -> Self {
        Self::shipped_ref().clone()
    }

    /// The text of the rule set that ships with the program.
    #[must_use]
    pub const fn shipped_text() -> &'static str {
        SHIPPED
    }

    pub(super) fn shipped_ref() -> &'static Self {
        static SET: OnceLock<RuleSet> = OnceLock::new();
        SET.get_or_init(|| parse::shipped(SHIPPED))
    }

    /// Index of the room's group: the first whose matcher fits.
    #[must_use]
    pub fn group_of(&self, room: &str) -> u16 {
        let last = self.groups.len().saturating_sub(1);
        let at = self.groups.iter().position(|g| g.matcher.fits(room)).unwrap_or(last);
        u16::try_from(at).unwrap_or(u16::MAX)
    }

    /// What holds for each group, by the group's index.
    #[must_use]
    pub fn configs(&self) -> Vec<Config> {
        let resolved = |g| resolve(g, &self.ladder, &self.hash, &self.rules);
        self.groups.iter().map(resolved).collect()
    }

    /// The same rules with every room in one group, for recordings whose room ids follow other names.
    ///
    /// # Errors
    /// There is no such group; the sentence names those that exist.
    pub fn only_group(&self, name: &str) -> Result<Self, String> {
        let names: Vec<&str> = self.groups.iter().map(|g| g.id.as_str()).collect();
        let Some(group) = self.groups.iter().find(|g| g.id == name) else {
            let near = nearest(name, &names).map(|n| format!("did you mean `{n}`? "));
            return Err(format!(
                "no group `{name}` in the rule set: {}its groups are {}",
                near.unwrap_or_default(),
                names.join(", ")
            ));
        };
        let group = Group { matcher: Matcher::Any, ..group.clone() };
        Ok(Self { groups: vec![group], ..self.clone() })
    }
}

/// What holds for one group: the live rules that match it, with the group's settings applied, ordered by id.
#[must_use]
pub fn resolve(group: &Group, ladder: &Ladder, hash: &str, rules: &[Rule]) -> Config {
    let matches = |r: &&Rule| r.group.as_ref().is_none_or(|g| *g == group.id);
    let mut rules: Vec<Rule> =
        rules.iter().filter(|r| r.mode == Mode::Enforce).filter(matches).cloned().collect();
    rules.sort_by(|a, b| a.id.cmp(&b.id));
    for rule in rules.iter_mut().filter(|r| !matches!(r.trigger, Trigger::Fast(_))) {
        apply(&mut rule.trigger, &group.set);
    }
    // A fast rule leaves as the group's burst rule does, the group's own settings included (semantics §3).
    let burst = first_burst(&rules).cloned();
    for rule in &mut rules {
        if let Trigger::Fast(fast) = &mut rule.trigger {
            if let (true, Some(burst)) = (fast.exit_as_burst, &burst) {
                leave_as(fast, burst);
            }
            apply(&mut rule.trigger, &group.set);
        }
    }
    Config { group: group.id.clone(), rules_hash: hash.to_owned(), ladder: ladder.clone(), rules }
}

/// The settings of a group, put into a rule of the kind they name.
pub(super) fn apply(trigger: &mut Trigger, set: &BTreeMap<String, Fixed>) {
    let kind = trigger.kind();
    for (name, value) in set {
        if let Some(key) = name.strip_prefix(kind).and_then(|rest| rest.strip_prefix('.')) {
            trigger.put(key, *value);
        }
    }
}

/// The burst rule that a fast rule follows: the first by id.
pub(super) fn first_burst(rules: &[Rule]) -> Option<&Burst> {
    rules.iter().find_map(|r| match &r.trigger {
        Trigger::Burst(b) => Some(b),
        _ => None,
    })
}

/// Gives a fast rule the figures by which a burst rule leaves: its ratio over its baseline floor, and the rate in
/// events per second below which it does (`count_exit_share × min_count_60s / 60`, rounded up to the millionth: a
/// `rate_10s` is a tenth of a whole number, so "below the rounded" and "below the exact value" are the same).
pub(super) fn leave_as(fast: &mut Fast, burst: &Burst) {
    let product = i128::from(burst.count_exit_share.0) * i128::from(burst.min_count_60s);
    let rate = (product + 59).div_euclid(60);
    fast.rate_exit = Fixed(i64::try_from(rate).unwrap_or(i64::MAX));
    fast.ratio_exit = burst.ratio_exit;
    fast.baseline_floor = burst.baseline_floor;
}

impl Floors {
    /// The least counts with which a rule in force could enter, less one: from the rules, never a constant. A kind
    /// without a live rule lowers nothing.
    #[must_use]
    pub fn of(configs: &[Config]) -> Self {
        let mut floors = Self { count_60s: u32::MAX, count_100ms: u32::MAX, surge_c: None };
        for rule in configs.iter().flat_map(|c| &c.rules) {
            floors.lower(&rule.trigger);
        }
        floors
    }

    fn lower(&mut self, trigger: &Trigger) {
        match trigger {
            Trigger::Burst(b) => self.count_60s = self.count_60s.min(b.min_count_60s),
            // The last second is part of the last minute, so count_60s is at least count_1s.
            Trigger::Fast(f) => self.count_60s = self.count_60s.min(f.min_count_1s),
            Trigger::Rate(r) => {
                for step in &r.steps {
                    self.count_60s = self.count_60s.min(most_at(step.above, r.window));
                }
            }
            Trigger::Micro(m) => {
                // rate_100ms = 10 c must exceed min_rate: the most that does not is min_rate / 10, rounded down.
                let most = m.min_rate.0.div_euclid(10 * ONE);
                self.count_100ms = self.count_100ms.min(count(most));
            }
            Trigger::Surge(s) => {
                self.surge_c = Some(self.surge_c.map_or(s.c, |c| c.min(s.c)));
            }
        }
    }
}

/// The greatest count of a window whose rate does not exceed `above` (events per second).
fn most_at(above: Fixed, window: Window) -> u32 {
    let seconds = i64::try_from(window.slots() / 10).unwrap_or(i64::MAX);
    count(above.0.saturating_mul(seconds).div_euclid(ONE))
}

fn count(n: i64) -> u32 {
    u32::try_from(n.max(0)).unwrap_or(u32::MAX)
}

/// The kinds of which a set has no live rule, for notes.
pub(super) fn kinds_without_rule(rules: &[Rule]) -> Vec<&'static str> {
    let live =
        |kind: &&str| rules.iter().any(|r| r.mode == Mode::Enforce && r.trigger.kind() == *kind);
    KINDS.into_iter().filter(|k| !live(k)).collect()
}
