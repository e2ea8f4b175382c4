//! Masks operator, in the place of Rooms and all behind it: which rules would enter, for comparison with a plain
//! program that does the same work without a dataflow.

use crate::graph::Setup;
use crate::report::{Masked, Outlet, Report};
use crate::{Time, route};
use barrage_engine::precount::Record;
use barrage_engine::room::{entering, may_enter};
use barrage_engine::rules::{Config, Floors, Trigger};
use barrage_engine::windows::{Idx, Windows};
use barrage_protocol::ids::Slot;
use std::collections::BTreeMap;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::StreamVec;
use timely::dataflow::channels::pact::{Exchange, Pipeline};
use timely::dataflow::operators::Operator;

/// Builds the operator and its sink.
pub(crate) fn masks<'s>(counts: StreamVec<'s, Time, Record>, setup: &Setup, outlet: Outlet) {
    let first = setup.first;
    let mut config = setup.rules.configs().pop();
    if let Some(config) = &mut config {
        config.rules.retain(|rule| !matches!(rule.trigger, Trigger::Surge(_)));
    }
    let masks = counts.unary_frontier::<CapacityContainerBuilder<Vec<Masked>>, _, _, _>(
        Exchange::new(|r: &Record| route(r.room)),
        "Masks",
        move |cap, _| {
            let mut cap = Some(cap);
            let mut counts: BTreeMap<Time, Vec<Record>> = BTreeMap::new();
            let mut spare = Vec::new();
            let mut judge = config.map(|config| Judge::new(first, config));
            move |(counts_in, frontier), output| {
                counts_in.for_each(|at, batch| {
                    if let Some(&at) = at.least() {
                        let slot = counts.entry(at);
                        slot.or_insert_with(|| std::mem::take(&mut spare)).append(batch);
                    }
                });
                let (Some(held), Some(judge)) = (cap.as_mut(), judge.as_mut()) else { return };
                let Some(&open) = frontier.frontier().first() else {
                    cap = None;
                    return;
                };
                let mut out = Vec::new();
                while judge.windows.next().0 < open {
                    let slot = judge.windows.next().0;
                    let records = counts.remove(&slot).unwrap_or_default();
                    judge.close(&records, &mut out);
                    spare = records;
                    spare.clear();
                }
                if !out.is_empty() {
                    output.session(&*held).give_container(&mut out);
                }
                held.downgrade(&judge.windows.next().0);
            }
        },
    );
    let leads = masks.scope().index() == 0;
    let mut complete = first.0;
    masks.sink(Pipeline, "MasksOut", move |(input, frontier)| {
        input.for_each(|_, batch| outlet.send(Report::Masks(std::mem::take(batch))));
        let Some(&open) = frontier.frontier().first() else { return };
        if leads && open > complete {
            complete = open;
            outlet.send(Report::Complete(Slot(open)));
        }
    });
}

/// The windows, the rules, and how things stood a slot ago.
struct Judge {
    windows: Windows,
    config: Config,
    due: Vec<Idx>,
    /// Masks by room index.
    masks: Vec<u32>,
    /// Rooms whose mask is not empty.
    on: Vec<Idx>,
}

impl Judge {
    fn new(first: Slot, config: Config) -> Self {
        let mut windows = Windows::new(first);
        windows.set_floors(Floors::of(std::slice::from_ref(&config)));
        Self { windows, config, due: Vec::new(), masks: Vec::new(), on: Vec::new() }
    }

    fn close(&mut self, records: &[Record], out: &mut Vec<Masked>) {
        let slot = self.windows.next();
        let mut due = std::mem::take(&mut self.due);
        self.windows.close(records, &mut due);
        // A room that left the list may have left its rules with it.
        due.append(&mut self.on);
        for &idx in &due {
            let at = idx.0 as usize;
            if self.masks.len() <= at {
                self.masks.resize(at + 1, 0);
            }
            let (before, mask) = (self.masks[at], self.mask(idx));
            if mask != before {
                self.masks[at] = mask;
                out.push(self.masked(slot, idx, mask));
            }
        }
        // A room may stand in the list twice; its second look found nothing new.
        self.on.extend(due.iter().filter(|idx| self.masks[idx.0 as usize] != 0));
        self.on.sort_unstable();
        self.on.dedup();
        self.due = due;
    }

    fn mask(&self, idx: Idx) -> u32 {
        if self.windows.glance(idx).is_some_and(|seen| !may_enter(&self.config, &seen)) {
            return 0;
        }
        entering(&self.config, &self.windows.features(idx))
    }

    fn masked(&self, slot: Slot, idx: Idx, mask: u32) -> Masked {
        let f = self.windows.features(idx);
        Masked { slot, room: self.windows.key(idx), mask, classes: f.classes, outcomes: f.outcomes }
    }
}
