//! One worker's share of the rooms: windows, controllers, configuration; closed slot by slot. No dataflow in here.

use super::hottest;
use crate::config::Placed;
use crate::note::Note;
use crate::report::Ended;
use crate::snapshot::{self, Snapshot};
use crate::view::Stats;
use barrage_engine::blast::{Grant, Request, SiteTotals};
use barrage_engine::features::Features;
use barrage_engine::precount::Record;
use barrage_engine::room::{Context, State, may_enter, step};
use barrage_engine::rules::{Config, Floors, Ladder};
use barrage_engine::windows::{Idx, Slow, Totals, Windows};
use barrage_protocol::decision::Decision;
use barrage_protocol::ids::{Level, RoomKey, Slot};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the close of a slot yields.
#[derive(Debug, Default)]
pub(crate) struct Closed {
    /// Decisions that need nobody's leave.
    pub(crate) decisions: Vec<Decision>,
    /// Rules that left.
    pub(crate) ended: Vec<Ended>,
    /// Rises to level 2 and above.
    pub(crate) requests: Vec<Request>,
    /// Sums of the slot over this worker's rooms.
    pub(crate) totals: Totals,
}

impl Closed {
    /// What the arbiter must know of the slot.
    pub(crate) fn site(&self) -> SiteTotals {
        SiteTotals { count: self.totals.count, rooms_60s: self.totals.rooms_60s }
    }
}

/// A room that has more to remember than its windows: it was moved, or a rule is in.
#[derive(Debug)]
struct Controller {
    state: State,
    pinned: bool,
    held: bool,
    surge: Option<Slot>,
}

/// The rooms of one worker.
#[derive(Debug)]
pub(crate) struct Share {
    windows: Windows,
    /// What holds, by the group's place.
    configs: BTreeMap<u16, Placed>,
    /// The same, dense; kept in step by `configure`.
    by_group: Vec<Config>,
    /// Controllers by room index; most rooms have none.
    controllers: Vec<Option<Box<Controller>>>,
    count: usize,
    absent: u32,
    hold_until: Slot,
    /// Restoring: slots up to the snapshot's close without deciding.
    snapshot: Option<Arc<Snapshot>>,
    seeds: Vec<(Box<str>, Level)>,
    /// Which rooms of a snapshot are this worker's.
    worker: usize,
    peers: usize,
    due: Vec<Idx>,
    spare: Vec<Idx>,
    /// The state that rooms without a controller start each step from.
    fresh: State,
}

impl Share {
    /// An empty share whose first slot is `first`.
    pub(crate) fn new(
        first: Slot,
        snapshot: Option<Arc<Snapshot>>,
        worker: usize,
        peers: usize,
    ) -> Self {
        let (absent, hold_until) =
            snapshot.as_ref().map_or((0, Slot(0)), |s| (s.absent, s.hold_until));
        Self {
            windows: Windows::new(first),
            configs: BTreeMap::new(),
            by_group: Vec::new(),
            controllers: Vec::new(),
            count: 0,
            absent,
            hold_until,
            snapshot,
            seeds: Vec::new(),
            worker,
            peers,
            due: Vec::new(),
            spare: Vec::new(),
            fresh: State::default(),
        }
    }

    /// The slot that the next `close` closes.
    pub(crate) fn next(&self) -> Slot {
        self.windows.next()
    }

    /// Whether the next slot closes without deciding, because its decisions were made before the restart.
    pub(crate) fn quiet(&self) -> bool {
        self.snapshot.as_ref().is_some_and(|s| self.windows.next() <= s.slot)
    }

    /// Ladder and hash of the rule set in force, for the arbiter.
    pub(crate) fn frame(&self) -> Option<(Ladder, String)> {
        self.by_group.first().map(|c| (c.ladder.clone(), c.rules_hash.clone()))
    }

    /// Takes in a note that holds for the next slot.
    pub(crate) fn note(&mut self, note: Note) {
        match note {
            Note::Name(key, name) => self.windows.name(key, &name),
            Note::Seed(room, level) => self.seeds.push((room, level)),
            Note::Rebase(key) => {
                let found = self.windows.find(key);
                if let Some(controller) = found.and_then(|idx| self.controller_mut(idx)) {
                    controller.state.rebase();
                }
            }
            Note::Absent(_, mask) => self.absent = mask,
            Note::HoldUntil(_, slot) => self.hold_until = slot,
            // Not for the rooms.
            Note::Rules(_) | Note::Snapshot(_) => {}
        }
    }

    /// Takes in changes of configuration (removals and additions in any order) that hold for the next slot.
    pub(crate) fn configure(&mut self, changes: impl Iterator<Item = (u16, Placed, isize)>) {
        let mut weights: BTreeMap<(u16, Placed), isize> =
            std::mem::take(&mut self.configs).into_iter().map(|row| (row, 1)).collect();
        for (place, placed, diff) in changes {
            *weights.entry((place, placed)).or_default() += diff;
        }
        let rows = weights.into_iter().filter(|(_, w)| *w > 0).map(|(row, _)| row);
        self.configs = rows.collect();
        self.by_group = self.configs.values().map(|p| p.config.clone()).collect();
        self.windows.set_floors(Floors::of(&self.by_group));
        let rooms: Vec<Idx> = self.windows.rooms().collect();
        for idx in rooms {
            self.place(idx);
            let group = usize::from(self.windows.group(idx));
            let slot = self.controllers.get_mut(idx.0 as usize).and_then(Option::as_mut);
            if let (Some(controller), Some(config)) = (slot, self.by_group.get(group)) {
                controller.state.reconfigure(config);
            }
            self.after(idx);
        }
    }

    /// Puts a room into its group: the first whose matcher fits.
    fn place(&mut self, idx: Idx) {
        let room = self.windows.room(idx);
        let fits = self.configs.values().position(|p| p.matcher.fits(room));
        // The last group of a valid rule set takes every room.
        let group = fits.unwrap_or_else(|| self.configs.len().saturating_sub(1));
        self.windows.set_group(idx, u16::try_from(group).unwrap_or(u16::MAX));
    }

    /// Closes the next slot with its counts.
    pub(crate) fn close(&mut self, records: &[Record], closed: &mut Closed) {
        let slot = self.windows.next();
        let quiet = self.quiet();
        let mut due = std::mem::take(&mut self.due);
        self.windows.close(records, &mut due);
        self.turn_over();
        closed.totals = self.windows.totals();
        if quiet {
            self.take_in(slot);
        } else {
            self.sow(slot);
            for &idx in &due {
                self.step(idx, closed);
            }
        }
        self.due = due;
    }

    /// Lets go of the controllers of rooms forgotten, and places the rooms born.
    fn turn_over(&mut self) {
        let mut spare = std::mem::take(&mut self.spare);
        spare.extend(self.windows.forgotten());
        for idx in spare.drain(..) {
            self.release(idx);
        }
        spare.extend_from_slice(self.windows.born());
        for &idx in &spare {
            self.place(idx);
        }
        spare.clear();
        self.spare = spare;
    }

    /// Steps one room.
    fn step(&mut self, idx: Idx, closed: &mut Closed) {
        let group = usize::from(self.windows.group(idx));
        let Some(config) = self.by_group.get(group) else { return };
        // Of thousands of rooms that are due because they are busy, a few rise.
        let kept = self.controllers.get(idx.0 as usize).is_some_and(Option::is_some);
        if !kept && self.windows.glance(idx).is_some_and(|seen| !may_enter(config, &seen)) {
            return;
        }
        let features = self.windows.features(idx);
        let context = Context {
            unknown: self.windows.partitions(idx) & self.absent != 0,
            no_descent_before: self.hold_until,
        };
        let room = self.windows.room(idx);
        let controller = self.controllers.get_mut(idx.0 as usize).and_then(Option::as_mut);
        let known = controller.is_some();
        let state = controller.map_or(&mut self.fresh, |c| &mut c.state);
        let outcome = step(state, config, room, &features, &context);
        closed.decisions.extend(outcome.decisions);
        closed.requests.extend(outcome.request);
        let ended = outcome.ended.into_iter();
        closed.ended.extend(ended.map(|span| Ended { room: room.to_owned(), span }));
        if known {
            self.after(idx);
        } else if self.fresh != State::default() {
            let state = std::mem::take(&mut self.fresh);
            self.keep(idx, state);
        }
    }

    /// The arbiter's answers to the requests of the slot just closed.
    pub(crate) fn granted(&mut self, grants: impl Iterator<Item = Grant>) {
        for grant in grants {
            let Some(idx) = self.windows.find(grant.room) else { continue };
            let group = usize::from(self.windows.group(idx));
            let slot = self.controllers.get_mut(idx.0 as usize).and_then(Option::as_mut);
            if let (Some(controller), Some(config)) = (slot, self.by_group.get(group)) {
                controller.state.granted(config, &grant);
                self.after(idx);
            }
        }
    }

    fn controller_mut(&mut self, idx: Idx) -> Option<&mut Controller> {
        self.controllers.get_mut(idx.0 as usize)?.as_deref_mut()
    }

    fn state(&self, idx: Idx) -> Option<&State> {
        self.controllers.get(idx.0 as usize)?.as_ref().map(|c| &c.state)
    }

    /// Gives a room a controller.
    fn keep(&mut self, idx: Idx, state: State) {
        let at = idx.0 as usize;
        if self.controllers.len() <= at {
            self.controllers.resize_with(at + 1, || None);
        }
        let controller = Controller { state, pinned: false, held: false, surge: None };
        if self.controllers[at].replace(Box::new(controller)).is_none() {
            self.count += 1;
        }
        self.after(idx);
    }

    /// Tells the windows what the controller wants, and lets go of one that has nothing left to remember.
    fn after(&mut self, idx: Idx) {
        let slot = self.controllers.get_mut(idx.0 as usize).and_then(Option::as_mut);
        let Some(controller) = slot else { return };
        let pinned = controller.state.needs_step();
        let held = controller.state.level() > Level::NORMAL;
        let surge = controller.state.surge_since();
        if pinned != controller.pinned {
            controller.pinned = pinned;
            self.windows.pin(idx, pinned);
        }
        if held != controller.held {
            controller.held = held;
            self.windows.hold(idx, held);
        }
        if surge != controller.surge {
            controller.surge = surge;
            self.windows.surge(idx, surge);
        }
        if !pinned && controller.state == State::default() {
            self.release(idx);
        }
    }

    fn release(&mut self, idx: Idx) {
        if let Some(controller) = self.controllers.get_mut(idx.0 as usize)
            && controller.take().is_some()
        {
            self.count -= 1;
        }
    }

    /// Levels known from the policies in force hold from the slot just closed; rooms not yet seen are born silent.
    fn sow(&mut self, slot: Slot) {
        for (room, level) in std::mem::take(&mut self.seeds) {
            let key = RoomKey::of(&room);
            let idx = self.windows.find(key).unwrap_or_else(|| {
                let block = slot.0 / 100;
                let slow = Slow { first: slot, last: slot, block, ..Slow::default() };
                self.windows.import(key, &room, &slow)
            });
            self.place(idx);
            self.keep(idx, State::seeded(level, slot));
        }
    }

    /// Ends a restore at the snapshot's slot: takes the slow state of this worker's rooms.
    fn take_in(&mut self, slot: Slot) {
        let Some(snapshot) = self.snapshot.take_if(|s| s.slot == slot) else { return };
        let (worker, peers) = (self.worker, self.peers);
        let mine = |r: &&snapshot::Room| crate::source::owner(r.key, peers) == worker;
        let mut states = Vec::new();
        for room in snapshot.rooms.iter().filter(mine) {
            let idx = self.windows.import(room.key, &room.name, &room.windows);
            states.extend(room.state.clone().map(|state| (idx, state)));
        }
        self.windows.retain_imported();
        let rooms: Vec<Idx> = self.windows.rooms().collect();
        for idx in rooms {
            self.place(idx);
        }
        for (idx, state) in states {
            self.keep(idx, state);
        }
    }

    /// The slow state of all rooms as of the slot just closed, ordered by key.
    pub(crate) fn export(&self) -> Vec<snapshot::Room> {
        let mut rooms: Vec<_> = self
            .windows
            .rooms()
            .map(|idx| snapshot::Room {
                key: self.windows.key(idx),
                name: self.windows.room(idx).to_owned(),
                windows: self.windows.export(idx),
                state: self.state(idx).cloned(),
            })
            .collect();
        rooms.sort_by_key(|r| r.key);
        rooms
    }

    /// Rooms in whom anything happens, with their heat: the level, then events of the last ten seconds.
    pub(super) fn warmth(&self) -> impl Iterator<Item = (hottest::Heat, Idx)> + '_ {
        self.windows.rooms().filter_map(|idx| self.heat(idx))
    }

    /// The same of those rooms only that are watched or have a level: all with at least so many events.
    pub(super) fn watched(&self) -> (u32, impl Iterator<Item = (hottest::Heat, Idx)> + '_) {
        let places =
            (0..self.controllers.len()).map(|at| Idx(u32::try_from(at).unwrap_or(u32::MAX)));
        let held = places.filter(|idx| self.state(*idx).is_some_and(|s| s.level() > Level::NORMAL));
        // A room with a level stands in both lists if it is watched too.
        let watched = self.windows.watched();
        let others =
            watched.filter(|idx| self.state(*idx).is_none_or(|s| s.level() == Level::NORMAL));
        (self.windows.watched_from(), held.chain(others).filter_map(|idx| self.heat(idx)))
    }

    fn heat(&self, idx: Idx) -> Option<(hottest::Heat, Idx)> {
        let level = self.state(idx).map_or(Level::NORMAL, State::level);
        let count = self.windows.count_10s(idx);
        (count > 0 || level > Level::NORMAL).then_some(((level, count), idx))
    }

    /// A room as the view shows it.
    pub(super) fn show(&self, idx: Idx) -> crate::view::Room {
        let f: Features = self.windows.features(idx);
        let state = self.state(idx).unwrap_or(&self.fresh);
        let base = state.in_force(&f).baseline;
        let config = self.by_group.get(usize::from(self.windows.group(idx)));
        let ratio = config.and_then(|c| state.burst_ratio(c, &f));
        crate::view::Room {
            room: self.windows.room(idx).to_owned(),
            group: config.map(|c| c.group.clone()).unwrap_or_default(),
            level: state.level(),
            surge: state.surge_since().is_some(),
            micro: state.micro_since().is_some(),
            count_1s: f.count_1s,
            count_10s: f.count_10s,
            count_60s: f.count_60s,
            baseline_milli: base.known().then(|| base.per_second_milli()),
            ratio_milli: ratio.map(|millionths| millionths.div_euclid(1_000)),
            threshold_milli: config.and_then(|c| state.next_threshold(c, &f)),
            unknown: self.windows.partitions(idx) & self.absent != 0,
        }
    }

    /// Name of a group by its place.
    pub(super) fn group(&self, place: u16) -> &str {
        self.by_group.get(usize::from(place)).map_or("", |c| c.group.as_str())
    }

    /// Sizes.
    pub(crate) fn stats(&self) -> Stats {
        let windows = self.windows.stats();
        Stats {
            rooms: windows.rooms as u64,
            controllers: self.count as u64,
            due: self.due.len() as u64,
            log_entries: windows.entries as u64,
            bytes: windows.bytes as u64,
            ..Stats::default()
        }
    }
}
