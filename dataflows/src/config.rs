//! Configuration in differential: rules × groups → what holds for each group, as changes only.

use crate::Time;
use crate::gauge::Gauge;
use crate::rulebook::Row;
use barrage_engine::rules::{Config, Group, Ladder, Matcher, Rule, resolve};
use differential_dataflow::VecCollection;
use differential_dataflow::trace::implementations::{ValBatcher, ValBuilder, ValSpine};
use serde::{Deserialize, Serialize};
use timely::dataflow::StreamVec;
use timely::dataflow::operators::vec::Broadcast;

/// What holds for one group, with the matcher that says which rooms it holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Placed {
    /// Which rooms.
    pub(crate) matcher: Matcher,
    /// What holds for them.
    pub(crate) config: Config,
}

/// A change: the group's place in the order, what holds or no longer holds for it, from which slot, +1 or −1.
pub(crate) type Change = ((u16, Placed), Time, isize);

/// What meets at a group before it is resolved.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
enum Part {
    Group(Group),
    Frame(Ladder, String),
    Rule(Rule),
}

/// What a row is joined on: rules of one group by its name, everything else with every group.
type Key = Option<String>;

/// Resolves the rule set's rows and hands every change to every worker.
pub(crate) fn configs<'s>(
    rows: VecCollection<'s, Time, Row, isize>,
    gauge: &mut Gauge,
) -> StreamVec<'s, Time, Change> {
    let groups = rows.clone().flat_map(|row| match row {
        Row::Group(place, group) => {
            vec![(Some(group.id.clone()), (place, group.clone())), (None, (place, group))]
        }
        _ => Vec::new(),
    });
    let offers = rows.flat_map(|row| match row {
        Row::Rule(rule) => Some((rule.group.clone(), Part::Rule(rule))),
        Row::Frame(ladder, hash) => Some((None, Part::Frame(ladder, hash))),
        Row::Group(..) => None,
    });
    let groups = groups
        .arrange_named::<ValBatcher<Key, (u16, Group), _, _>, ValSpine<Key, _, _, _>>(
            "Groups",
            ValBatcher::new,
        );
    let offers = offers.arrange_named::<ValBatcher<Key, Part, _, _>, ValSpine<Key, _, _, _>>(
        "Rules",
        ValBatcher::new,
    );
    let met = groups.clone().join_core(offers.clone(), |_key, (place, group), part| {
        Some(((*place, group.clone()), part.clone()))
    });
    // The group travels with its parts; put behind the key, so that one group's parts meet.
    let met = met.flat_map(|((place, group), part)| match part {
        frame @ Part::Frame(..) => vec![(place, Part::Group(group)), (place, frame)],
        part => vec![(place, part)],
    });
    let met = met.arrange_named::<ValBatcher<u16, Part, _, _>, ValSpine<u16, _, _, _>>(
        "Parts",
        ValBatcher::new,
    );
    let resolved = met
        .clone()
        .reduce_abelian::<_, ValBuilder<u16, Placed, _, _>, ValSpine<u16, Placed, _, isize>, _, _>(
            "Resolve",
            |_place, parts, out| out.extend(resolved(parts).map(|placed| (placed, 1))),
            |vec, key, upds| {
                vec.clear();
                vec.extend(upds.drain(..).map(|(v, t, r)| ((*key, v), t, r)));
            },
        );
    gauge.watch(&groups.trace);
    gauge.watch(&offers.trace);
    gauge.watch(&met.trace);
    gauge.watch(&resolved.trace);
    // What `reduce` emits is consolidated: only changes leave.
    resolved.as_collection(|place, placed| (*place, placed.clone())).inner.broadcast()
}

/// The group's parts, resolved; nothing while the set is incomplete.
fn resolved(parts: &[(&Part, isize)]) -> Option<Placed> {
    let (mut of, mut frame, mut rules) = (None, None, Vec::new());
    for (part, _) in parts {
        match part {
            Part::Group(group) => of = Some(group),
            Part::Frame(ladder, hash) => frame = Some((ladder, hash)),
            Part::Rule(rule) => rules.push(rule.clone()),
        }
    }
    let (group, (ladder, hash)) = (of?, frame?);
    let config = resolve(group, ladder, hash, &rules);
    Some(Placed { matcher: group.matcher.clone(), config })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rulebook;
    use barrage_engine::fixed::Fixed;
    use barrage_engine::rules::{Mode, RuleSet};
    use differential_dataflow::input::Input;
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::rc::Rc;
    use timely::dataflow::operators::{Inspect, Probe};

    /// A rule set drawn by the seed: groups and rules come, go, change places and values.
    fn draw(seed: u64) -> RuleSet {
        let mut rules = RuleSet::shipped();
        let mut state = seed;
        let mut below = |n: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % n
        };
        let base = rules.groups[0].clone();
        rules.groups = (0..1 + below(5))
            .map(|i| {
                let mut group = base.clone();
                group.id = format!("g{}", (i * 7 + below(2)) % 9);
                group.matcher = Matcher::Prefix(format!("p{}", below(4)));
                let value = Fixed::int(100 + below(3) as i64);
                group.set = BTreeMap::from([("burst.min_count_60s".to_owned(), value)]);
                group
            })
            .collect();
        let names: Vec<String> = rules.groups.iter().map(|g| g.id.clone()).collect();
        rules.rules.retain(|_| below(4) > 0);
        for rule in &mut rules.rules {
            rule.group = (below(3) == 0).then(|| names[below(names.len())].clone());
            rule.mode = if below(5) == 0 { Mode::Off } else { Mode::Enforce };
            rule.version = below(3) as u64;
        }
        rules.ladder.min_dwell = below(2) as u64;
        rules.hash = format!("{:064x}", below(1_000));
        rules
    }

    /// The join against resolving every set from scratch, set after set; and only changes leave.
    #[test]
    fn the_join_is_what_resolving_from_scratch_gives() {
        for seed in 0..40 {
            timely::execute_directly(move |worker| {
                let seen: Rc<RefCell<Vec<Change>>> = Rc::default();
                let sink = Rc::clone(&seen);
                let (mut input, probe) = worker.dataflow::<Time, _, _>(|scope| {
                    let (input, rows) = scope.new_collection::<Row, isize>();
                    let out = configs(rows, &mut Gauge::default());
                    let (probe, _) =
                        out.inspect(move |c| sink.borrow_mut().push(c.clone())).probe();
                    (input, probe)
                });
                let mut standing: BTreeMap<(u16, Placed), isize> = BTreeMap::new();
                let mut old = std::collections::BTreeSet::new();
                for t in 0..8u64 {
                    let rules = draw(seed * 100 + t);
                    let rows = rulebook::rows(&rules);
                    for (row, diff) in rulebook::difference(&old, &rows) {
                        input.update(row, diff);
                    }
                    old = rows;
                    input.advance_to(t + 1);
                    input.flush();
                    worker.step_while(|| probe.less_than(&(t + 1)));
                    for ((place, placed), _, diff) in seen.borrow_mut().drain(..) {
                        let weight = standing.entry((place, placed)).or_default();
                        *weight += diff;
                        assert!(diff.abs() == 1 && (0..=1).contains(weight), "seed {seed}: {diff}");
                    }
                    standing.retain(|_, w| *w != 0);
                    let got: Vec<Config> = standing.keys().map(|(_, p)| p.config.clone()).collect();
                    assert_eq!(got, rules.configs(), "seed {seed}, set {t}");
                    let matchers = standing.keys().map(|(_, p)| &p.matcher);
                    assert!(matchers.eq(rules.groups.iter().map(|g| &g.matcher)), "seed {seed}");
                }
            });
        }
    }
}
