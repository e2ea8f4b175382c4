//! Documents wanted against documents present: the difference is what has to be written. Pure.

use barrage_engine::fixed::ONE;
use barrage_engine::rules::{self, RuleSet};
use barrage_protocol::decision::{Decision, Evidence, Kind, Scope, Value};
use barrage_protocol::ids::{Level, Slot};
use barrage_protocol::policy::{
    HOLD_MS, Heartbeat, Key, Keys, Matcher, Measure, Mode, Policy, SCHEMA, Shape, TTL_MS, Users,
    Why, digest_of, digest_text,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most changes in one transaction: with the heartbeat and its comparison they stay below etcd's 128.
pub const BATCH_MAX: usize = 126;
/// Most rooms off their default at once; further ones wait, and are counted.
pub const ROOMS_MAX: usize = 20_000;

/// One write: changes of keys (no value: delete) and the heartbeat that goes with them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Rooms written or deleted, in the order in which they were chosen: raises first.
    pub rooms: Vec<(String, Option<Policy>)>,
    /// Keys and bytes of everything but the heartbeat.
    pub changes: Vec<(String, Option<Vec<u8>>)>,
    /// Bytes of the heartbeat.
    pub heartbeat: Vec<u8>,
    digest: u64,
    count: u64,
    seq: u64,
}

/// What should be published, and what is.
#[derive(Debug)]
pub struct Plan {
    keys: Keys,
    epoch: u64,
    seq: u64,
    rules: Arc<RuleSet>,
    /// Rooms off their default, as decided.
    wanted: BTreeMap<String, Policy>,
    /// What the store holds: the document and what it adds to the digest.
    present: BTreeMap<String, (Policy, u64)>,
    /// Rooms in which the two may differ.
    pending: BTreeSet<String>,
    /// Defaults and matchers still to be written.
    frame: BTreeMap<String, Vec<u8>>,
    digest: u64,
    /// Rooms that found no place below [`ROOMS_MAX`], with their levels.
    beyond: BTreeMap<String, Level>,
    /// How many of them there are, by group and level: the group's default follows the highest.
    beyond_of: BTreeMap<(String, Level), usize>,
    /// Moves that found no place.
    overflow: u64,
    /// Keys below the shard that are no documents of this version, with what they add to the digest.
    strange: BTreeMap<String, u64>,
}

/// Moves kept of rooms beyond [`ROOMS_MAX`]; further ones are only counted.
const BEYOND_MAX: usize = 1_000_000;

/// What a store holds below the policies of a cluster: keys and bytes.
pub type Present = BTreeMap<String, Vec<u8>>;

impl Plan {
    /// A plan over an empty store. `epoch` is the controller's term; defaults and matchers are the
    /// first things that it wants written.
    #[must_use]
    pub fn new(keys: Keys, epoch: u64, rules: Arc<RuleSet>, slot: Slot) -> Self {
        let mut plan = Self {
            keys,
            epoch,
            seq: 0,
            rules: Arc::clone(&rules),
            wanted: BTreeMap::new(),
            present: BTreeMap::new(),
            pending: BTreeSet::new(),
            frame: BTreeMap::new(),
            digest: 0,
            beyond: BTreeMap::new(),
            beyond_of: BTreeMap::new(),
            overflow: 0,
            strange: BTreeMap::new(),
        };
        plan.rules(rules, slot);
        plan
    }

    /// A rule set comes into force: defaults, matchers and the documents of all rooms follow it.
    pub fn rules(&mut self, rules: Arc<RuleSet>, slot: Slot) {
        self.rules = rules;
        let matchers: Vec<Matcher> = self.rules.groups.iter().map(matcher).collect();
        self.frame.insert(self.keys.groups(), bytes(&matchers));
        for group in self.rules.groups.iter().map(|g| g.id.clone()).collect::<Vec<_>>() {
            self.default(&group, slot);
        }
        for (room, policy) in &mut self.wanted {
            let group = group_of(&self.rules, room);
            let new = document(&self.rules, Some(room), group, policy.level);
            let (why, decision) = (policy.why.take(), policy.decision);
            *policy = Policy { why, decision, slot, ..new };
            self.pending.insert(room.clone());
        }
    }

    /// The default of a group: normal, unless rooms of it found no place for documents of their own.
    fn default(&mut self, group: &str, slot: Slot) {
        self.seq += 1;
        let highest = (group.to_owned(), Level(0))..=(group.to_owned(), Level(u8::MAX));
        let level = self.beyond_of.range(highest).next_back().map_or(Level::NORMAL, |(k, _)| k.1);
        let mut default = document(&self.rules, None, group, level);
        default.hold_ms = Some(HOLD_MS);
        (default.epoch, default.seq, default.slot) = (self.epoch, self.seq, slot);
        self.frame.insert(self.keys.default(group), bytes(&default));
    }

    /// Begins a term over what the store holds. What is wanted stays wanted; what differs is written.
    pub fn adopt(&mut self, epoch: u64, store: &Present, slot: Slot) {
        self.epoch = epoch;
        self.seq = 0;
        self.present.clear();
        self.strange.clear();
        self.digest = 0;
        let mut defaults = BTreeMap::new();
        let mut groups = None;
        for (key, value) in store {
            match self.keys.read(key) {
                Key::Heartbeat => {
                    let beat = serde_json::from_slice::<Heartbeat>(value).ok();
                    self.seq = self.seq.max(beat.filter(|b| b.epoch == epoch).map_or(0, |b| b.seq));
                }
                Key::Groups => groups = Some(value),
                Key::Default(group) => {
                    defaults.insert(group, value);
                }
                Key::Room(room) => {
                    let sum = digest_of(key, value);
                    self.digest = self.digest.wrapping_add(sum);
                    match serde_json::from_slice::<Policy>(value) {
                        Ok(policy) => {
                            self.present.insert(room, (policy, sum));
                        }
                        Err(_) => {
                            // Not to be read, so not to be kept: written anew or deleted like any other.
                            let mut none = document(&self.rules, Some(&room), "", Level::NORMAL);
                            none.mode = Mode::Unknown;
                            self.present.insert(room, (none, sum));
                        }
                    }
                }
                Key::Other => {
                    if key.starts_with(self.keys.shard()) {
                        let sum = digest_of(key, value);
                        self.digest = self.digest.wrapping_add(sum);
                        self.strange.insert(key.clone(), sum);
                    }
                }
            }
        }
        self.rules(Arc::clone(&self.rules), slot);
        self.pending = self.wanted.keys().chain(self.present.keys()).cloned().collect();
        // What stands already need not be written again.
        let same = |new: &[u8], old: &[u8]| {
            let read = |b: &[u8]| serde_json::from_slice::<Policy>(b).ok();
            read(new)
                .zip(read(old))
                .is_some_and(|(new, old)| same_measures(&new, &old) && new.hold_ms == old.hold_ms)
        };
        let keys = &self.keys;
        self.frame.retain(|key, value| match keys.read(key) {
            Key::Groups => groups != Some(&*value),
            Key::Default(group) => !defaults.get(&group).is_some_and(|old| same(value, old)),
            _ => true,
        });
        self.settle();
    }

    /// The levels that are known, of rooms above normal: before a term's first write, so that what stands and is still
    /// right stays as it is.
    pub fn levels(&mut self, levels: &BTreeMap<String, Level>, slot: Slot) {
        self.wanted.clear();
        for (room, level) in levels {
            let new = document(&self.rules, Some(room), group_of(&self.rules, room), *level);
            let policy = match self.present.get(room) {
                Some((present, _)) if same_measures(present, &new) => present.clone(),
                _ => Policy { slot, ..new },
            };
            self.want(room, Some(policy));
        }
        self.pending.extend(self.present.keys().cloned());
        self.settle();
    }

    /// Rooms that are wanted off their default.
    #[must_use]
    pub fn wanted(&self) -> usize {
        self.wanted.len() + self.beyond.len()
    }

    fn want(&mut self, room: &str, policy: Option<Policy>) {
        self.pending.insert(room.to_owned());
        if let Some(level) = self.beyond.remove(room) {
            self.count_beyond(room, level, false);
        }
        match policy {
            None => {
                self.wanted.remove(room);
                if let Some((next, level)) = self.beyond.first_key_value() {
                    // A place is free for one of those that had none.
                    let (next, level) = (next.clone(), *level);
                    let group = group_of(&self.rules, &next).to_owned();
                    self.want(&next, Some(document(&self.rules, Some(&next), &group, level)));
                }
            }
            Some(policy) if self.wanted.len() >= ROOMS_MAX && !self.wanted.contains_key(room) => {
                self.overflow += 1;
                if self.beyond.len() < BEYOND_MAX {
                    self.beyond.insert(room.to_owned(), policy.level);
                    self.count_beyond(room, policy.level, true);
                }
            }
            Some(policy) => {
                self.wanted.insert(room.to_owned(), policy);
            }
        }
    }

    fn count_beyond(&mut self, room: &str, level: Level, more: bool) {
        let group = group_of(&self.rules, room).to_owned();
        let key = (group.clone(), level);
        let n = self.beyond_of.entry(key.clone()).or_default();
        *n = if more { *n + 1 } else { n.saturating_sub(1) };
        let n = *n;
        if n == 0 {
            self.beyond_of.remove(&key);
        }
        if n <= 1 {
            self.default(&group, Slot(0));
        }
    }

    /// Takes in the decisions of a closed slot; only moves of a room's level change what is published.
    pub fn take(&mut self, decisions: &[Decision]) {
        for decision in decisions {
            let moved = decision.kind == Kind::Level && decision.scope == Scope::Room;
            let Some(level) = decision.to.parse().ok().filter(|_| moved).map(Level) else {
                continue;
            };
            let room = &decision.subject;
            let policy = (level != Level::NORMAL).then(|| Policy {
                slot: decision.slot,
                why: why(&decision.rule, decision.rule_version, level, &decision.evidence),
                decision: Some(decision.id),
                ..document(&self.rules, Some(room), group_of(&self.rules, room), level)
            });
            self.want(room, policy);
        }
    }

    /// How many keys wait to be written, at most.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.pending.len() + self.frame.len()
    }

    /// How many moves found no place because too many rooms were off their default.
    #[must_use]
    pub fn overflow(&self) -> u64 {
        self.overflow
    }

    /// The rooms published off their default, with their documents.
    pub fn published(&self) -> impl Iterator<Item = (&str, &Policy)> {
        self.present.iter().map(|(room, (policy, _))| (room.as_str(), policy))
    }

    /// The next write: at most [`BATCH_MAX`] changes, raises first, none for what has not changed.
    /// `slot` is the last slot decided. Nothing counts as present before [`Plan::written`].
    pub fn batch(&mut self, slot: Slot, frozen: bool) -> Batch {
        self.settle();
        let mut batch = Batch {
            digest: self.digest,
            count: (self.present.len() + self.strange.len()) as u64,
            seq: self.seq,
            ..Batch::default()
        };
        for (key, value) in self.frame.iter().take(BATCH_MAX) {
            batch.changes.push((key.clone(), Some(value.clone())));
        }
        for room in self.order().into_iter().take(BATCH_MAX - batch.changes.len()) {
            let key = self.keys.room(&room);
            if let Some((_, sum)) = self.present.get(&room) {
                batch.digest = batch.digest.wrapping_sub(*sum);
                batch.count -= 1;
            }
            let wanted = self.wanted.get(&room).cloned().map(|mut policy| {
                batch.seq += 1;
                (policy.epoch, policy.seq) = (self.epoch, batch.seq);
                policy
            });
            let value = wanted.as_ref().map(bytes);
            if let Some(value) = &value {
                batch.digest = batch.digest.wrapping_add(digest_of(&key, value));
                batch.count += 1;
            }
            batch.changes.push((key, value));
            batch.rooms.push((room, wanted));
        }
        batch.heartbeat = bytes(&Heartbeat {
            epoch: self.epoch,
            seq: batch.seq,
            slot,
            digest: digest_text(batch.digest),
            count: batch.count,
            frozen,
            rules_hash: self.rules.hash.clone(),
            ttl_ms: TTL_MS,
        });
        batch
    }

    /// The store has taken the batch.
    pub fn written(&mut self, batch: Batch) {
        self.seq = batch.seq;
        self.digest = batch.digest;
        for (key, value) in &batch.changes {
            if self.frame.get(key) == value.as_ref() {
                self.frame.remove(key);
            }
        }
        for (room, policy) in batch.rooms {
            match policy {
                Some(policy) => {
                    let sum = digest_of(&self.keys.room(&room), &bytes(&policy));
                    self.present.insert(room, (policy, sum));
                }
                None => {
                    self.present.remove(&room);
                }
            }
        }
        self.settle();
    }

    /// Forgets what turned out to need no write.
    fn settle(&mut self) {
        let (wanted, present) = (&self.wanted, &self.present);
        self.pending.retain(|room| match (wanted.get(room), present.get(room)) {
            (Some(wanted), Some((present, _))) => !same_measures(wanted, present),
            (None, None) => false,
            _ => true,
        });
    }

    /// Rooms to write: raises first, the highest first; then by id.
    fn order(&self) -> Vec<String> {
        let level = |p: Option<&Policy>| p.map_or(Level::NORMAL, |p| p.level);
        let mut rooms: Vec<(bool, std::cmp::Reverse<Level>, &String)> = self
            .pending
            .iter()
            .map(|room| {
                let wanted = level(self.wanted.get(room));
                let raise = wanted > level(self.present.get(room).map(|(p, _)| p));
                (!raise, std::cmp::Reverse(wanted), room)
            })
            .collect();
        rooms.sort();
        rooms.into_iter().map(|(_, _, room)| room.clone()).collect()
    }
}

/// Whether an edge would do the same under both documents.
fn same_measures(a: &Policy, b: &Policy) -> bool {
    (a.level, &a.classes, a.limits, a.shape, &a.users, &a.off, &a.group, a.mode)
        == (b.level, &b.classes, b.limits, b.shape, &b.users, &b.off, &b.group, b.mode)
}

fn bytes<T: serde::Serialize>(document: &T) -> Vec<u8> {
    // Documents hold finite numbers and text keys only: JSON can express every one of them.
    serde_json::to_vec(document).unwrap_or_default()
}

fn matcher(group: &rules::Group) -> Matcher {
    let (prefix, room) = match &group.matcher {
        rules::Matcher::Prefix(prefix) => (Some(prefix.clone()), None),
        rules::Matcher::Exact(room) => (None, Some(room.clone())),
        rules::Matcher::Any => (None, None),
    };
    Matcher { prefix, room, group: group.id.clone() }
}

fn group_of<'a>(rules: &'a RuleSet, room: &str) -> &'a str {
    rules.groups.iter().find(|g| g.matcher.fits(room)).map_or("default", |g| g.id.as_str())
}

/// The document of a level, by the rule set's table of levels; epoch and seq are given when it is written.
fn document(rules: &RuleSet, room: Option<&str>, group: &str, level: Level) -> Policy {
    let table = rules.levels.get(&level);
    let mut classes = BTreeMap::new();
    let mut shape = None;
    let mut only_top = false;
    for (class, measure) in table.into_iter().flat_map(|t| &t.classes) {
        // An edge that knows nothing of named users must refuse them rather than let everybody pass.
        let share = if measure.top_only { Some(0.0) } else { measure.admit.map(share) };
        only_top |= measure.top_only;
        classes.insert(
            class.name().to_owned(),
            Measure { admit: share, delay_ms: measure.delay_ms, ..Measure::default() },
        );
        if measure.buffer.is_some() || measure.ttl_ms.is_some() {
            shape = Some(Shape { chat_buffer: measure.buffer, chat_ttl_ms: measure.ttl_ms });
        }
    }
    let off = table.map_or(0, |t| t.off as usize).min(rules.plan.len());
    Policy {
        schema: SCHEMA,
        room: room.map(str::to_owned),
        group: group.to_owned(),
        epoch: 0,
        seq: 0,
        slot: Slot(0),
        mode: Mode::Enforce,
        level,
        classes,
        limits: None,
        shape,
        // Heavy users are not known yet: none is named, so none passes.
        users: only_top.then(Users::default),
        off: rules.plan[..off].to_vec(),
        hold_ms: None,
        why: None,
        decision: None,
    }
}

fn share(share: barrage_engine::fixed::Fixed) -> f64 {
    share.0 as f64 / ONE as f64
}

/// The comparison behind a move, as far as the evidence has it.
fn why(rule: &str, rule_version: u64, level: Level, evidence: &Evidence) -> Option<Why> {
    let number = |name: &str| match evidence.get(name)? {
        Value::Int(n) => Some(*n as f64),
        Value::Dec(x) => Some(*x),
        Value::Text(_) => None,
    };
    let baseline = number("baseline");
    let step = |name: &str| number(&format!("{name}_level_{}", level.0));
    let (code, observed, threshold, current) = if rule == "ladder" {
        let code = evidence.contains_key("left_rule").then_some("left")?;
        (code, number("rate_10s")?, number("ratio_exit").unwrap_or(0.0), number("rate_10s"))
    } else if let (Some(ratio), Some(step)) = (number("burst_ratio"), step("ratio")) {
        ("burst_ratio", ratio, step, number("rate_10s"))
    } else if let Some(times) = number("times_baseline") {
        let base = baseline.unwrap_or(0.0).max(number("baseline_floor").unwrap_or(0.0));
        ("count_1s", number("count_1s")?, times * base, number("count_1s"))
    } else {
        ("rate", number("rate")?, step("rate")?, number("rate"))
    };
    let rule = rule.to_owned();
    Some(Why { rule, rule_version, code: code.to_owned(), observed, threshold, baseline, current })
}
