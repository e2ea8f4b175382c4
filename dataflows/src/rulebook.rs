//! A rule set as rows: what differential joins, and the difference between two sets.

use barrage_engine::rules::{Group, Ladder, Rule, RuleSet};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// One row of a rule set.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum Row {
    /// Ladder and hash: one in a set.
    Frame(Ladder, String),
    /// A group at its place in the order.
    Group(u16, Group),
    /// A rule.
    Rule(Rule),
}

/// The rows of a rule set.
pub(crate) fn rows(rules: &RuleSet) -> BTreeSet<Row> {
    let frame = Row::Frame(rules.ladder.clone(), rules.hash.clone());
    let groups = (0..).zip(&rules.groups).map(|(i, g)| Row::Group(i, g.clone()));
    let rules = rules.rules.iter().map(|r| Row::Rule(r.clone()));
    std::iter::once(frame).chain(groups).chain(rules).collect()
}

/// What must be taken out (−1) and put in (+1) to make `new` of `old`.
pub(crate) fn difference<'a>(
    old: &'a BTreeSet<Row>,
    new: &'a BTreeSet<Row>,
) -> impl Iterator<Item = (Row, isize)> + use<'a> {
    let out = old.difference(new).map(|r| (r.clone(), -1));
    let put = new.difference(old).map(|r| (r.clone(), 1));
    out.chain(put)
}
