//! Sink operators: decisions and rows leave, and the frontier behind them says when a slot is complete.

use crate::Time;
use crate::report::{Outlet, Report};
use barrage_protocol::decision::Decision;
use barrage_protocol::ids::Slot;
use timely::dataflow::StreamVec;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::Operator;

/// Sends decisions as they come; worker 0 reports the slots complete on all workers: timely's frontier counts what
/// any worker's sink has not yet taken, and a sink sends before it lets go.
pub(crate) fn decisions(stream: StreamVec<'_, Time, Decision>, first: Slot, outlet: Outlet) {
    let leads = stream.scope().index() == 0;
    let mut complete = first.0;
    stream.sink(Pipeline, "Decisions", move |(input, frontier)| {
        input.for_each(|_, batch| {
            if !batch.is_empty() {
                outlet.send(Report::Decisions(std::mem::take(batch)));
            }
        });
        let Some(&open) = frontier.frontier().first() else { return };
        if leads && open > complete {
            complete = open;
            outlet.send(Report::Complete(Slot(open)));
        }
    });
}
