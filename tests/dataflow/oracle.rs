//! The slow, obvious way to the same decisions: one thread, every room stepped in every slot, rules resolved from
//! scratch, nothing skipped, nothing incremental.

use crate::stream::{Log, Stream};
use barrage_dataflows::view::{Room, Tally};
use barrage_engine::blast::{Arbiter, SiteTotals};
use barrage_engine::precount::Record;
use barrage_engine::room::{Context, State, step};
use barrage_engine::rules::{Config, Floors, RuleSet};
use barrage_engine::windows::{Idx, Windows};
use barrage_protocol::ids::{RoomKey, Slot};
use std::collections::BTreeMap;

pub(crate) struct Oracle {
    pub(crate) windows: Windows,
    rules: RuleSet,
    configs: Vec<Config>,
    states: BTreeMap<RoomKey, State>,
    arbiter: Arbiter,
    pub(crate) absent: u32,
    /// Events per slot, group and class.
    counts: BTreeMap<(u64, String), [i64; 6]>,
}

impl Oracle {
    pub(crate) fn new(first: u64, rules: &RuleSet) -> Self {
        let mut oracle = Self {
            windows: Windows::new(Slot(first)),
            rules: rules.clone(),
            configs: Vec::new(),
            states: BTreeMap::new(),
            arbiter: Arbiter::default(),
            absent: 0,
            counts: BTreeMap::new(),
        };
        oracle.put(rules);
        oracle
    }

    /// A rule set holds from the next slot on.
    pub(crate) fn put(&mut self, rules: &RuleSet) {
        self.rules = rules.clone();
        self.configs = rules.configs();
        // No floor: every room is looked at.
        self.windows.set_floors(Floors { count_60s: 0, count_100ms: 0, surge_c: Some(0) });
        for idx in self.rooms() {
            let group = self.rules.group_of(self.windows.room(idx));
            self.windows.set_group(idx, group);
            if let Some(state) = self.states.get_mut(&self.windows.key(idx)) {
                state.reconfigure(&self.configs[usize::from(group)]);
            }
        }
    }

    pub(crate) fn rebase(&mut self, room: &str) {
        if let Some(state) = self.states.get_mut(&RoomKey::of(room)) {
            state.rebase();
        }
    }

    /// All rooms, by id.
    fn rooms(&self) -> Vec<Idx> {
        let mut rooms: Vec<Idx> = self.windows.rooms().collect();
        rooms.sort_by_key(|idx| self.windows.room(*idx).to_owned());
        rooms
    }

    pub(crate) fn close(&mut self, records: &[(String, Record)]) -> Log {
        let slot = self.windows.next();
        for (room, record) in records {
            self.windows.name(record.room, room);
            let group = &self.rules.groups[usize::from(self.rules.group_of(room))].id;
            let sums = self.counts.entry((slot.0, group.clone())).or_default();
            sums.iter_mut().zip(record.classes).for_each(|(s, c)| *s += i64::from(c));
        }
        let records: Vec<Record> = records.iter().map(|(_, r)| *r).collect();
        let gone: Vec<RoomKey> = {
            let mut due = Vec::new();
            self.windows.close(&records, &mut due);
            let gone: Vec<Idx> = self.windows.forgotten().collect();
            gone.into_iter().map(|idx| self.windows.key(idx)).collect()
        };
        for key in gone {
            self.states.remove(&key);
        }
        for idx in self.windows.born().to_vec() {
            let group = self.rules.group_of(self.windows.room(idx));
            self.windows.set_group(idx, group);
            // Everything about a room is kept up to date from its first slot.
            self.windows.pin(idx, true);
        }
        let totals = self.windows.totals();
        let (mut said, mut requests) = (Vec::new(), Vec::new());
        for idx in self.rooms() {
            let f = self.windows.features(idx);
            let unknown = self.windows.partitions(idx) & self.absent != 0;
            let context = Context { unknown, no_descent_before: Slot(0) };
            let config = &self.configs[usize::from(self.windows.group(idx))];
            let state = self.states.entry(self.windows.key(idx)).or_default();
            let outcome = step(state, config, self.windows.room(idx), &f, &context);
            said.extend(outcome.decisions);
            requests.extend(outcome.request);
        }
        let site = SiteTotals { count: totals.count, rooms_60s: totals.rooms_60s };
        let ladder = &self.configs[0].ladder;
        let (more, grants) = self.arbiter.close(slot, ladder, &self.rules.hash, site, requests);
        said.extend(more);
        for grant in grants {
            let idx = self.windows.find(grant.room).unwrap();
            let config = &self.configs[usize::from(self.windows.group(idx))];
            self.states.get_mut(&grant.room).unwrap().granted(config, &grant);
        }
        for idx in self.rooms() {
            let state = &self.states[&self.windows.key(idx)];
            self.windows.hold(idx, state.level().0 > 0);
            self.windows.surge(idx, state.surge_since());
        }
        said.sort_by(|a, b| a.order().cmp(&b.order()));
        said
    }

    /// A whole stream.
    pub(crate) fn decide(rules: &RuleSet, stream: &Stream, quiet: u64) -> Log {
        let first = crate::stream::START;
        let mut oracle = Self::new(first, rules);
        (first..=stream.end + quiet).flat_map(|slot| oracle.close(&stream.all(slot))).collect()
    }

    /// The K hottest rooms: by level, then events of the last ten seconds, then id.
    pub(crate) fn top(&self, k: usize) -> Vec<Room> {
        let mut rooms: Vec<Room> = self.rooms().into_iter().map(|idx| self.show(idx)).collect();
        rooms.retain(|r| r.count_10s > 0 || r.level.0 > 0);
        rooms.sort_by(|a, b| {
            (b.level, b.count_10s).cmp(&(a.level, a.count_10s)).then_with(|| a.room.cmp(&b.room))
        });
        rooms.truncate(k);
        rooms
    }

    fn show(&self, idx: Idx) -> Room {
        let f = self.windows.features(idx);
        let state = &self.states[&self.windows.key(idx)];
        let base = state.in_force(&f).baseline;
        let config = &self.configs[usize::from(self.windows.group(idx))];
        Room {
            room: self.windows.room(idx).to_owned(),
            group: config.group.clone(),
            level: state.level(),
            surge: state.surge_since().is_some(),
            micro: state.micro_since().is_some(),
            count_1s: f.count_1s,
            count_10s: f.count_10s,
            count_60s: f.count_60s,
            baseline_milli: base.known().then(|| base.per_second_milli()),
            ratio_milli: state.burst_ratio(config, &f).map(|m| m.div_euclid(1_000)),
            threshold_milli: state.next_threshold(config, &f),
            unknown: self.windows.partitions(idx) & self.absent != 0,
        }
    }

    /// Totals by group at the end of a slot, groups without events in the last ten seconds left out.
    pub(crate) fn totals(&self, slot: u64) -> BTreeMap<String, Tally> {
        let mut out: BTreeMap<String, Tally> = BTreeMap::new();
        for ((at, group), counts) in self.counts.range((slot - 99, String::new())..) {
            if *at > slot {
                break;
            }
            let tally = out.entry(group.clone()).or_default();
            let back = slot - at;
            let sums =
                [(2, &mut tally.last_200ms), (10, &mut tally.last_1s), (100, &mut tally.last_10s)];
            for (span, sums) in sums {
                if back < span {
                    sums.iter_mut().zip(counts).for_each(|(s, c)| *s += c);
                }
            }
        }
        out
    }
}
