//! Arbiter operator: one for all workers, on worker 0. It sees what every worker asked for in a slot, decides once the
//! slot is complete everywhere, and answers; the answers go back to the rooms' owners through the feedback edge.

use crate::Time;
use crate::report::{Outlet, Report};
use crate::rooms::{Out, alone};
use crate::snapshot::Snapshot;
use barrage_engine::blast::{Arbiter, Grant, Request, SiteTotals};
use barrage_engine::rules::Ladder;
use barrage_protocol::decision::Decision;
use barrage_protocol::ids::Slot;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use timely::dataflow::StreamVec;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::Capability;
use timely::dataflow::operators::generic::OutputBuilderSession;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;

/// What the workers tell the arbiter.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Part {
    /// Sums of one worker's rooms; a worker without any in a slot says nothing.
    Site { slot: Time, site: SiteTotals },
    /// A room asks.
    Request(Box<Request>),
    /// The ladder in force from this slot on, and the hash of its rule set.
    Frame { slot: Time, ladder: Box<Ladder>, hash: String },
    /// Hand out the state, once every slot before `next` is closed.
    Snapshot { next: Time },
}

/// What is known of a slot not yet closed.
#[derive(Default)]
struct Open {
    site: SiteTotals,
    requests: Vec<Request>,
    frame: Option<(Ladder, String)>,
}

/// The operator's state.
struct Bench {
    arbiter: Arbiter,
    /// The next slot to close.
    next: Time,
    open: BTreeMap<Time, Open>,
    frame: Option<(Ladder, String)>,
    snapshot: Option<Time>,
    outlet: Outlet,
}

/// Builds the operator. `first` is the first slot of the graph.
pub(crate) fn arbiter<'s>(
    parts: StreamVec<'s, Time, Part>,
    first: Slot,
    snapshot: Option<&Snapshot>,
    outlet: Outlet,
) -> (StreamVec<'s, Time, Decision>, StreamVec<'s, Time, Grant>) {
    let scope = parts.scope();
    let sits = scope.index() == 0;
    let mut builder = OperatorBuilder::new("Arbiter".to_owned(), scope);
    let mut input = builder.new_input(parts, Exchange::new(|_: &Part| 0));
    let (mut decisions_out, decisions) = alone::<Decision>(&mut builder);
    let (mut grants_out, grants) = alone::<Grant>(&mut builder);
    let mut bench = Bench {
        arbiter: snapshot.map(|s| s.arbiter.clone()).unwrap_or_default(),
        next: snapshot.map_or(first.0, |s| s.slot.0 + 1),
        open: BTreeMap::new(),
        frame: None,
        snapshot: None,
        outlet,
    };
    builder.build(move |mut caps| {
        let pair = caps.pop().zip(caps.pop());
        let mut caps = pair.filter(|_| sits);
        if let Some((grants, decisions)) = &mut caps {
            grants.downgrade(&first.0);
            decisions.downgrade(&first.0);
        }
        move |frontiers| {
            input.for_each(|_, batch| batch.drain(..).for_each(|part| bench.take(part)));
            let Some((grants, decisions)) = &mut caps else { return };
            let Some(&upto) = frontiers[0].frontier().first() else {
                caps = None;
                return;
            };
            // Before the rooms have spoken for the first time, their time is 0.
            let upto = upto.max(first.0);
            let mut decisions_out = decisions_out.activate();
            let mut grants_out = grants_out.activate();
            while bench.next < upto {
                bench.close(decisions, &mut decisions_out, grants, &mut grants_out);
            }
            bench.snapshot();
            // While restoring, the graph's slots run behind the arbiter's.
            decisions.downgrade(&upto);
            grants.downgrade(&upto);
        }
    });
    (decisions, grants)
}

impl Bench {
    fn take(&mut self, part: Part) {
        match part {
            Part::Site { slot, site } => {
                let open = &mut self.open.entry(slot).or_default().site;
                open.count = open.count.saturating_add(site.count);
                open.rooms_60s = open.rooms_60s.saturating_add(site.rooms_60s);
            }
            Part::Request(request) => {
                self.open.entry(request.slot.0).or_default().requests.push(*request);
            }
            Part::Frame { slot, ladder, hash } => {
                // A frame of the slots closed before a restart holds for the first one after it.
                let slot = slot.max(self.next);
                self.open.entry(slot).or_default().frame = Some((*ladder, hash));
            }
            Part::Snapshot { next } => self.snapshot = Some(next),
        }
    }

    fn close(
        &mut self,
        decisions: &Capability<Time>,
        decisions_out: &mut OutputBuilderSession<'_, Time, Out<Decision>>,
        grants: &Capability<Time>,
        grants_out: &mut OutputBuilderSession<'_, Time, Out<Grant>>,
    ) {
        let slot = self.next;
        self.next += 1;
        let open = self.open.remove(&slot).unwrap_or_default();
        if let Some(frame) = open.frame {
            self.frame = Some(frame);
        }
        let Some((ladder, hash)) = &self.frame else { return };
        let (mut said, granted) =
            self.arbiter.close(Slot(slot), ladder, hash, open.site, open.requests);
        if !said.is_empty() {
            decisions_out.session(&decisions.delayed(&slot)).give_container(&mut said);
        }
        if !granted.is_empty() {
            grants_out.session(&grants.delayed(&slot)).give_iterator(granted.into_iter());
        }
    }

    fn snapshot(&mut self) {
        if self.snapshot.take_if(|next| *next == self.next).is_some() {
            self.outlet.send(Report::Arbiter(Box::new(self.arbiter.clone())));
        }
    }
}
