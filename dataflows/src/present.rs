//! View operator: on worker 0, turns the changes of top K and totals into the newest view.

use crate::Time;
use crate::gauge::Gauge;
use crate::report::{Outlet, Report};
use crate::rooms::{Hot, SECOND};
use crate::totals::Subject;
use crate::view::{Latest, Tally, View};
use barrage_protocol::ids::Slot;
use std::collections::BTreeMap;
use timely::dataflow::StreamVec;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;

type Update<D> = (D, Time, isize);

/// Rows as they stand, by how often each holds: a replacement is one row out and one in, in any order.
struct Rows<D>(BTreeMap<D, isize>);

impl<D: Ord> Rows<D> {
    fn apply(&mut self, row: D, diff: isize) {
        let weight = self.0.entry(row);
        let weight = weight.and_modify(|w| *w += diff).or_insert(diff);
        if *weight == 0 {
            self.0.retain(|_, w| *w != 0);
        }
    }

    fn standing(&self) -> impl Iterator<Item = &D> {
        self.0.iter().filter(|(_, w)| **w > 0).map(|(row, _)| row)
    }
}

/// What waits for its second, and what stands.
struct Present {
    hot_ahead: Vec<Update<Hot>>,
    totals_ahead: Vec<Update<(Subject, Tally)>>,
    hot: Rows<Hot>,
    totals: Rows<(Subject, Tally)>,
}

/// Ends the view's part of the graph. `outlet` hears which slots' view has been taken in.
pub(crate) fn present<'s>(
    hot: StreamVec<'s, Time, Update<Hot>>,
    totals: StreamVec<'s, Time, Update<(Subject, Tally)>>,
    first: Slot,
    mut gauge: Gauge,
    latest: Latest,
    outlet: Outlet,
) {
    let scope = hot.scope();
    let (worker, leads) = (scope.index(), scope.index() == 0);
    let mut builder = OperatorBuilder::new("View".to_owned(), scope);
    let mut hot = builder.new_input(hot, Exchange::new(|_: &Update<Hot>| 0));
    let mut totals = builder.new_input(totals, Exchange::new(|_: &Update<(Subject, Tally)>| 0));
    let mut present = Present {
        hot_ahead: Vec::new(),
        totals_ahead: Vec::new(),
        hot: Rows(BTreeMap::new()),
        totals: Rows(BTreeMap::new()),
    };
    let mut taken = first.0;
    builder.build(move |_| {
        move |frontiers| {
            hot.for_each(|_, batch| present.hot_ahead.append(batch));
            totals.for_each(|_, batch| present.totals_ahead.append(batch));
            let fronts = frontiers.iter().filter_map(|f| f.frontier().first().copied());
            // An input that has ended ends the view: what it shows then is the last whole second.
            let Some(open) = fronts.min().filter(|open| *open > taken) else { return };
            taken = open;
            latest.traces(worker, gauge.read(open));
            if leads {
                present.apply(open);
                if let Some(slot) = open.checked_sub(SECOND).filter(|slot| *slot >= first.0) {
                    latest.set(present.view(Slot(slot)));
                }
                outlet.send(Report::Viewed(Slot(open)));
            }
        }
    });
}

impl Present {
    fn apply(&mut self, open: Time) {
        for (row, _, diff) in self.hot_ahead.extract_if(.., |u| u.1 < open) {
            self.hot.apply(row, diff);
        }
        for (row, _, diff) in self.totals_ahead.extract_if(.., |u| u.1 < open) {
            self.totals.apply(row, diff);
        }
    }

    fn view(&self, slot: Slot) -> View {
        let mut view = View { slot, ..View::default() };
        view.rooms = self.hot.standing().map(|hot| hot.room.clone()).collect();
        for (subject, tally) in self.totals.standing() {
            match subject {
                Some(group) => {
                    view.groups.insert(group.clone(), *tally);
                }
                None => view.site = *tally,
            }
        }
        view
    }
}
