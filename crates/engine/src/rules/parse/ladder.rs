//! Reading `[ladder]`, `plan` and `[levels.N]`.

use super::reader::{Node, Reader};
use crate::fixed::{Fixed, ONE};
use crate::rules::keys::{LADDER, MAX_PLAN, MEASURE, OFF};
use crate::rules::text::{listed, nearest, quoted};
use crate::rules::{Ladder, LevelPolicy, Measure};
use barrage_protocol::ids::{Class, Level};
use std::collections::{BTreeMap, BTreeSet};
use toml::de::{DeTable, DeValue};

/// Keys of `[ladder]`.
const KEYS: [&str; 5] = ["min_dwell", "step_every", "max_moves_per_10m", "blast", "frozen"];
/// Example of each table in it.
const BLAST: &str = "blast = { min = 5, max_share = 0.20, within = \"60s\", lift_ratio = 2.0 }";
const FROZEN: &str = "frozen = { max = \"2h\", alarm = \"15min\" }";

pub(super) fn ladder(reader: &mut Reader<'_>, document: &DeTable<'_>, base: &Ladder) -> Ladder {
    let mut ladder = base.clone();
    let Some(node) = document.get("ladder") else {
        reader.missing(0, "the rule set", "ladder");
        return ladder;
    };
    let Some(table) = reader.table(node, "ladder", "[ladder]") else { return ladder };
    reader.unknown_keys(table, "in [ladder]", &KEYS);
    settings(reader, table, "ladder", &mut ladder);
    for (name, example) in [("blast", BLAST), ("frozen", FROZEN)] {
        let path = format!("ladder.{name}");
        let Some(inner) = table.get(name) else {
            reader.missing(node.span().start, "ladder", name);
            continue;
        };
        if let Some(inner) = reader.table(inner, &path, example) {
            let known: Vec<&str> =
                LADDER.iter().filter(|s| s.table == path).map(|s| s.key).collect();
            reader.unknown_keys(inner, &format!("in `{path}`"), &known);
            settings(reader, inner, &path, &mut ladder);
        }
    }
    if ladder.frozen_alarm > ladder.frozen_max {
        reader.fault(
            node.span().start,
            "`ladder.frozen.alarm` comes after `ladder.frozen.max`",
            "the alarm must come first, as in `frozen = { max = \"2h\", alarm = \"15min\" }`",
        );
    }
    ladder
}

fn settings(reader: &mut Reader<'_>, table: &DeTable<'_>, path: &str, ladder: &mut Ladder) {
    for setting in LADDER.iter().filter(|s| s.table == path) {
        match table.get(setting.key) {
            Some(node) => {
                let usual = ladder.get(path, setting.key);
                let full = format!("{path}.{}", setting.key);
                if let Some(v) = reader.value(node, &full, setting, usual) {
                    ladder.put(path, setting.key, v);
                }
            }
            None => reader.missing(0, path, setting.key),
        }
    }
}

pub(super) fn plan(
    reader: &mut Reader<'_>,
    document: &DeTable<'_>,
    base: &[String],
) -> Vec<String> {
    const EXAMPLE: &str = "plan = [\"like_count\", \"picture_quality\"]";
    let Some(node) = document.get("plan") else {
        reader.missing(0, "the rule set", "plan");
        return base.to_vec();
    };
    let Some(list) = node.get_ref().as_array() else {
        reader.wrong_type(node, "plan", "a list of names", EXAMPLE);
        return base.to_vec();
    };
    if list.len() > MAX_PLAN {
        let what = format!("the plan has {} switches", list.len());
        reader.fault(node.span().start, what, format!("at most {MAX_PLAN}"));
    }
    let mut names = Vec::new();
    let mut seen = BTreeSet::new();
    for item in list.iter().take(MAX_PLAN) {
        let Some(name) = reader.id(item, "plan") else { continue };
        if seen.insert(name.clone()) {
            names.push(name);
        } else {
            let what = format!("the switch `{name}` stands twice in the plan");
            reader.fault(item.span().start, what, "each name once");
        }
    }
    names
}

pub(super) fn levels(
    reader: &mut Reader<'_>,
    document: &DeTable<'_>,
    base: &BTreeMap<Level, LevelPolicy>,
    plan: usize,
) -> BTreeMap<Level, LevelPolicy> {
    const EXAMPLE: &str = "[levels.2]";
    let mut levels = base.clone();
    let most = u32::try_from(plan).unwrap_or(u32::MAX);
    // A shorter plan of one's own is no mistake: the levels not written turn off all there is of it.
    levels.values_mut().for_each(|l| l.off = l.off.min(most));
    let mut places = BTreeMap::new();
    if let Some(node) = document.get("levels") {
        let Some(table) = reader.table(node, "levels", EXAMPLE) else { return levels };
        reader.unknown_keys(table, "in [levels]", &["1", "2", "3"]);
        for n in 1..=Level::MAX.0 {
            let name = n.to_string();
            if let Some(node) = table.get(name.as_str()) {
                places.insert(Level(n), node.span().start);
                level(reader, node, &name, levels.entry(Level(n)).or_default(), most);
            }
        }
    }
    for n in 1..=Level::MAX.0 {
        if !levels.contains_key(&Level(n)) {
            reader.missing(0, "levels", &n.to_string());
        }
    }
    // A level that is not written turns off at least what the one below it does.
    for n in 2..=Level::MAX.0 {
        let below = levels.get(&Level(n - 1)).map_or(0, |l| l.off);
        if let (false, Some(level)) = (places.contains_key(&Level(n)), levels.get_mut(&Level(n))) {
            level.off = level.off.max(below);
        }
    }
    off_grows(reader, &levels, &places);
    levels
}

/// A level turns off at least what the one below it does.
fn off_grows(
    reader: &mut Reader<'_>,
    levels: &BTreeMap<Level, LevelPolicy>,
    places: &BTreeMap<Level, usize>,
) {
    for (level, policy) in levels {
        let below = levels.get(&Level(level.0.saturating_sub(1))).map_or(0, |l| l.off);
        if policy.off < below {
            let lower = Level(level.0 - 1);
            let at = places.get(level).or(places.get(&lower)).copied().unwrap_or(0);
            let what = format!(
                "level {} turns off {} switches of the plan, level {} {below}",
                level.0, policy.off, lower.0
            );
            reader.fault(at, what, format!("`off` of level {} must be at least {below}", level.0));
        }
    }
}

fn level(reader: &mut Reader<'_>, node: &Node<'_>, name: &str, into: &mut LevelPolicy, plan: u32) {
    let path = format!("levels.{name}");
    let Some(table) = reader.table(node, &path, "[levels.2]") else { return };
    for (key, value) in table {
        let key_name: &str = key.get_ref();
        let inner = format!("{path}.{}", key_name.chars().take(40).collect::<String>());
        if key_name == OFF.key {
            let usual = Some(Fixed::int(i64::from(into.off)));
            let off = reader.value(value, &inner, &OFF, usual);
            let Some(off) = off.and_then(|v| u32::try_from(v.0 / ONE).ok()) else { continue };
            if off > plan {
                let what = format!("`{inner}` is {off}, but the plan has {plan} switches");
                reader.fault(value.span().start, what, format!("0 to {plan}"));
            }
            into.off = off.min(plan);
        } else if let Some(class) = Class::from_name(key_name) {
            if let Some(measure) = measure(reader, value, &inner, class) {
                into.classes.insert(class, measure);
            }
        } else {
            let classes = Class::ALL.map(Class::name);
            let known: Vec<&str> = classes.into_iter().chain([OFF.key]).collect();
            let hint = match nearest(key_name, &known) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("a class or `off`: {}", listed(&known)),
            };
            let what = format!("unknown key {} in [{path}]", quoted(key_name));
            reader.fault(key.span().start, what, hint);
        }
    }
    if !table.contains_key(OFF.key) {
        reader.missing(node.span().start, &path, OFF.key);
    }
}

fn measure(reader: &mut Reader<'_>, node: &Node<'_>, path: &str, class: Class) -> Option<Measure> {
    let table = reader.table(node, path, "chat = { admit = 0.4 }")?;
    let known: Vec<&str> = MEASURE.iter().map(|s| s.key).chain(["top_only"]).collect();
    reader.unknown_keys(table, &format!("in `{path}`"), &known);
    let mut measure = Measure::default();
    for setting in MEASURE {
        let Some(node) = table.get(setting.key) else { continue };
        let full = format!("{path}.{}", setting.key);
        let Some(v) = reader.value(node, &full, setting, None) else { continue };
        let n = u32::try_from(v.0 / ONE).ok();
        match setting.key {
            "admit" => measure.admit = Some(v),
            "delay" => measure.delay_ms = n,
            "buffer" => measure.buffer = n,
            _ => measure.ttl_ms = n,
        }
    }
    match table.get("top_only").map(|n| (n, n.get_ref())) {
        None => {}
        Some((_, DeValue::Boolean(b))) => measure.top_only = *b,
        Some((node, _)) => {
            reader.wrong_type(
                node,
                &format!("{path}.top_only"),
                "true or false",
                "top_only = true",
            );
        }
    }
    let at = node.span().start;
    if table.contains_key("buffer") != table.contains_key("ttl") {
        let what = format!("`{path}` needs both `buffer` and `ttl`, or neither");
        reader.fault(at, what, "as in `chat = { buffer = 5000, ttl = \"30s\" }`");
    }
    let harmless = Measure { admit: Some(Fixed(ONE)), ..Measure::default() };
    if matches!(class, Class::System | Class::Gift)
        && measure != Measure::default()
        && measure != harmless
    {
        let what = format!("`{path}`: {} is never shed by automation", class.name());
        reader.fault(at, what, "leave it out; a person may still do so by an override");
    }
    Some(measure)
}
