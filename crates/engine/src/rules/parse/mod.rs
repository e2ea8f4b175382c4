//! Reading a rule set: the whole text is read and every problem told, with place and way out; only a set without any
//! is accepted.

mod check;
mod groups;
mod ladder;
mod reader;
mod rules;

pub use reader::{Problem, show};

use super::{Ladder, RuleSet};
use crate::fixed::Fixed;
use reader::Reader;
use std::collections::BTreeMap;
use toml::de::DeTable;

/// Longest text of a rule set, in bytes.
pub const MAX_TEXT: usize = 1 << 20;
/// Most rules in a set.
pub const MAX_RULES: usize = 32;
/// Most groups in a set.
pub const MAX_GROUPS: usize = 256;
/// Version of the language of rule sets.
pub const SCHEMA: i64 = 1;

/// Keys at the top of a rule set.
pub const TOP: [&str; 7] = ["schema", "ladder", "levels", "plan", "classes", "group", "rule"];

/// Reads a rule set. What it leaves out holds as in the shipped set.
///
/// # Errors
/// Every problem of the text, in its order (from 200 on they are only counted). The text is not used in part.
pub fn parse(text: &str) -> Result<RuleSet, Vec<Problem>> {
    read(text, Some(RuleSet::shipped_ref()))
}

/// Reads the shipped text, which defines the defaults and so must hold every setting.
pub(super) fn shipped(text: &str) -> RuleSet {
    match read(text, None) {
        Ok(set) => set,
        // The text is part of the program; a test reads it.
        Err(problems) => panic!("the shipped rule set is wrong: {problems:?}"),
    }
}

fn read(text: &str, base: Option<&RuleSet>) -> Result<RuleSet, Vec<Problem>> {
    let mut reader = Reader::new(if text.len() > MAX_TEXT { "" } else { text }, base.is_none());
    if text.len() > MAX_TEXT {
        reader.fault(
            0,
            format!("the text has {} bytes", text.len()),
            format!("a rule set has at most {MAX_TEXT}"),
        );
        return Err(reader.into_problems());
    }
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let at = error.span().map_or(0, |s| s.start);
        reader.fault(at, format!("not TOML: {}", error.message()), "");
    }
    let set = document_of(&mut reader, document.get_ref(), text, base);
    if reader.is_clean() { Ok(set) } else { Err(reader.into_problems()) }
}

fn document_of(
    reader: &mut Reader<'_>,
    document: &DeTable<'_>,
    text: &str,
    base: Option<&RuleSet>,
) -> RuleSet {
    reader.unknown_keys(document, "at the top of a rule set", &TOP);
    schema(reader, document);
    if document.contains_key("classes") {
        reader.notes.push(
            "[classes] is known, but this version classifies by its own table: not used".to_owned(),
        );
    }
    let blank = blank();
    let base = base.unwrap_or(&blank);
    let ladder = ladder::ladder(reader, document, &base.ladder);
    let plan = ladder::plan(reader, document, &base.plan);
    let levels = ladder::levels(reader, document, &base.levels, plan.len());
    let (groups, group_places) = groups::groups(reader, document, base);
    let (rules, rule_places) = rules::rules(reader, document, base, &groups);
    check::together(reader, &groups, &group_places, &rules, &rule_places);
    check::notes(reader, &groups, &rules);
    RuleSet {
        hash: blake3::hash(text.as_bytes()).to_hex().to_string(),
        text: text.to_owned(),
        ladder,
        levels,
        plan,
        groups,
        rules,
        notes: std::mem::take(&mut reader.notes),
    }
}

fn schema(reader: &mut Reader<'_>, document: &DeTable<'_>) {
    match document.get("schema") {
        None => reader.fault(0, "`schema` is missing", "begin with `schema = 1`"),
        Some(node) => {
            reader.whole(node, "schema", (SCHEMA, SCHEMA), "schema = 1");
        }
    }
}

/// What the shipped set is read over: nothing is set.
fn blank() -> RuleSet {
    RuleSet {
        hash: String::new(),
        text: String::new(),
        ladder: Ladder {
            min_dwell: 0,
            step_every: 0,
            max_moves: 0,
            moves_within: 6_000,
            blast_min: 0,
            blast_max_share: Fixed(0),
            blast_within: 0,
            blast_lift_ratio: Fixed(0),
            frozen_max: 0,
            frozen_alarm: 0,
        },
        levels: BTreeMap::new(),
        plan: Vec::new(),
        groups: Vec::new(),
        rules: Vec::new(),
        notes: Vec::new(),
    }
}
