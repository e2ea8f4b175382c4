//! Rows operator, in the place of Rooms and all behind it: one plain rule on every room at every slide, for comparison
//! with other engines on equal terms. No warm-up, no ladder, no memory beyond the windows.

use crate::note::Note;
use crate::report::{Outlet, Report, Row};
use crate::{Time, route};
use barrage_engine::precount::Record;
use barrage_engine::rules::Floors;
use barrage_engine::windows::{Idx, Windows};
use barrage_protocol::ids::Slot;
use std::collections::BTreeMap;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::StreamVec;
use timely::dataflow::channels::pact::{Exchange, Pipeline};
use timely::dataflow::operators::Operator;

/// `count_60s > min_count_60s and 2 · count_10s > count_60s`, at slots whose end is a multiple of `slide`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    pub(crate) min_count_60s: u32,
    pub(crate) slide: u64,
}

/// Builds the operator and its sink.
pub(crate) fn rows<'s>(
    counts: StreamVec<'s, Time, Record>,
    notes: StreamVec<'s, Time, Note>,
    first: Slot,
    rule: Rule,
    outlet: Outlet,
) {
    let rows = counts.binary_frontier::<_, CapacityContainerBuilder<Vec<Row>>, _, _, _, _>(
        notes,
        Exchange::new(|r: &Record| route(r.room)),
        Exchange::new(Note::route),
        "Rows",
        move |cap, _| {
            let mut cap = Some(cap);
            let mut counts: BTreeMap<Time, Vec<Record>> = BTreeMap::new();
            let mut judge = Judge::new(first, rule);
            move |(counts_in, counts_front), (notes_in, notes_front), output| {
                counts_in.for_each(|at, batch| {
                    if let Some(&at) = at.least() {
                        counts.entry(at).or_default().append(batch);
                    }
                });
                notes_in.for_each(|_, batch| batch.drain(..).for_each(|note| judge.name(note)));
                let Some(held) = cap.as_mut() else { return };
                let fronts = [counts_front.frontier(), notes_front.frontier()];
                let (Some(&a), Some(&b)) = (fronts[0].first(), fronts[1].first()) else {
                    cap = None;
                    return;
                };
                let mut out = Vec::new();
                while judge.windows.next().0 < a.min(b) {
                    let slot = judge.windows.next().0;
                    judge.close(&counts.remove(&slot).unwrap_or_default(), &mut out);
                }
                if !out.is_empty() {
                    output.session(&*held).give_container(&mut out);
                }
                held.downgrade(&judge.windows.next().0);
            }
        },
    );
    let leads = rows.scope().index() == 0;
    let mut complete = first.0;
    rows.sink(Pipeline, "RowsOut", move |(input, frontier)| {
        input.for_each(|_, batch| outlet.send(Report::Rows(std::mem::take(batch))));
        let Some(&open) = frontier.frontier().first() else { return };
        if leads && open > complete {
            complete = open;
            outlet.send(Report::Complete(Slot(open)));
        }
    });
}

/// The windows, and the rule on them.
struct Judge {
    windows: Windows,
    rule: Rule,
    due: Vec<Idx>,
}

impl Judge {
    fn new(first: Slot, rule: Rule) -> Self {
        let mut windows = Windows::new(first);
        let count_60s = rule.min_count_60s;
        windows.set_floors(Floors { count_60s, count_100ms: u32::MAX, surge_c: None });
        Self { windows, rule, due: Vec::new() }
    }

    fn name(&mut self, note: Note) {
        if let Note::Name(key, name) = note {
            self.windows.name(key, &name);
        }
    }

    fn close(&mut self, records: &[Record], out: &mut Vec<Row>) {
        let slot = self.windows.next();
        let mut due = std::mem::take(&mut self.due);
        self.windows.close(records, &mut due);
        if slot.0.saturating_add(1).is_multiple_of(self.rule.slide.max(1)) {
            out.extend(due.iter().filter_map(|&idx| self.row(idx, slot)));
        }
        self.due = due;
    }

    fn row(&self, idx: Idx, slot: Slot) -> Option<Row> {
        let f = self.windows.features(idx);
        let (c60, c10) = (f.count_60s, f.count_10s);
        let holds = c60 > self.rule.min_count_60s && 2 * u64::from(c10) > u64::from(c60);
        holds.then(|| Row {
            slot,
            room: self.windows.room(idx).into(),
            count_60s: c60,
            count_10s: c10,
        })
    }
}
