//! Reading `[[rule]]`: what it looks at, when it moves, where it holds.

use super::MAX_RULES;
use super::reader::{Node, Reader};
use crate::fixed::Fixed;
use crate::rules::keys::{self, KINDS, LATER_KINDS, Setting};
use crate::rules::resolve::{first_burst, leave_as};
use crate::rules::text::{listed, nearest, quoted};
use crate::rules::{
    Burst, Fast, Group, Micro, Mode, Rate, Rule, RuleSet, StepTo, Surge, Trigger, Window,
};
use barrage_protocol::ids::{Class, Level};
use toml::de::DeTable;

/// Keys of a rule.
const KEYS: [&str; 8] = ["id", "kind", "version", "mode", "match", "trigger", "steps", "hold"];
/// Names under which the ladder and its guards decide: no rule can have them.
const RESERVED: [&str; 4] = ["ladder", "blast", "flap", "frozen"];
/// Most steps of a rule: one for each level.
const MAX_STEPS: usize = 3;
const STEPS: &str = "steps = [ { level = 1, ratio = 2.0 } ]";
const WINDOWS: [(&str, Window); 3] =
    [("1s", Window::S1), ("10s", Window::S10), ("60s", Window::S60)];

/// The tables of `[[name]]`, at most `most` of them.
pub(super) fn tables<'d, 'a>(
    reader: &mut Reader<'_>,
    document: &'d DeTable<'a>,
    name: &str,
    most: usize,
) -> Vec<(&'d Node<'a>, &'d DeTable<'a>)> {
    let Some(node) = document.get(name) else { return Vec::new() };
    let Some(list) = node.get_ref().as_array() else {
        reader.wrong_type(node, name, "a list of tables", &format!("[[{name}]]"));
        return Vec::new();
    };
    if let Some(first) = list.get(most) {
        let what = format!("{} times [[{name}]]", list.len());
        reader.fault(first.span().start, what, format!("at most {most}"));
    }
    let mut tables = Vec::new();
    for item in list.iter().take(most) {
        if let Some(table) = reader.table(item, name, &format!("[[{name}]]")) {
            tables.push((item, table));
        }
    }
    tables
}

/// The rules ordered by id, with their places.
pub(super) fn rules(
    reader: &mut Reader<'_>,
    document: &DeTable<'_>,
    base: &RuleSet,
    groups: &[Group],
) -> (Vec<Rule>, Vec<usize>) {
    let mut read: Vec<(Rule, usize)> = Vec::new();
    let mut ids: Vec<String> = Vec::new();
    for (node, table) in tables(reader, document, "rule", MAX_RULES) {
        let at = node.span().start;
        let id = id(reader, at, table);
        if let Some(id) = &id {
            if ids.contains(id) {
                reader.fault(at, format!("two rules have the id `{id}`"), "give each its own");
            }
            ids.push(id.clone());
        }
        if let Some(rule) = rule(reader, at, table, id, base, groups) {
            read.push((rule, at));
        }
    }
    read.sort_by(|a, b| a.0.id.cmp(&b.0.id));
    let (mut rules, places): (Vec<Rule>, Vec<usize>) = read.into_iter().unzip();
    // What a fast rule leaves by where its group has no live burst rule.
    let burst = first_burst(&rules).or(first_burst(&base.rules)).cloned();
    for rule in &mut rules {
        if let (Trigger::Fast(fast), Some(burst)) = (&mut rule.trigger, &burst)
            && fast.exit_as_burst
        {
            leave_as(fast, burst);
        }
    }
    (rules, places)
}

fn id(reader: &mut Reader<'_>, at: usize, table: &DeTable<'_>) -> Option<String> {
    let Some(node) = table.get("id") else {
        reader.fault(at, "a rule without `id`", "as in `id = \"burst\"`");
        return None;
    };
    let id = reader.id(node, "rule.id")?;
    if RESERVED.contains(&id.as_str()) {
        let what = format!("`{id}` cannot be the id of a rule");
        reader.fault(node.span().start, what, "the guards of the ladder decide under that name");
        return None;
    }
    Some(id)
}

fn rule(
    reader: &mut Reader<'_>,
    at: usize,
    table: &DeTable<'_>,
    id: Option<String>,
    base: &RuleSet,
    groups: &[Group],
) -> Option<Rule> {
    reader.unknown_keys(table, "in [[rule]]", &KEYS);
    let name = id.clone().unwrap_or_else(|| "?".to_owned());
    let version = match table.get("version") {
        Some(node) => reader.whole(node, "rule.version", (1, i64::MAX), "version = 1"),
        None => {
            reader.missing(at, &name, "version");
            Some(1)
        }
    };
    let mode = mode(reader, at, table, &name);
    let kind = kind(reader, at, table)?;
    let later = LATER_KINDS.contains(&kind);
    let (group, class) = matches(reader, table, kind, groups);
    if later {
        reader.notes.push(format!(
            "rule `{name}`: kind {kind} is known, but this version does not decide it: not evaluated"
        ));
        return None;
    }
    let trigger = trigger(reader, at, table, kind, class, base);
    let version = version.and_then(|v| u64::try_from(v).ok())?;
    Some(Rule { id: id?, version, mode: mode?, group, trigger })
}

fn mode(reader: &mut Reader<'_>, at: usize, table: &DeTable<'_>, name: &str) -> Option<Mode> {
    let Some(node) = table.get("mode") else {
        reader.missing(at, name, "mode");
        return Some(Mode::Enforce);
    };
    match reader.string(node, "rule.mode", "mode = \"enforce\"")? {
        "enforce" => Some(Mode::Enforce),
        "off" => Some(Mode::Off),
        known @ ("shadow" | "canary") => {
            reader.notes.push(format!(
                "rule `{name}`: mode {known} is known, but this version does not decide it: taken as off"
            ));
            Some(Mode::Off)
        }
        other => {
            let hint = match nearest(other, &["off", "enforce", "shadow", "canary"]) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "`enforce` or `off`".to_owned(),
            };
            reader.fault(node.span().start, format!("unknown mode {}", quoted(other)), hint);
            None
        }
    }
}

fn kind<'t>(reader: &mut Reader<'_>, at: usize, table: &'t DeTable<'_>) -> Option<&'t str> {
    let Some(node) = table.get("kind") else {
        reader.fault(at, "a rule without `kind`", format!("one of {}", listed(&KINDS)));
        return None;
    };
    let kind = reader.string(node, "rule.kind", "kind = \"burst\"")?;
    if KINDS.contains(&kind) || LATER_KINDS.contains(&kind) {
        return Some(kind);
    }
    let known: Vec<&str> = KINDS.into_iter().chain(LATER_KINDS).collect();
    let hint = match nearest(kind, &known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("one of {}", listed(&KINDS)),
    };
    reader.fault(node.span().start, format!("unknown kind of rule {}", quoted(kind)), hint);
    None
}

/// Group (none: every room) and class of a rule's `match`.
fn matches(
    reader: &mut Reader<'_>,
    table: &DeTable<'_>,
    kind: &str,
    groups: &[Group],
) -> (Option<String>, Option<Class>) {
    const EXAMPLE: &str = "match = { group = \"*\" }";
    let Some(node) = table.get("match") else { return (None, None) };
    let Some(table) = reader.table(node, "rule.match", EXAMPLE) else { return (None, None) };
    if !LATER_KINDS.contains(&kind) {
        reader.unknown_keys(table, "in a rule's `match`", &["group", "class"]);
    }
    let group = table.get("group").and_then(|node| {
        let group = reader.string(node, "match.group", EXAMPLE).filter(|g| *g != "*")?;
        if !groups.iter().any(|g| g.id == group) {
            let known: Vec<&str> = groups.iter().map(|g| g.id.as_str()).collect();
            let hint = match nearest(group, &known) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("`*` for every room, or one of {}", listed(&known)),
            };
            reader.fault(node.span().start, format!("no group {}", quoted(group)), hint);
        }
        Some(group.to_owned())
    });
    let class = table.get("class").and_then(|node| {
        let name = reader.string(node, "match.class", "class = \"chat\"")?;
        let at = node.span().start;
        if !matches!(kind, "rate" | "limit" | "breaker") {
            let what = format!("a {kind} rule cannot be for one class");
            reader.fault(at, what, "only rate, limit and breaker rules can");
            return None;
        }
        let class = Class::from_name(name);
        if class.is_none() {
            let known = Class::ALL.map(Class::name);
            let hint = match nearest(name, &known) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("one of {}", listed(&known)),
            };
            reader.fault(at, format!("unknown class {}", quoted(name)), hint);
        }
        class
    });
    (group, class)
}

fn trigger(
    reader: &mut Reader<'_>,
    at: usize,
    table: &DeTable<'_>,
    kind: &str,
    class: Option<Class>,
    base: &RuleSet,
) -> Trigger {
    let of_kind = |r: &&Rule| r.trigger.kind() == kind;
    let shipped = base.rules.iter().find(of_kind).map(|r| r.trigger.clone());
    let mut trigger = shipped.unwrap_or_else(|| blank(kind));
    if let Trigger::Rate(rate) = &mut trigger {
        rate.class = class;
    }
    // What `trigger.enter` of a rate rule gives to steps without a threshold of their own.
    let mut enter = None;
    for section in ["trigger", "hold"] {
        let settings: Vec<&Setting> =
            keys::settings(kind).iter().filter(|s| s.table == section).collect();
        let Some(node) = table.get(section) else {
            reader.missing(at, kind, section);
            continue;
        };
        let example = format!("{section} = {{ … }}");
        let Some(inner) = reader.table(node, &format!("rule.{section}"), &example) else {
            continue;
        };
        unknown_settings(reader, inner, kind, section, &settings);
        for setting in settings {
            match inner.get(setting.key) {
                Some(node) => {
                    let usual = trigger.get(setting.key);
                    let path = format!("{section}.{}", setting.key);
                    let Some(v) = reader.value(node, &path, setting, usual) else { continue };
                    if setting.key == "enter" {
                        enter = Some((v, node.span().start));
                    } else {
                        trigger.put(setting.key, v);
                    }
                }
                None if optional(kind, setting.key) => {}
                None => reader.missing(node.span().start, section, setting.key),
            }
        }
        if let (Trigger::Rate(rate), Some(node)) = (&mut trigger, inner.get("window")) {
            rate.window = window(reader, node).unwrap_or(rate.window);
        }
    }
    steps(reader, at, table, &mut trigger, enter);
    trigger
}

/// Settings that even the shipped set may leave out: a fast rule then leaves as its group's burst rule does.
fn optional(kind: &str, key: &str) -> bool {
    kind == "fast" && matches!(key, "ratio_exit" | "rate_exit" | "baseline_floor")
}

fn unknown_settings(
    reader: &mut Reader<'_>,
    table: &DeTable<'_>,
    kind: &str,
    section: &str,
    settings: &[&Setting],
) {
    let window = (kind == "rate" && section == "trigger").then_some("window");
    let known: Vec<&str> = settings.iter().map(|s| s.key).chain(window).collect();
    for key in table.keys() {
        let name: &str = key.get_ref();
        let elsewhere = keys::settings(kind).iter().find(|s| s.key == name && s.table != section);
        let place = format!("in `{section}` of a {kind} rule");
        if let Some(other) = elsewhere {
            let what = format!("unknown key `{name}` {place}");
            reader.fault(key.span().start, what, format!("it belongs in `{}`", other.table));
        } else if !known.contains(&name) {
            reader.unknown(key.span().start, name, &place, &known);
        }
    }
}

fn window(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Window> {
    let text = reader.string(node, "trigger.window", "window = \"10s\"")?;
    let found = WINDOWS.iter().find(|(name, _)| *name == text).map(|(_, w)| *w);
    if found.is_none() {
        let what = format!("`trigger.window` is {}", quoted(text));
        reader.fault(node.span().start, what, "\"1s\", \"10s\" or \"60s\"");
    }
    found
}

fn steps(
    reader: &mut Reader<'_>,
    at: usize,
    table: &DeTable<'_>,
    trigger: &mut Trigger,
    enter: Option<(Fixed, usize)>,
) {
    let kind = trigger.kind();
    let Some(node) = table.get("steps") else {
        if !matches!(trigger, Trigger::Surge(_) | Trigger::Micro(_)) {
            reader.missing(at, kind, "steps");
        }
        // The shipped steps stay, with the threshold that the trigger names.
        if let (Some((v, _)), Some(steps)) = (enter, trigger.steps_mut()) {
            steps.iter_mut().for_each(|s| s.above = v);
        }
        return;
    };
    if matches!(trigger, Trigger::Surge(_) | Trigger::Micro(_)) {
        let what = format!("a {kind} rule has no `steps`");
        reader.fault(node.span().start, what, "it never moves the level");
        return;
    }
    let Some(list) = node.get_ref().as_array() else {
        reader.wrong_type(node, "rule.steps", "a list of tables", STEPS);
        return;
    };
    if list.is_empty() || list.len() > MAX_STEPS {
        let what = format!("`steps` has {} entries", list.len());
        reader.fault(node.span().start, what, format!("1 to {MAX_STEPS}, as in `{STEPS}`"));
    }
    let mut read = Vec::new();
    let mut enter_used = false;
    for item in list.iter().take(MAX_STEPS) {
        let Some(inner) = reader.table(item, "rule.steps", STEPS) else { continue };
        let own = keys::step_threshold(kind);
        let known: Vec<&str> = std::iter::once("level").chain(own.map(|s| s.key)).collect();
        reader.unknown_keys(inner, &format!("in `steps` of a {kind} rule"), &known);
        let Some(level) = step_level(reader, item, inner) else { continue };
        let above = match own {
            None => Some(Fixed(0)),
            Some(own) => match inner.get(own.key) {
                Some(n) => reader.value(n, &format!("steps.{}", own.key), &own, None),
                None => step_default(reader, item, trigger, &own, enter, &mut enter_used),
            },
        };
        read.extend(above.map(|above| (StepTo { level, above }, item.span().start)));
    }
    if let (Some((_, place)), false, true) = (enter, enter_used, !read.is_empty()) {
        reader.fault(
            place,
            "`trigger.enter` is not used: each step has its own `enter`",
            "leave it out",
        );
    }
    put_steps(reader, node, trigger, read);
}

/// The threshold of a step that names none: a rate rule's trigger may hold it.
fn step_default(
    reader: &mut Reader<'_>,
    item: &Node<'_>,
    trigger: &Trigger,
    own: &Setting,
    enter: Option<(Fixed, usize)>,
    enter_used: &mut bool,
) -> Option<Fixed> {
    *enter_used = true;
    match (trigger, enter) {
        (Trigger::Rate(_), Some((v, _))) => Some(v),
        (Trigger::Rate(rate), None) if !rate.steps.is_empty() => trigger.get("enter"),
        _ => {
            let what = format!("a step without `{}`", own.key);
            reader.fault(item.span().start, what, format!("as in `{STEPS}`"));
            None
        }
    }
}

fn step_level(reader: &mut Reader<'_>, item: &Node<'_>, table: &DeTable<'_>) -> Option<Level> {
    let Some(node) = table.get("level") else {
        reader.fault(item.span().start, "a step without `level`", format!("as in `{STEPS}`"));
        return None;
    };
    let level = reader.whole(node, "steps.level", (1, i64::from(Level::MAX.0)), "level = 1")?;
    u8::try_from(level).ok().map(Level)
}

fn put_steps(
    reader: &mut Reader<'_>,
    node: &Node<'_>,
    trigger: &mut Trigger,
    mut read: Vec<(StepTo, usize)>,
) {
    read.sort();
    for pair in read.windows(2) {
        if pair[0].0.level == pair[1].0.level {
            let at = pair[0].1.max(pair[1].1);
            let what = format!("two steps lead to level {}", pair[0].0.level.0);
            reader.fault(at, what, "each level once");
        }
    }
    let steps: Vec<StepTo> = read.into_iter().map(|(step, _)| step).collect();
    if steps.is_empty() {
        return;
    }
    match trigger {
        Trigger::Burst(Burst { steps: own, .. }) | Trigger::Rate(Rate { steps: own, .. }) => {
            *own = steps;
        }
        Trigger::Fast(fast) if steps.len() == 1 => fast.level = steps[0].level,
        Trigger::Fast(_) => {
            reader.fault(
                node.span().start,
                "a fast rule has one step",
                "as in `steps = [ { level = 1 } ]`",
            );
        }
        Trigger::Surge(_) | Trigger::Micro(_) => {}
    }
}

/// A trigger in which nothing is set, for reading the shipped set.
fn blank(kind: &str) -> Trigger {
    let zero = Fixed(0);
    match kind {
        "burst" => Trigger::Burst(Burst {
            steps: Vec::new(),
            min_count_60s: 0,
            z: zero,
            dispersion: zero,
            baseline_floor: zero,
            ratio_exit: zero,
            count_exit_share: zero,
            enter_ticks: 0,
            exit_ticks: 0,
        }),
        "fast" => Trigger::Fast(Fast {
            ratio: zero,
            min_count_1s: 0,
            level: Level(1),
            baseline_floor: zero,
            ratio_exit: zero,
            rate_exit: zero,
            exit_as_burst: true,
            enter_ticks: 0,
            exit_ticks: 0,
        }),
        "rate" => Trigger::Rate(Rate {
            window: Window::S10,
            class: None,
            steps: Vec::new(),
            exit: zero,
            enter_ticks: 0,
            exit_ticks: 0,
        }),
        "surge" => Trigger::Surge(Surge { c: 0, min_life: 0, exit_ticks: 0 }),
        _ => Trigger::Micro(Micro { ratio: zero, min_rate: zero, min_life: 0, exit_ticks: 0 }),
    }
}
