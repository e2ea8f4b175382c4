//! All policies that an edge holds, kept as a watch hands over changes, read without waiting for them.

use crate::measure::Measures;
use crate::verdict::Verdict;
use barrage_protocol::ids::{Class, Level, Tier};
use barrage_protocol::policy::{
    HOLD_MS, Heartbeat, Key, Keys, Matcher, Policy, digest_of, digest_text,
};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Most rooms that may be off their default at once; more are refused, and said so.
pub const MAX_ROOMS: usize = 200_000;
/// In decay, measures fall by one level so often, in milliseconds.
const DECAY_MS: u64 = 30_000;
/// Longest document, in bytes: what etcd takes by default.
const MAX_BYTES: usize = 1_572_864;

/// One change of a key, in the order of revisions; no value: deleted.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The whole key.
    pub key: &'a str,
    /// Its new value.
    pub value: Option<&'a [u8]>,
}

/// A document that was not taken; what was held before is still in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nack {
    /// The key.
    pub key: String,
    /// What was wrong with the value.
    pub what: String,
}

/// What became of a batch of changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Documents taken or removed.
    pub changed: usize,
    /// Documents older than what is held, and changes without effect.
    pub stale: usize,
    /// Documents refused.
    pub refused: Vec<Nack>,
    /// Whether the copy is complete by the heartbeat's digest; none if no heartbeat was in the batch.
    /// `false` asks for a new listing.
    pub complete: Option<bool>,
}

/// How far the table can be trusted (semantics §8). In every state measures are kept as they were told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// No heartbeat has ever been seen.
    Blind,
    /// The controller is alive.
    Fresh,
    /// The controller is alive, but cannot see.
    Frozen,
    /// No heartbeat for longer than its time to live.
    Hold,
    /// No heartbeat for longer than the hold time.
    Decay,
}

/// What an edge reports about its table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// (epoch, seq) of the last heartbeat.
    pub applied: (u64, u64),
    /// Digest of the copy, 16 hexadecimal digits.
    pub digest: String,
    /// Milliseconds since the last heartbeat came in; none if there never was one.
    pub age_ms: Option<u64>,
    /// State of the table.
    pub state: State,
    /// Rooms off their default.
    pub rooms: usize,
    /// Documents refused since the start.
    pub nacks: u64,
}

/// What messages are judged by: never changed, only replaced.
#[derive(Debug, Default)]
struct View {
    matchers: Vec<Matcher>,
    defaults: HashMap<Arc<str>, Arc<Measures>>,
    rooms: HashMap<Arc<str>, Arc<Measures>>,
}

impl View {
    fn hold_ms(&self) -> u64 {
        self.defaults.values().filter_map(|m| m.hold_ms).min().unwrap_or(HOLD_MS)
    }

    fn of(&self, room: &str) -> Option<&Measures> {
        let default = || {
            let group = &self.matchers.iter().find(|m| m.fits(room))?.group;
            self.defaults.get(group.as_str())
        };
        self.rooms.get(room).or_else(default).map(Arc::as_ref)
    }
}

/// What only changes need: the copy's digest, the heartbeat, the counters.
#[derive(Debug, Default)]
struct Book {
    held: HashMap<String, u64>,
    digest: u64,
    heartbeat: Option<(Heartbeat, u64)>,
    nacks: u64,
    /// What is held comes from the disk, and no heartbeat has come since: the hold time runs from then.
    restored: Option<u64>,
}

/// The table of policies of one edge.
#[derive(Debug)]
pub struct Table {
    keys: Keys,
    view: RwLock<Arc<View>>,
    book: Mutex<Book>,
    /// When the controller was last heard, for the hot path; `NEVER`: it was not.
    silent_since: AtomicU64,
    /// How long measures hold without news, for the hot path.
    hold_ms: AtomicU64,
}

/// The controller was never heard.
const NEVER: u64 = u64::MAX;

impl Table {
    /// An empty table: everything passes until the first listing is applied.
    #[must_use]
    pub fn new(keys: Keys) -> Self {
        Self {
            keys,
            view: RwLock::default(),
            book: Mutex::default(),
            silent_since: AtomicU64::new(NEVER),
            hold_ms: AtomicU64::new(HOLD_MS),
        }
    }

    /// The verdict on one message, and whatever is counted for it. `now_ms` is the caller's monotonic clock: measures of
    /// a controller that has not been heard for long fall, one level after another (semantics §8).
    #[must_use]
    pub fn admit(&self, room: &str, class: Class, tier: Tier, user: &str, now_ms: u64) -> Verdict {
        let decay = self.decay(now_ms);
        self.view().of(room).map_or(Verdict::Admit, |m| m.admit(class, tier, user, decay, now_ms))
    }

    /// The level in force for a room at `now_ms`.
    #[must_use]
    pub fn level(&self, room: &str, now_ms: u64) -> Level {
        let decay = self.decay(now_ms);
        self.view().of(room).map_or(Level::NORMAL, |m| Level(m.level.0.saturating_sub(decay)))
    }

    /// By how many levels measures have fallen, for want of news.
    fn decay(&self, now_ms: u64) -> u8 {
        let since = self.silent_since.load(Ordering::Relaxed);
        if since == NEVER {
            return 0;
        }
        let age = now_ms.saturating_sub(since);
        let hold = self.hold_ms.load(Ordering::Relaxed);
        if age < hold { 0 } else { u8::try_from(1 + (age - hold) / DECAY_MS).unwrap_or(u8::MAX) }
    }

    /// Takes changes of a watch, all in one swap. `now_ms` is when they came in.
    pub fn apply(&self, changes: &[Change<'_>], now_ms: u64) -> Applied {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.view();
        let next = View {
            matchers: old.matchers.clone(),
            defaults: old.defaults.clone(),
            rooms: old.rooms.clone(),
        };
        self.take(changes, now_ms, next, &mut book)
    }

    /// Takes a whole listing, all in one swap: what is not in it is gone.
    pub fn replace(&self, listing: &[Change<'_>], now_ms: u64) -> Applied {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        book.held.clear();
        book.digest = 0;
        let old = self.view();
        let mut next = View { matchers: Vec::new(), ..View::default() };
        // A document that has become unreadable is kept as it was, so the old ones are at hand.
        for change in listing {
            match self.keys.read(change.key) {
                Key::Room(room) => {
                    if let Some(held) = old.rooms.get(room.as_str()) {
                        next.rooms.insert(room.into(), Arc::clone(held));
                    }
                }
                Key::Default(group) => {
                    if let Some(held) = old.defaults.get(group.as_str()) {
                        next.defaults.insert(group.into(), Arc::clone(held));
                    }
                }
                Key::Groups => next.matchers.clone_from(&old.matchers),
                Key::Heartbeat | Key::Other => {}
            }
        }
        self.take(listing, now_ms, next, &mut book)
    }

    /// Takes a copy that lay on the disk: measures hold as they were told, but nobody has been heard yet.
    pub fn restore(&self, listing: &[Change<'_>], now_ms: u64) -> Applied {
        let applied = self.replace(listing, now_ms);
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        book.restored = Some(now_ms);
        self.silent_since.store(now_ms, Ordering::Relaxed);
        applied
    }

    fn take(&self, changes: &[Change<'_>], now: u64, mut next: View, book: &mut Book) -> Applied {
        let mut applied = Applied::default();
        let mut heard = false;
        for change in changes {
            let key = self.keys.read(change.key);
            if change.key.starts_with(self.keys.shard()) && key != Key::Heartbeat {
                book.copy(change);
            }
            heard |= key == Key::Heartbeat && change.value.is_some();
            match one(&key, change.value, now, &mut next, book) {
                Ok(true) => applied.changed += 1,
                Ok(false) => applied.stale += 1,
                Err(what) => applied.refused.push(Nack { key: change.key.to_owned(), what }),
            }
        }
        book.nacks += applied.refused.len() as u64;
        if heard {
            book.restored = None;
        }
        self.silent_since.store(book.silent_since(), Ordering::Relaxed);
        self.hold_ms.store(next.hold_ms(), Ordering::Relaxed);
        if let (true, Some((heartbeat, _))) = (heard, &book.heartbeat) {
            applied.complete = Some(
                heartbeat.count == book.held.len() as u64
                    && heartbeat.digest == digest_text(book.digest),
            );
        }
        *self.view.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
        applied
    }

    /// What the edge reports about its table at `now_ms`.
    #[must_use]
    pub fn status(&self, now_ms: u64) -> Status {
        let book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let view = self.view();
        let hold = view.hold_ms();
        let age = book.heartbeat.as_ref().map(|(_, at)| now_ms.saturating_sub(*at));
        let restored = book.restored.map(|at| now_ms.saturating_sub(at));
        let state = match (&book.heartbeat, age) {
            _ if restored.is_some_and(|age| age < hold) => State::Hold,
            _ if restored.is_some() => State::Decay,
            (Some((h, _)), Some(age)) if age < h.ttl_ms && h.frozen => State::Frozen,
            (Some((h, _)), Some(age)) if age < h.ttl_ms => State::Fresh,
            (Some(_), Some(age)) if age < hold => State::Hold,
            (Some(_), Some(_)) => State::Decay,
            _ => State::Blind,
        };
        Status {
            applied: book.heartbeat.as_ref().map_or((0, 0), |(h, _)| (h.epoch, h.seq)),
            digest: digest_text(book.digest),
            age_ms: age,
            state,
            rooms: view.rooms.len(),
            nacks: book.nacks,
        }
    }

    fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Book {
    fn silent_since(&self) -> u64 {
        self.restored.or(self.heartbeat.as_ref().map(|(_, at)| *at)).unwrap_or(NEVER)
    }

    /// Keeps the digest of what the store holds, whether or not a document can be used.
    fn copy(&mut self, change: &Change<'_>) {
        let gone = match change.value {
            Some(value) => {
                let new = digest_of(change.key, value);
                self.digest = self.digest.wrapping_add(new);
                self.held.insert(change.key.to_owned(), new)
            }
            None => self.held.remove(change.key),
        };
        self.digest = self.digest.wrapping_sub(gone.unwrap_or(0));
    }
}

/// Takes one change into `next`: `Ok(false)` if it is older than what is held.
fn one(
    key: &Key,
    value: Option<&[u8]>,
    now: u64,
    next: &mut View,
    book: &mut Book,
) -> Result<bool, String> {
    if value.is_some_and(|v| v.len() > MAX_BYTES) {
        return Err(format!("longer than {MAX_BYTES} bytes"));
    }
    match (key, value) {
        (Key::Room(room), None) => Ok(next.rooms.remove(room.as_str()).is_some()),
        (Key::Room(room), Some(value)) => {
            if next.rooms.len() >= MAX_ROOMS && !next.rooms.contains_key(room.as_str()) {
                return Err(format!("{MAX_ROOMS} rooms are held already"));
            }
            let policy: Policy = parse(value)?;
            if policy.room.as_ref() != Some(room) {
                return Err("the room in the document is not the one of the key".to_owned());
            }
            policy_into(policy, room, &mut next.rooms)
        }
        (Key::Default(group), None) => Ok(next.defaults.remove(group.as_str()).is_some()),
        (Key::Default(group), Some(value)) => {
            let policy: Policy = parse(value)?;
            if policy.room.is_some() || policy.group != *group {
                return Err("the group in the document is not the one of the key".to_owned());
            }
            policy_into(policy, group, &mut next.defaults)
        }
        (Key::Groups, None) => Err("the list of groups was deleted".to_owned()),
        (Key::Groups, Some(value)) => {
            next.matchers = parse(value)?;
            Ok(true)
        }
        (Key::Heartbeat, None) => Ok(false),
        (Key::Heartbeat, Some(value)) => {
            let heartbeat: Heartbeat = parse(value)?;
            let last = book.heartbeat.as_ref().map_or((0, 0), |(h, _)| (h.epoch, h.seq));
            if (heartbeat.epoch, heartbeat.seq) < last {
                return Err(format!("heartbeat of epoch {} after {}", heartbeat.epoch, last.0));
            }
            book.heartbeat = Some((heartbeat, now));
            Ok(true)
        }
        // A later version's keys are its own affair.
        (Key::Other, _) => Ok(false),
    }
}

fn policy_into(
    policy: Policy,
    name: &str,
    held: &mut HashMap<Arc<str>, Arc<Measures>>,
) -> Result<bool, String> {
    let before = held.get(name);
    if before.is_some_and(|b| (policy.epoch, policy.seq) < b.version) {
        return Ok(false);
    }
    let measures = Measures::of(policy, before.map(Arc::as_ref))?;
    held.insert(name.into(), Arc::new(measures));
    Ok(true)
}

fn parse<T: for<'de> Deserialize<'de>>(value: &[u8]) -> Result<T, String> {
    serde_json::from_slice(value).map_err(|e| format!("not a document of this kind: {e}"))
}
