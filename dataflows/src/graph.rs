//! The whole graph, joined.

use crate::command::{Command, Options};
use crate::report::Outlet;
use crate::snapshot::Snapshot;
use crate::view::Latest;
use crate::{Time, outlet, source};
use barrage_engine::rules::RuleSet;
use barrage_protocol::decision::Decision;
use barrage_protocol::ids::Slot;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::Operator;
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
        let decided = streams.counts.unary::<CapacityContainerBuilder<Vec<Decision>>, _, _, _>(
            Exchange::new(|r: &barrage_engine::precount::Record| crate::route(r.room)),
            "Rooms",
            |_, _| |input, _output| input.for_each(|_, batch| batch.clear()),
        );
        outlet::decisions(decided, setup.first, outlet.clone());
        streams.wake
    })
}
