//! What can only be said of a rule set as a whole: rules together with the groups' settings.

use super::groups::Place;
use super::reader::Reader;
use crate::rules::keys::KINDS;
use crate::rules::resolve::{apply, kinds_without_rule};
use crate::rules::text::{listed, show_fixed};
use crate::rules::{Group, Matcher, Rule, Trigger};

/// Checks each rule alone and as each group changes it, and that every group can hold a room.
pub(super) fn together(
    reader: &mut Reader<'_>,
    groups: &[Group],
    group_places: &[Place],
    rules: &[Rule],
    rule_places: &[usize],
) {
    for (rule, at) in rules.iter().zip(rule_places) {
        for (what, hint) in contradictions(&rule.trigger) {
            reader.fault(*at, format!("rule `{}`: {what}", rule.id), hint);
        }
    }
    for (group, place) in groups.iter().zip(group_places) {
        with_group(reader, group, place, rules);
    }
    shadowed(reader, groups, group_places);
}

/// A rule as a group changes it; what is wrong with the rule itself has been told.
fn with_group(reader: &mut Reader<'_>, group: &Group, place: &Place, rules: &[Rule]) {
    if group.set.is_empty() {
        return;
    }
    for rule in rules.iter().filter(|r| r.group.as_ref().is_none_or(|g| *g == group.id)) {
        let kind = rule.trigger.kind();
        let key_of_kind = |name: &&String| name.split('.').next() == Some(kind);
        let Some(first) = place.set.iter().find(|(name, _)| key_of_kind(name)) else { continue };
        if group.set.contains_key("rate.enter") && rule.trigger.steps().len() > 1 && kind == "rate"
        {
            let at = place.set.get("rate.enter").copied().unwrap_or(place.at);
            let what = format!("`set.rate.enter`: rule `{}` has several steps", rule.id);
            reader.fault(at, what, "say which, as in `set = { rate.steps.2 = 2000 }`");
            continue;
        }
        let own = contradictions(&rule.trigger);
        let mut changed = rule.trigger.clone();
        apply(&mut changed, &group.set);
        for (what, hint) in contradictions(&changed) {
            if !own.iter().any(|(w, _)| *w == what) {
                let what = format!("group `{}` with rule `{}`: {what}", group.id, rule.id);
                reader.fault(*first.1, what, hint);
            }
        }
    }
}

/// What in a trigger contradicts itself, with a way out.
fn contradictions(trigger: &Trigger) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let (threshold, exit_name, exit) = match trigger {
        Trigger::Burst(b) => ("ratio", "ratio_exit", b.ratio_exit),
        Trigger::Rate(r) => ("enter", "exit", r.exit),
        Trigger::Fast(f) => {
            // Ratio is a multiple of the baseline, ratio_exit an excess over it.
            if !f.exit_as_burst && f.ratio_exit.0 >= f.ratio.0 {
                found.push((
                    format!(
                        "`ratio_exit` {} is not below `ratio` {}",
                        show_fixed(f.ratio_exit),
                        show_fixed(f.ratio)
                    ),
                    "a rule must leave below where it enters".to_owned(),
                ));
            }
            return found;
        }
        Trigger::Surge(_) | Trigger::Micro(_) => return found,
    };
    for pair in trigger.steps().windows(2) {
        if pair[0].level < pair[1].level && pair[0].above >= pair[1].above {
            found.push((
                format!(
                    "level {} at {threshold} {} is not above level {} at {}",
                    pair[1].level.0,
                    show_fixed(pair[1].above),
                    pair[0].level.0,
                    show_fixed(pair[0].above)
                ),
                "a higher level needs a higher threshold".to_owned(),
            ));
        }
    }
    if let Some(least) = trigger.steps().iter().map(|s| s.above).min()
        && exit >= least
    {
        found.push((
            format!(
                "`{exit_name}` {} is not below the lowest step's `{threshold}` {}",
                show_fixed(exit),
                show_fixed(least)
            ),
            "a rule must leave below where it enters".to_owned(),
        ));
    }
    found
}

/// A group whose rooms an earlier one takes already.
fn shadowed(reader: &mut Reader<'_>, groups: &[Group], places: &[Place]) {
    for (i, (group, place)) in groups.iter().zip(places).enumerate() {
        let text = match &group.matcher {
            Matcher::Prefix(t) | Matcher::Exact(t) => t,
            Matcher::Any => continue,
        };
        let takes_all = |earlier: &&Group| match (&earlier.matcher, &group.matcher) {
            (Matcher::Prefix(p), _) => text.starts_with(p.as_str()),
            (Matcher::Exact(e), Matcher::Exact(t)) => e == t,
            _ => false,
        };
        if let Some(earlier) = groups[..i].iter().find(takes_all) {
            let what = format!(
                "group `{}` never holds a room: `{}`, which stands before it, takes them all",
                group.id, earlier.id
            );
            reader.fault(place.at, what, "the first match wins: put the narrower group first");
        }
    }
}

/// What is allowed and yet worth saying.
pub(super) fn notes(reader: &mut Reader<'_>, groups: &[Group], rules: &[Rule]) {
    let without = kinds_without_rule(rules);
    if without.len() == KINDS.len() {
        reader.notes.push("no rule is live: nothing will be decided".to_owned());
    }
    for group in groups {
        for name in group.set.keys() {
            let kind = name.split('.').next().unwrap_or_default();
            let concerned = |r: &Rule| {
                r.trigger.kind() == kind && r.group.as_ref().is_none_or(|g| *g == group.id)
            };
            if !rules.iter().any(concerned) {
                reader.notes.push(format!(
                    "group `{}` sets {name}, but no rule of kind {kind} holds there: no effect",
                    group.id
                ));
            }
        }
    }
    if let (false, true) = (without.is_empty(), without.len() < KINDS.len()) {
        reader.notes.push(format!("no live rule of kind {}", listed(&without)));
    }
}
