//! The whole graph, joined.

use crate::command::{Command, Mode, Options, TOP_MAX};
use crate::gauge::Gauge;
use crate::report::Outlet;
use crate::rooms::{self, Inputs, Plan};
use crate::snapshot::Snapshot;
use crate::source::Streams;
use crate::view::Latest;
use crate::{Time, arbiter, config, masks, outlet, present, rows, source, top, totals};
use barrage_engine::rules::RuleSet;
use barrage_protocol::ids::Slot;
use differential_dataflow::AsCollection;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use timely::dataflow::Scope;
use timely::dataflow::operators::{Concat, ConnectLoop, Feedback};
use timely::scheduling::SyncActivator;
use timely::worker::Worker;

/// What every worker of a graph is built from.
#[derive(Clone, Debug)]
pub struct Setup {
    /// First slot to close.
    pub first: Slot,
    /// Rules in force from it.
    pub rules: Arc<RuleSet>,
    /// Slow state to go on from: slots up to its own close without deciding.
    pub snapshot: Option<Arc<Snapshot>>,
    /// Choices.
    pub options: Options,
}

/// Builds the graph on this worker. The activator wakes it after commands were sent.
pub fn build(
    worker: &mut Worker,
    setup: &Setup,
    commands: Receiver<Command>,
    outlet: &Outlet,
    latest: &Latest,
) -> SyncActivator {
    worker.dataflow_named::<Time, _, _>("Barrage", |scope| {
        let streams = source::source(scope, setup.first, &setup.rules, commands, outlet.clone());
        let wake = streams.wake.clone();
        match setup.options.mode {
            Mode::Decide => decide(scope, streams, setup, outlet, latest),
            Mode::Rows { min_count_60s, slide } => {
                let rule = rows::Rule { min_count_60s, slide };
                rows::rows(streams.counts, streams.notes, setup.first, rule, outlet.clone());
            }
            Mode::Masks => masks::masks(streams.counts, setup, outlet.clone()),
        }
        wake
    })
}

/// Everything behind the source, with the rules deciding.
fn decide<'s>(
    scope: Scope<'s, Time>,
    streams: Streams<'s>,
    setup: &Setup,
    outlet: &Outlet,
    latest: &Latest,
) {
    let (view, top_k) = (setup.options.view, setup.options.top.min(TOP_MAX));
    let mut gauge = Gauge::default();
    let configs = config::configs(streams.rules.as_collection(), &mut gauge);
    let (back, grants) = scope.feedback(1);
    let inputs = Inputs { counts: streams.counts, notes: streams.notes, configs, grants };
    let plan = Plan {
        first: setup.first,
        snapshot: setup.snapshot.clone(),
        top: view.then_some(top_k),
        outlet: outlet.clone(),
        latest: latest.clone(),
        spans: setup.options.spans,
        fail: setup.options.fail.filter(|(w, _)| *w == scope.index()).map(|(_, slot)| slot),
    };
    let rooms = rooms::rooms(inputs, plan);
    let (answered, granted) =
        arbiter::arbiter(rooms.parts, setup.first, setup.snapshot.as_deref(), outlet.clone());
    granted.connect_loop(back);
    // Decisions are complete here, before top K and totals have seen the slot.
    outlet::decisions(rooms.decisions.concat(answered), setup.first, outlet.clone());
    if view {
        let top = top::top(rooms.hot.as_collection(), top_k, &mut gauge);
        let totals = totals::totals(rooms.tallies.as_collection(), &mut gauge);
        let (first, latest) = (setup.first, latest.clone());
        present::present(top.inner, totals.inner, first, gauge, latest, outlet.clone());
    }
}
