//! Reading `[[group]]`: id, matcher, the settings it overrides, its shape.

use super::reader::{Node, Reader};
use super::{MAX_GROUPS, rules};
use crate::fixed::{Fixed, ONE};
use crate::rules::keys::{self, KINDS, LATER_KINDS, SHAPE};
use crate::rules::text::{listed, nearest, quoted};
use crate::rules::{Group, Matcher, RuleSet, Shape, resolve::DEFAULT_GROUP};
use std::collections::BTreeMap;
use toml::de::{DeTable, DeValue};

/// Keys of a group.
const KEYS: [&str; 5] = ["id", "match", "set", "shape", "offered"];
const ROOM: &str = "match = { room = { prefix = \"c_\" } }";
const SHAPE_FORM: &str = "shape = { capacity = 10000, max_wait = \"500ms\", drain_qps = 18000 }";

/// Where a group and its overrides stand in the text.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    pub(super) at: usize,
    pub(super) set: BTreeMap<String, usize>,
}

/// The groups in order, the default last, with their places.
pub(super) fn groups(
    reader: &mut Reader<'_>,
    document: &DeTable<'_>,
    base: &RuleSet,
) -> (Vec<Group>, Vec<Place>) {
    let mut read: Vec<(Group, Place, bool)> = Vec::new();
    let tables = rules::tables(reader, document, "group", MAX_GROUPS - 1);
    let mut default = None;
    for (node, table) in tables {
        let Some((group, place, shaped)) = group(reader, node, table, base) else { continue };
        let taken = read.iter().any(|(g, ..)| g.id == group.id);
        if taken || (group.id == DEFAULT_GROUP && default.is_some()) {
            let what = format!("two groups have the id `{}`", group.id);
            reader.fault(place.at, what, "give each its own");
        } else if group.id == DEFAULT_GROUP {
            default = Some((group, place, shaped));
        } else {
            read.push((group, place, shaped));
        }
    }
    let fallback = base.groups.last().map(|g| g.shape);
    let nothing = Shape { capacity: 0, max_wait_ms: 0, drain_qps: 0 };
    read.push(default.unwrap_or_else(|| {
        let group = Group {
            id: DEFAULT_GROUP.to_owned(),
            matcher: Matcher::Any,
            set: BTreeMap::new(),
            shape: nothing,
        };
        (group, Place::default(), false)
    }));
    // A group without a shape of its own takes the default group's, which takes the shipped one.
    if let Some((group, place, shaped)) = read.last_mut().filter(|g| !g.2) {
        reader.missing(place.at, "group.default", "shape");
        group.shape = fallback.unwrap_or(nothing);
        *shaped = true;
    }
    let usual = read.last().map_or(nothing, |(g, ..)| g.shape);
    read.iter_mut().filter(|g| !g.2).for_each(|(g, ..)| g.shape = usual);
    read.into_iter().map(|(group, place, _)| (group, place)).unzip()
}

fn group(
    reader: &mut Reader<'_>,
    node: &Node<'_>,
    table: &DeTable<'_>,
    base: &RuleSet,
) -> Option<(Group, Place, bool)> {
    let at = node.span().start;
    reader.unknown_keys(table, "in [[group]]", &KEYS);
    let id = match table.get("id") {
        Some(node) => reader.id(node, "group.id"),
        None => {
            reader.fault(at, "a group without `id`", "as in `id = \"chat\"`");
            None
        }
    };
    let matcher = matcher(reader, at, table, id.as_deref() == Some(DEFAULT_GROUP));
    let mut place = Place { at, set: BTreeMap::new() };
    let set = table.get("set").map(|n| set(reader, n, base, &mut place.set)).unwrap_or_default();
    let shape = table.get("shape").and_then(|n| shape(reader, n));
    if let Some(node) = table.get("offered") {
        offered(reader, node, id.as_deref().unwrap_or_default());
    }
    let nothing = Shape { capacity: 0, max_wait_ms: 0, drain_qps: 0 };
    let group = Group { id: id?, matcher: matcher?, set, shape: shape.unwrap_or(nothing) };
    Some((group, place, shape.is_some()))
}

fn matcher(
    reader: &mut Reader<'_>,
    at: usize,
    table: &DeTable<'_>,
    is_default: bool,
) -> Option<Matcher> {
    match table.get("match") {
        None if is_default => Some(Matcher::Any),
        None => {
            reader.fault(at, "a group without `match`", format!("as in `{ROOM}`"));
            None
        }
        Some(node) if is_default => {
            let what = "the group `default` cannot have a `match`";
            reader.fault(node.span().start, what, "it takes the rooms that no other group takes");
            None
        }
        Some(node) => {
            let outer = reader.table(node, "match", ROOM)?;
            reader.unknown_keys(outer, "in a group's `match`", &["room"]);
            let Some(room) = outer.get("room") else {
                let what = "`match` of a group without `room`";
                reader.fault(node.span().start, what, format!("as in `{ROOM}`"));
                return None;
            };
            room_matcher(reader, room)
        }
    }
}

fn room_matcher(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Matcher> {
    let table = reader.table(node, "match.room", ROOM)?;
    reader.unknown_keys(table, "in `match.room`", &["prefix", "exact"]);
    let (name, value, make): (_, _, fn(String) -> Matcher) =
        match (table.get("prefix"), table.get("exact")) {
            (Some(p), None) => ("prefix", p, Matcher::Prefix),
            (None, Some(e)) => ("exact", e, Matcher::Exact),
            _ => {
                let what = "`match.room` must have either `prefix` or `exact`";
                reader.fault(node.span().start, what, format!("as in `{ROOM}`"));
                return None;
            }
        };
    let text = reader.string(value, &format!("match.room.{name}"), ROOM)?;
    if text.is_empty() || text.len() > 128 || text.chars().any(char::is_control) {
        let what = format!("`match.room.{name}`: no room id is or begins with {}", quoted(text));
        reader.fault(
            value.span().start,
            what,
            "room ids have 1 to 128 bytes, no control characters; the group `default` takes the rest",
        );
        return None;
    }
    Some(make(text.to_owned()))
}

fn offered(reader: &mut Reader<'_>, node: &Node<'_>, group: &str) {
    match reader.string(node, "group.offered", "offered = \"events\"") {
        Some("events") | None => {}
        Some("events+refused") => reader.notes.push(format!(
            "group `{group}`: offered = \"events+refused\" is known, but this version reads no edge \
             reports: events alone are counted"
        )),
        Some(other) => {
            let what = format!("`group.offered` is {}", quoted(other));
            reader.fault(node.span().start, what, "`events` or `events+refused`");
        }
    }
}

fn shape(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Shape> {
    let table = reader.table(node, "shape", SHAPE_FORM)?;
    let known: Vec<&str> = SHAPE.iter().map(|s| s.key).collect();
    reader.unknown_keys(table, "in `shape`", &known);
    let mut values = [None; 3];
    for (setting, out) in SHAPE.iter().zip(&mut values) {
        match table.get(setting.key) {
            Some(n) => *out = reader.value(n, &format!("shape.{}", setting.key), setting, None),
            None => {
                let what = format!("`shape` without `{}`", setting.key);
                reader.fault(node.span().start, what, format!("as in `{SHAPE_FORM}`"));
            }
        }
    }
    let n = |v: Option<Fixed>| v.and_then(|v| u32::try_from(v.0 / ONE).ok());
    let [capacity, max_wait, drain] = values.map(n);
    Some(Shape { capacity: capacity?, max_wait_ms: max_wait?, drain_qps: drain? })
}

/// `set = { burst.min_count_60s = 300 }`: settings by kind.
fn set(
    reader: &mut Reader<'_>,
    node: &Node<'_>,
    base: &RuleSet,
    places: &mut BTreeMap<String, usize>,
) -> BTreeMap<String, Fixed> {
    let mut out = BTreeMap::new();
    let Some(table) = reader.table(node, "set", "set = { burst.min_count_60s = 300 }") else {
        return out;
    };
    for (key, value) in table {
        let kind: &str = key.get_ref();
        if LATER_KINDS.contains(&kind) {
            let note = format!("set.{kind}: rules of kind {kind} are not decided by this version");
            reader.notes.push(note);
        } else if KINDS.contains(&kind) {
            let example = format!("set = {{ {kind}.exit_ticks = 100 }}");
            if let Some(inner) = reader.table(value, &format!("set.{kind}"), &example) {
                set_of_kind(reader, kind, inner, base, &mut out, places);
            }
        } else {
            let hint = match nearest(kind, &KINDS) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("settings stand behind a kind of rule: {}", listed(&KINDS)),
            };
            let what = format!("unknown kind of rule {} in `set`", quoted(kind));
            reader.fault(key.span().start, what, hint);
        }
    }
    out
}

fn set_of_kind(
    reader: &mut Reader<'_>,
    kind: &str,
    table: &DeTable<'_>,
    base: &RuleSet,
    out: &mut BTreeMap<String, Fixed>,
    places: &mut BTreeMap<String, usize>,
) {
    let settings = keys::settings(kind);
    let threshold = keys::step_threshold(kind);
    let known: Vec<&str> =
        settings.iter().map(|s| s.key).chain(threshold.map(|_| "steps")).collect();
    reader.unknown_keys(table, &format!("in `set.{kind}`"), &known);
    let shipped = base.rules.iter().map(|r| &r.trigger).find(|t| t.kind() == kind);
    let mut take = |reader: &mut Reader<'_>, key: &str, node: &Node<'_>, setting, usual| {
        let name = format!("{kind}.{key}");
        if let Some(v) = reader.value(node, &format!("set.{name}"), setting, usual) {
            places.insert(name.clone(), node.span().start);
            out.insert(name, v);
        }
    };
    for setting in settings {
        if let Some(node) = table.get(setting.key) {
            let usual = shipped.and_then(|t| t.get(setting.key));
            take(reader, setting.key, node, setting, usual);
        }
    }
    let (Some(threshold), Some(node)) = (threshold, table.get("steps")) else { return };
    let path = format!("set.{kind}.steps");
    let DeValue::Table(steps) = node.get_ref() else {
        let example = format!("set = {{ {kind}.steps.1 = 3 }}");
        reader.wrong_type(node, &path, "a table of levels", &example);
        return;
    };
    reader.unknown_keys(steps, &format!("in `{path}`"), &["1", "2", "3"]);
    for level in ["1", "2", "3"] {
        if let Some(node) = steps.get(level) {
            take(reader, &format!("steps.{level}"), node, &threshold, None);
        }
    }
}
