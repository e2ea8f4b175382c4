//! What every part of the reading shares: collecting problems with their places, and reading one value with its range.

use crate::fixed::Fixed;
use crate::rules::keys::{Setting, Unit};
use crate::rules::text::{
    self, Lines, listed, nearest, quoted, show_fixed, show_ms, show_slots, type_name,
};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Problems beyond so many are counted, not told: nobody reads them, and hostile text may hold half a million.
const MAX_PROBLEMS: usize = 200;
/// Longest id of a rule, group or switch.
pub(super) const MAX_ID: usize = 64;

/// A value of the text with its place.
pub(super) type Node<'a> = Spanned<DeValue<'a>>;

/// One mistake in a rule set, with its place and a way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub what: String,
    /// What was probably meant, which values are valid, or an example.
    pub hint: Option<String>,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.what)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

/// Collects what is found while reading.
pub(super) struct Reader<'t> {
    lines: Lines<'t>,
    problems: Vec<Problem>,
    more: usize,
    /// Told to whoever loads the set.
    pub(super) notes: Vec<String>,
    /// Whether a setting left out is a problem: so is the shipped set read, which defines the defaults.
    pub(super) complete: bool,
}

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str, complete: bool) -> Self {
        Self { lines: Lines::of(text), problems: Vec::new(), more: 0, notes: Vec::new(), complete }
    }

    /// Notes a problem at a byte offset of the text.
    pub(super) fn fault(&mut self, at: usize, what: impl Into<String>, hint: impl Into<String>) {
        if self.problems.len() >= MAX_PROBLEMS {
            self.more += 1;
            return;
        }
        let (line, column) = self.lines.place(at);
        let hint = Some(hint.into()).filter(|h| !h.is_empty());
        self.problems.push(Problem { line, column, what: what.into(), hint });
    }

    /// Everything found, in the order of the text.
    pub(super) fn into_problems(mut self) -> Vec<Problem> {
        self.problems.sort_by(|a, b| (a.line, a.column, &a.what).cmp(&(b.line, b.column, &b.what)));
        self.problems.dedup();
        if let (true, Some(last)) = (self.more > 0, self.problems.last()) {
            let what = format!("and {} more problems", self.more);
            let (line, column) = (last.line, last.column);
            self.problems.push(Problem { line, column, what, hint: None });
        }
        self.problems
    }

    pub(super) fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    /// A setting that the shipped set must hold is missing.
    pub(super) fn missing(&mut self, at: usize, path: &str, key: &str) {
        if self.complete {
            self.fault(at, format!("`{path}.{key}` is missing"), "");
        }
    }

    /// Reports the keys of a table that are not known there.
    pub(super) fn unknown_keys(&mut self, table: &DeTable<'_>, place: &str, known: &[&str]) {
        for key in table.keys() {
            let name: &str = key.get_ref();
            if !known.contains(&name) {
                self.unknown(key.span().start, name, place, known);
            }
        }
    }

    /// Reports one unknown key with the nearest known name.
    pub(super) fn unknown(&mut self, at: usize, name: &str, place: &str, known: &[&str]) {
        let hint = match nearest(name, known) {
            Some(near) => format!("did you mean `{near}`?"),
            // A table ends only where the next begins, so what should stand above it easily falls into it.
            None if super::TOP.contains(&name) => {
                "it belongs at the top, before the first [table]".to_owned()
            }
            None => format!("known here: {}", listed(known)),
        };
        self.fault(at, format!("unknown key {} {place}", quoted(name)), hint);
    }

    /// The value as a table, or a problem.
    pub(super) fn table<'v, 'a>(
        &mut self,
        node: &'v Node<'a>,
        path: &str,
        example: &str,
    ) -> Option<&'v DeTable<'a>> {
        let table = node.get_ref().as_table();
        if table.is_none() {
            self.wrong_type(node, path, "a table", example);
        }
        table
    }

    /// The value as a text, or a problem.
    pub(super) fn string<'v>(
        &mut self,
        node: &'v Node<'_>,
        path: &str,
        example: &str,
    ) -> Option<&'v str> {
        let text = node.get_ref().as_str();
        if text.is_none() {
            self.wrong_type(node, path, "a text", example);
        }
        text
    }

    pub(super) fn wrong_type(&mut self, node: &Node<'_>, path: &str, want: &str, example: &str) {
        let is = type_name(node.get_ref());
        let hint = if example.is_empty() { String::new() } else { format!("as in `{example}`") };
        self.fault(node.span().start, format!("`{path}` must be {want}, not {is}"), hint);
    }

    /// An id of a rule, group or switch.
    pub(super) fn id(&mut self, node: &Node<'_>, path: &str) -> Option<String> {
        let id = self.string(node, path, "burst-chat")?;
        let at = node.span().start;
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if id.is_empty() || !id.chars().all(allowed) {
            let what = format!("{} cannot be an id", quoted(id));
            self.fault(at, what, "letters a–z, digits, `_`, `-` and `.`; at least one");
            return None;
        }
        if id.len() > MAX_ID {
            let what = format!("the id {} has {} characters", quoted(id), id.len());
            self.fault(at, what, format!("at most {MAX_ID}"));
            return None;
        }
        Some(id.to_owned())
    }

    /// A whole number within bounds.
    pub(super) fn whole(
        &mut self,
        node: &Node<'_>,
        path: &str,
        range: (i64, i64),
        example: &str,
    ) -> Option<i64> {
        let Some(number) = node.get_ref().as_integer() else {
            self.wrong_type(node, path, "a whole number", example);
            return None;
        };
        let value = text::integer(number).filter(|n| (range.0..=range.1).contains(n));
        if value.is_none() {
            let what = format!("`{path}` is {}, out of range", quoted(number.as_str()));
            let hint = format!("{} to {}, as in `{example}`", range.0, range.1);
            self.fault(node.span().start, what, hint);
        }
        value
    }

    /// The value of a setting, in its unit and within its range. `usual` is the value for the example.
    pub(super) fn value(
        &mut self,
        node: &Node<'_>,
        path: &str,
        setting: &Setting,
        usual: Option<Fixed>,
    ) -> Option<Fixed> {
        let usual = show(setting.unit, usual.unwrap_or(setting.min));
        let range = format!(
            "{} to {}, as in `{} = {usual}`",
            show(setting.unit, setting.min),
            show(setting.unit, setting.max),
            setting.key
        );
        match measured(node.get_ref(), setting.unit) {
            Ok(v) if (setting.min..=setting.max).contains(&v) => Some(v),
            Ok(v) => {
                let what = format!("`{path}` is {}, out of range", show(setting.unit, v));
                self.fault(node.span().start, what, range);
                None
            }
            Err(why) => {
                let written = match node.get_ref() {
                    DeValue::String(s) => quoted(s),
                    DeValue::Integer(n) => quoted(n.as_str()),
                    DeValue::Float(x) => quoted(x.as_str()),
                    other => type_name(other).to_owned(),
                };
                self.fault(node.span().start, format!("`{path}`: {written} {why}"), range);
                None
            }
        }
    }
}

/// A written value in millionths of its unit (times in slots or milliseconds); `Err` completes "… is not".
fn measured(value: &DeValue<'_>, unit: Unit) -> Result<Fixed, &'static str> {
    let whole = |n: u64| i64::try_from(n).ok().filter(|n| *n < 1_000_000_000_000).map(Fixed::int);
    match (unit, value) {
        (Unit::Ratio | Unit::PerSecond, v) => text::decimal(v),
        (Unit::Events | Unit::Ticks, DeValue::Integer(_)) => text::decimal(value),
        (Unit::Events | Unit::Ticks, _) => Err("is not a whole number"),
        (Unit::Time, DeValue::String(s)) => {
            text::duration_slots(s).and_then(|n| whole(n).ok_or("is too long"))
        }
        (Unit::Millis, DeValue::String(s)) => {
            text::duration_ms(s).and_then(|n| whole(n).ok_or("is too long"))
        }
        (Unit::Time | Unit::Millis, _) => Err("is not a time with its unit"),
    }
}

/// A value as it would be written in a rule set.
#[must_use]
pub fn show(unit: Unit, v: Fixed) -> String {
    let whole = u64::try_from(v.0 / crate::fixed::ONE).unwrap_or(0);
    match unit {
        Unit::Time => format!("\"{}\"", show_slots(whole)),
        Unit::Millis => format!("\"{}\"", show_ms(whole)),
        _ => show_fixed(v),
    }
}
