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
