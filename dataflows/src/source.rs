//! Source operator: commands from the host become counts, notes and rules, each at its slot; its capabilities say
//! which slots are still open. It holds no counts back: what comes early waits at the room's owner.

use crate::command::{Command, Control};
use crate::note::Note;
use crate::report::Outlet;
use crate::rulebook::{self, Row};
use crate::{Time, route};
use barrage_engine::precount::Record;
use barrage_engine::rules::RuleSet;
use barrage_protocol::ids::{RoomKey, Slot};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use timely::container::CapacityContainerBuilder;
use timely::dataflow::operators::Capability;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;
use timely::dataflow::operators::generic::{OutputBuilder, OutputBuilderSession};
use timely::dataflow::{Scope, StreamVec};
use timely::scheduling::SyncActivator;

/// Commands taken in one activation, so that the operators behind get their turn.
const BUDGET: usize = 256;

/// How far the time of configuration may lag while nothing changes, so that traces are compacted.
const RULES_LAG: Time = 1_000;

/// An update of the rule set's rows.
pub(crate) type RuleUpdate = (Row, Time, isize);

/// What the source feeds.
pub(crate) struct Streams<'s> {
    /// Counts, on the worker that received them.
    pub(crate) counts: StreamVec<'s, Time, Record>,
    /// Notes, on the worker that received them.
    pub(crate) notes: StreamVec<'s, Time, Note>,
    /// Changes of the rule set, on worker 0.
    pub(crate) rules: StreamVec<'s, Time, RuleUpdate>,
    /// Wakes the source after a command was sent.
    pub(crate) wake: SyncActivator,
}

type Out<V> = CapacityContainerBuilder<Vec<V>>;

/// What the source remembers.
struct State {
    /// This worker, and how many there are.
    worker: usize,
    peers: usize,
    /// First slot not yet complete.
    open: Time,
    /// Rule sets that wait for their slot to become complete.
    pending: BTreeMap<Time, Arc<RuleSet>>,
    /// Rows of the last rule set sent (worker 0 only).
    rows: BTreeSet<Row>,
}

/// The capabilities, in the order of the outputs.
struct Caps {
    counts: Capability<Time>,
    notes: Capability<Time>,
    rules: Capability<Time>,
}

impl Caps {
    fn downgrade(&mut self, to: Time) {
        self.counts.downgrade(&to);
        self.notes.downgrade(&to);
    }
}

/// The sessions of one activation.
struct Sinks<'a> {
    counts: OutputBuilderSession<'a, Time, Out<Record>>,
    notes: OutputBuilderSession<'a, Time, Out<Note>>,
    rules: OutputBuilderSession<'a, Time, Out<RuleUpdate>>,
}

/// Builds the source of this worker. `first` is the first slot, `rules` hold from it.
pub(crate) fn source<'s>(
    scope: Scope<'s, Time>,
    first: Slot,
    rules: &Arc<RuleSet>,
    commands: Receiver<Command>,
    alarm: Outlet,
) -> Streams<'s> {
    let mut builder = OperatorBuilder::new("Source".to_owned(), scope);
    let info = builder.operator_info();
    let wake = scope.worker().sync_activator_for(info.address.to_vec());
    let again = scope.activator_for(info.address);
    let (output, counts) = builder.new_output::<Vec<Record>>();
    let mut counts_out = OutputBuilder::<_, Out<Record>>::from(output);
    let (output, notes) = builder.new_output::<Vec<Note>>();
    let mut notes_out = OutputBuilder::<_, Out<Note>>::from(output);
    let (output, rule_updates) = builder.new_output::<Vec<RuleUpdate>>();
    let mut rules_out = OutputBuilder::<_, Out<RuleUpdate>>::from(output);
    let mut state = State {
        worker: scope.index(),
        peers: scope.peers(),
        open: first.0,
        pending: BTreeMap::new(),
        rows: BTreeSet::new(),
    };
    let mut initial = Some(Arc::clone(rules));
    builder.build(move |mut caps| {
        let (rules, notes, counts) = (caps.pop(), caps.pop(), caps.pop());
        let mut caps = match (counts, notes, rules) {
            (Some(counts), Some(notes), Some(rules)) => Some(Caps { counts, notes, rules }),
            _ => None,
        };
        move |_frontiers| {
            // Held here for its drop: a panic anywhere on this worker is reported.
            let _ = &alarm;
            let Some(held) = caps.as_mut() else { return };
            let mut sinks = Sinks {
                counts: counts_out.activate(),
                notes: notes_out.activate(),
                rules: rules_out.activate(),
            };
            if let Some(rules) = initial.take() {
                held.downgrade(first.0);
                held.rules.downgrade(&first.0);
                state.announce(held, &mut sinks, first, rules);
            }
            for _ in 0..BUDGET {
                match commands.try_recv() {
                    Ok(Command::Stop) | Err(TryRecvError::Disconnected) => {
                        caps = None;
                        return;
                    }
                    Ok(command) => state.take(command, held, &mut sinks),
                    Err(TryRecvError::Empty) => return,
                }
            }
            again.activate();
        }
    });
    Streams { counts, notes, rules: rule_updates, wake }
}

impl State {
    fn take(&mut self, command: Command, caps: &mut Caps, sinks: &mut Sinks<'_>) {
        match command {
            Command::Counts { slot, mut records, names } => {
                // The host refuses counts of closed slots; here a late slot would break the graph's order.
                let at = slot.0.max(self.open);
                if !records.is_empty() && at == slot.0 {
                    let cap = caps.counts.delayed(&at);
                    sinks.counts.session(&cap).give_container(&mut records);
                }
                if !names.is_empty() {
                    let notes = names.into_iter().map(|(key, name)| Note::Name(key, name));
                    self.note(caps, sinks, at, notes);
                }
            }
            Command::Seed { from, levels } => {
                let (worker, peers) = (self.worker, self.peers);
                let notes = levels
                    .iter()
                    .filter(|(room, _)| owner(RoomKey::of(room), peers) == worker)
                    .map(|(room, level)| Note::Seed(room.clone(), *level));
                self.note(caps, sinks, from.0, notes);
            }
            Command::Rules { from, rules } => self.announce(caps, sinks, from, rules),
            Command::Control { from, control } => self.control(caps, sinks, from, control),
            Command::Advance { upto } => {
                let open = upto.0.saturating_add(1);
                if open > self.open {
                    self.rules(caps, sinks, open);
                    self.open = open;
                    caps.downgrade(open);
                }
            }
            Command::Snapshot => {
                self.note(caps, sinks, self.open, std::iter::once(Note::Snapshot(self.worker)));
            }
            Command::Stop => {}
        }
    }

    fn control(&self, caps: &Caps, sinks: &mut Sinks<'_>, from: Slot, control: Control) {
        let note = match control {
            Control::Absent { mask } => Note::Absent(self.worker, mask),
            Control::HoldUntil { slot } => Note::HoldUntil(self.worker, slot),
            Control::Rebase { room } => {
                let key = RoomKey::of(&room);
                if owner(key, self.peers) != self.worker {
                    return;
                }
                Note::Rebase(key)
            }
        };
        self.note(caps, sinks, from.0, std::iter::once(note));
    }

    fn note(
        &self,
        caps: &Caps,
        sinks: &mut Sinks<'_>,
        at: Time,
        notes: impl Iterator<Item = Note>,
    ) {
        let cap = caps.notes.delayed(&at.max(self.open));
        sinks.notes.session(&cap).give_iterator(notes);
    }

    /// Says that the rule set changes at a slot. The rows go out when the slot is complete: the last set given for
    /// it counts.
    fn announce(&mut self, caps: &Caps, sinks: &mut Sinks<'_>, from: Slot, rules: Arc<RuleSet>) {
        let at = from.0.max(self.open);
        self.pending.insert(at, rules);
        self.note(caps, sinks, at, std::iter::once(Note::Rules(self.worker)));
    }

    /// Sends the rule sets of the slots below `open`. Between changes the capability stays where it is, so that no
    /// slot stirs differential for nothing; the rooms know from the notes which slots to wait for.
    fn rules(&mut self, caps: &mut Caps, sinks: &mut Sinks<'_>, open: Time) {
        let later = self.pending.split_off(&open);
        let due = std::mem::replace(&mut self.pending, later);
        if due.is_empty() && open - *caps.rules.time() < RULES_LAG {
            return;
        }
        for (at, rules) in due.into_iter().filter(|_| self.worker == 0) {
            let rows = rulebook::rows(&rules);
            let cap = caps.rules.delayed(&at);
            let updates = rulebook::difference(&self.rows, &rows).map(|(row, d)| (row, at, d));
            sinks.rules.session(&cap).give_iterator(updates);
            self.rows = rows;
        }
        caps.rules.downgrade(&open);
    }
}

/// The worker that owns a room.
pub(crate) fn owner(key: RoomKey, peers: usize) -> usize {
    // Below `peers`, so it fits.
    (route(key) % peers as u64) as usize
}
