//! Rooms operator: the only stateful operator that meets counts. One per worker, fed with the rooms it owns.
//!
//! It closes slot T when the frontiers of counts and notes have passed T, when every change of rules announced for a
//! slot ≤ T has come through differential, and when the arbiter's answers to what **this worker** asked in T − 1 are
//! in. A worker that asked for nothing waits for nobody, so many slots close in one activation.
//!
//! Its outputs are driven by capabilities of its own alone (no summary from any input leads to them): those for
//! decisions and for the arbiter stand at the next slot to close, those for the view at the end of the next second,
//! so that the view's part of the graph is stirred once a second only. One batch carries the rows of several slots,
//! stamped with the first; each row names its own.

mod hottest;
mod share;
mod tallies;

pub(crate) use hottest::Hot;
pub(crate) use share::{Closed, Share};

use crate::arbiter::Part;
use crate::config;
use crate::note::Note;
use crate::report::{Outlet, Report};
use crate::snapshot::Snapshot;
use crate::view::{Latest, Stats, Tally};
use crate::{Time, route};
use barrage_engine::blast::Grant;
use barrage_engine::precount::Record;
use barrage_protocol::decision::Decision;
use barrage_protocol::ids::Slot;
use hottest::Hottest;
use std::collections::BTreeMap;
use std::sync::Arc;
use tallies::Tallies;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::StreamVec;
use timely::dataflow::channels::pact::{Exchange, Pipeline};
use timely::dataflow::operators::Capability;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;
use timely::dataflow::operators::generic::{OutputBuilder, OutputBuilderSession};
use timely::progress::Antichain;
use timely::progress::frontier::MutableAntichain;

/// Slots closed in one activation, so that the operators behind get their turn.
const BUDGET: usize = 64;

/// Slots in a second: how often the view is told.
pub(crate) const SECOND: Time = 10;

/// The last slot of the second that holds `slot`.
pub(crate) fn second_end(slot: Time) -> Time {
    slot - slot % SECOND + SECOND - 1
}

/// What the operator reads.
pub(crate) struct Inputs<'s> {
    pub(crate) counts: StreamVec<'s, Time, Record>,
    pub(crate) notes: StreamVec<'s, Time, Note>,
    pub(crate) configs: StreamVec<'s, Time, config::Change>,
    pub(crate) grants: StreamVec<'s, Time, Grant>,
}

/// What it writes.
pub(crate) struct Outputs<'s> {
    pub(crate) decisions: StreamVec<'s, Time, Decision>,
    pub(crate) parts: StreamVec<'s, Time, Part>,
    pub(crate) hot: StreamVec<'s, Time, (Hot, Time, isize)>,
    pub(crate) tallies: StreamVec<'s, Time, (String, Time, Tally)>,
}

/// How it is built.
pub(crate) struct Plan {
    pub(crate) first: Slot,
    pub(crate) snapshot: Option<Arc<Snapshot>>,
    /// Rooms of the view; none: no view.
    pub(crate) top: Option<usize>,
    pub(crate) outlet: Outlet,
    pub(crate) latest: Latest,
    /// Whether spans of rules are reported.
    pub(crate) spans: bool,
    /// The slot at which to panic.
    pub(crate) fail: Option<Slot>,
}

pub(crate) type Out<V> = CapacityContainerBuilder<Vec<V>>;

/// Sessions of one activation.
struct Sinks<'a> {
    decisions: OutputBuilderSession<'a, Time, Out<Decision>>,
    parts: OutputBuilderSession<'a, Time, Out<Part>>,
    hot: OutputBuilderSession<'a, Time, Out<(Hot, Time, isize)>>,
    tallies: OutputBuilderSession<'a, Time, Out<(String, Time, Tally)>>,
}

/// Capabilities, in the order of the outputs.
struct Caps {
    decisions: Capability<Time>,
    parts: Capability<Time>,
    hot: Capability<Time>,
    tallies: Capability<Time>,
}

impl Caps {
    fn take(mut caps: Vec<Capability<Time>>) -> Option<Self> {
        let (tallies, hot) = (caps.pop()?, caps.pop()?);
        let (parts, decisions) = (caps.pop()?, caps.pop()?);
        Some(Self { decisions, parts, hot, tallies })
    }

    /// Says that nothing will be said any more about slots before `next`, nor to the view before its second's end.
    fn downgrade(&mut self, next: Time, untold: Option<Time>) {
        self.decisions.downgrade(&next);
        self.parts.downgrade(&next);
        let end = second_end(untold.unwrap_or(next));
        if *self.hot.time() < end {
            self.hot.downgrade(&end);
            self.tallies.downgrade(&end);
        }
    }
}

/// Buffers kept for the slots to come.
const SPARE: usize = 4;

/// What waits for its slot.
#[derive(Default)]
struct Ahead {
    counts: BTreeMap<Time, Vec<Record>>,
    /// Buffers of slots that are closed: a slot of a busy site is large enough that the system would take its memory
    /// back, and clear it again, every time.
    spare: Vec<Vec<Record>>,
    notes: BTreeMap<Time, Vec<Note>>,
    configs: BTreeMap<Time, Vec<config::Change>>,
    grants: Vec<Grant>,
    /// Slots whose rules must come before they close.
    rules: BTreeMap<Time, ()>,
    /// A request for the slow state, at the slot before this one.
    snapshot: Option<Time>,
    most: u64,
}

impl Ahead {
    fn counts(&mut self, at: Time, batch: &mut Vec<Record>) {
        let spare = &mut self.spare;
        let slot = self.counts.entry(at).or_insert_with(|| spare.pop().unwrap_or_default());
        slot.append(batch);
        self.most = self.most.max(self.counts.len() as u64);
    }

    /// Takes the buffer of a closed slot back; after a spike it is let go.
    fn reuse(&mut self, mut records: Vec<Record>) {
        let wanted = records.capacity() / 8 <= records.len();
        records.clear();
        if wanted && records.capacity() > 0 && self.spare.len() < SPARE {
            self.spare.push(records);
        }
    }

    fn notes(&mut self, at: Time, batch: &mut Vec<Note>) {
        for note in batch.drain(..) {
            match note {
                Note::Rules(_) => {
                    self.rules.insert(at, ());
                }
                Note::Snapshot(_) => self.snapshot = Some(at),
                note => self.notes.entry(at).or_default().push(note),
            }
        }
    }
}

/// An output whose time its own capability alone decides: no summary leads to it from any input.
pub(crate) fn alone<'s, V: Clone + 'static>(
    builder: &mut OperatorBuilder<'s, Time>,
) -> (OutputBuilder<Time, Out<V>>, StreamVec<'s, Time, V>) {
    let none = std::iter::empty::<(usize, Antichain<Time>)>();
    let (output, stream) = builder.new_output_connection::<Vec<V>, _>(none);
    (OutputBuilder::from(output), stream)
}

/// The first slot that may still come at an input.
fn open(frontier: &MutableAntichain<Time>) -> Time {
    frontier.frontier().first().copied().unwrap_or(Time::MAX)
}

/// The operator's state.
struct Operator {
    share: Share,
    closed: Closed,
    ahead: Ahead,
    /// The slot in which this worker asked the arbiter for something, while the answers are out.
    asked: Option<Time>,
    view: Option<(Hottest, Tallies)>,
    leads: bool,
    worker: usize,
    outlet: Outlet,
    latest: Latest,
    spans: bool,
    fail: Option<Time>,
}

/// Frontiers of one activation.
struct Frontiers {
    input: Time,
    configs: Time,
    grants: Time,
}

impl Frontiers {
    fn of(inputs: &[MutableAntichain<Time>]) -> Self {
        let input = open(&inputs[0]).min(open(&inputs[1]));
        Self { input, configs: open(&inputs[2]), grants: open(&inputs[3]) }
    }
}

/// Builds the operator.
pub(crate) fn rooms<'s>(inputs: Inputs<'s>, plan: Plan) -> Outputs<'s> {
    let scope = inputs.counts.scope();
    let (worker, peers) = (scope.index(), scope.peers());
    let mut builder = OperatorBuilder::new("Rooms".to_owned(), scope);
    let again = scope.activator_for(builder.operator_info().address);
    let mut counts = builder.new_input(inputs.counts, Exchange::new(|r: &Record| route(r.room)));
    let mut notes = builder.new_input(inputs.notes, Exchange::new(Note::route));
    let mut configs = builder.new_input(inputs.configs, Pipeline);
    let mut grants = builder.new_input(inputs.grants, Exchange::new(|g: &Grant| route(g.room)));
    let (mut decisions_out, decisions) = alone::<Decision>(&mut builder);
    let (mut parts_out, parts) = alone::<Part>(&mut builder);
    let (mut hot_out, hot) = alone::<(Hot, Time, isize)>(&mut builder);
    let (mut tallies_out, tallies) = alone::<(String, Time, Tally)>(&mut builder);
    let mut operator = Operator {
        share: Share::new(plan.first, plan.snapshot, worker, peers),
        closed: Closed::default(),
        ahead: Ahead::default(),
        asked: None,
        view: plan.top.map(|top| (Hottest::new(top), Tallies::default())),
        leads: worker == 0,
        worker,
        outlet: plan.outlet,
        latest: plan.latest,
        spans: plan.spans,
        fail: plan.fail.map(|slot| slot.0),
    };
    builder.build(move |caps| {
        let mut caps = Caps::take(caps);
        if let Some(caps) = &mut caps {
            caps.downgrade(plan.first.0, None);
        }
        move |frontiers| {
            let ahead = &mut operator.ahead;
            counts.for_each(|cap, batch| {
                if let Some(&at) = cap.least() {
                    ahead.counts(at, batch);
                }
            });
            notes.for_each(|cap, batch| {
                if let Some(&at) = cap.least() {
                    ahead.notes(at, batch);
                }
            });
            configs.for_each(|_, batch| {
                for change in batch.drain(..) {
                    ahead.configs.entry(change.1).or_default().push(change);
                }
            });
            grants.for_each(|_, batch| ahead.grants.append(batch));
            let Some(held) = caps.as_mut() else { return };
            let frontiers = Frontiers::of(frontiers);
            if frontiers.input == Time::MAX {
                // The input has ended: what is not closed by now is not to be closed.
                caps = None;
                return;
            }
            let mut sinks = Sinks {
                decisions: decisions_out.activate(),
                parts: parts_out.activate(),
                hot: hot_out.activate(),
                tallies: tallies_out.activate(),
            };
            if operator.work(&frontiers, held, &mut sinks) {
                again.activate();
            }
            held.downgrade(operator.share.next().0, operator.asked);
        }
    });
    Outputs { decisions, parts, hot, tallies }
}

impl Operator {
    /// Closes what may be closed; true: the budget is spent, and there may be more.
    fn work(&mut self, frontiers: &Frontiers, caps: &Caps, sinks: &mut Sinks<'_>) -> bool {
        for _ in 0..BUDGET {
            let slot = self.share.next().0;
            if let Some(asked) = self.asked {
                // Grants of slot T are stamped T + 1 by the feedback edge.
                if frontiers.grants <= asked + 1 {
                    return false;
                }
                self.asked = None;
                self.share.granted(self.ahead.grants.drain(..));
                self.tell(asked, caps, sinks);
            }
            self.snapshot(slot, caps, sinks);
            if frontiers.input <= slot || !self.settle(slot, frontiers, caps, sinks) {
                return false;
            }
            self.close(slot, caps, sinks);
        }
        true
    }

    /// Applies what holds from this slot on; false: rules announced for it are not here yet.
    fn settle(
        &mut self,
        slot: Time,
        frontiers: &Frontiers,
        caps: &Caps,
        sinks: &mut Sinks<'_>,
    ) -> bool {
        while let Some(first) = self.ahead.rules.first_entry() {
            if *first.key() > slot {
                break;
            }
            if frontiers.configs <= *first.key() {
                return false;
            }
            first.remove();
        }
        let later = self.ahead.configs.split_off(&(slot + 1));
        let changes = std::mem::replace(&mut self.ahead.configs, later);
        if !changes.is_empty() {
            let rows = changes.into_values().flatten();
            self.share.configure(rows.map(|((place, placed), _, diff)| (place, placed, diff)));
            if let Some((_, tallies)) = &mut self.view {
                tallies.rename();
            }
            if let Some((ladder, hash)) = self.share.frame()
                && self.leads
            {
                let part = Part::Frame { slot, ladder: Box::new(ladder), hash };
                sinks.parts.session(&caps.parts).give(part);
            }
        }
        while let Some(first) = self.ahead.notes.first_entry() {
            if *first.key() > slot {
                break;
            }
            first.remove().into_iter().for_each(|note| self.share.note(note));
        }
        true
    }

    fn close(&mut self, slot: Time, caps: &Caps, sinks: &mut Sinks<'_>) {
        assert!(self.fail != Some(slot), "asked to fail at slot {slot}");
        let records = self.ahead.counts.remove(&slot).unwrap_or_default();
        let quiet = self.share.quiet();
        self.share.close(&records, &mut self.closed);
        self.ahead.reuse(records);
        let closed = &mut self.closed;
        let ended = std::mem::take(&mut closed.ended);
        if self.spans && !ended.is_empty() {
            self.outlet.send(Report::Spans(ended));
        }
        if !closed.decisions.is_empty() {
            sinks.decisions.session(&caps.decisions).give_container(&mut closed.decisions);
            closed.decisions.clear();
        }
        if !closed.ended.is_empty() {
            self.outlet.send(Report::Spans(std::mem::take(&mut closed.ended)));
        }
        if !quiet {
            let site = closed.site();
            let mut session = sinks.parts.session(&caps.parts);
            if site.count > 0 || site.rooms_60s > 0 {
                session.give(Part::Site { slot, site });
            }
            for request in closed.requests.drain(..) {
                self.asked = Some(slot);
                session.give(Part::Request(Box::new(request)));
            }
        }
        if self.asked.is_none() {
            self.tell(slot, caps, sinks);
        }
    }

    /// Tells the view, at the end of a second and when the slot's grants are in.
    fn tell(&mut self, slot: Time, caps: &Caps, sinks: &mut Sinks<'_>) {
        let Some((hottest, tallies)) = &mut self.view else { return };
        tallies.push(&self.closed.totals, &self.share);
        if second_end(slot) != slot {
            return;
        }
        let mut hot = hottest.changes(&self.share);
        if !hot.is_empty() {
            let cap = caps.hot.delayed(&slot);
            let updates = hot.drain(..).map(|(hot, diff)| (hot, slot, diff));
            sinks.hot.session(&cap).give_iterator(updates);
        }
        let changes = tallies.changes();
        if !changes.is_empty() {
            let cap = caps.tallies.delayed(&slot);
            let updates = changes.into_iter().map(|(group, tally)| (group, slot, tally));
            sinks.tallies.session(&cap).give_iterator(updates);
        }
        let stats = Stats { ahead: self.ahead.most, ..self.share.stats() };
        self.latest.sizes(self.worker, stats);
    }

    /// Hands out the slow state, if it was asked for and everything up to the slot before has settled.
    fn snapshot(&mut self, next: Time, caps: &Caps, sinks: &mut Sinks<'_>) {
        if self.ahead.snapshot.take_if(|at| *at == next).is_none() {
            return;
        }
        self.outlet.send(Report::Rooms(self.share.export()));
        if self.leads {
            sinks.parts.session(&caps.parts).give(Part::Snapshot { next });
        }
    }
}
