//! A policy store in memory with etcd's semantics, as far as publishing needs them: one revision for the whole
//! store, transactions that compare, listings at a revision, watches from a revision on, compaction.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most keys.
pub const KEYS_MAX: usize = 100_000;
/// Most operations of one transaction, as in etcd.
pub const OPS_MAX: usize = 128;
/// Events kept for watches that lag; older ones are compacted away.
pub const EVENTS_MAX: usize = 100_000;

/// One key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Its value.
    pub value: Vec<u8>,
    /// Revision of its last change.
    pub mod_revision: u64,
}

/// One change, as a watch sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The revision that made it; changes of one transaction share it.
    pub revision: u64,
    /// The key.
    pub key: String,
    /// The new value; none: deleted.
    pub value: Option<Vec<u8>>,
}

/// Why the store did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A comparison failed; nothing was changed.
    #[error("`{key}` is at revision {found}, not {expected}")]
    Conflict {
        /// The key compared.
        key: String,
        /// The revision it was expected to have.
        expected: u64,
        /// The revision it has; 0: it does not exist.
        found: u64,
    },
    /// The transaction has too many operations, or the store too many keys; nothing was changed.
    #[error("{what}: {count} are more than {max}")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// How many there would be.
        count: usize,
        /// How many there may be.
        max: usize,
    },
    /// The revision asked for is gone: list again, watch from there.
    #[error("revisions up to {0} are compacted")]
    Compacted(u64),
}

#[derive(Debug, Default)]
struct Inner {
    revision: u64,
    keys: BTreeMap<String, (Vec<u8>, u64)>,
    events: VecDeque<Event>,
    compacted: u64,
}

/// The store; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Store(Arc<Mutex<Inner>>);

impl Store {
    /// One transaction: where every key has the expected revision of its last change (0: absent), all
    /// changes are made under one new revision, which is returned.
    ///
    /// # Errors
    /// [`Fault::Conflict`], [`Fault::TooMany`]; nothing is changed then.
    pub fn write(
        &self,
        expected: &[(&str, u64)],
        changes: Vec<(String, Option<Vec<u8>>)>,
    ) -> Result<u64, Fault> {
        let ops = expected.len() + changes.len();
        if ops > OPS_MAX {
            return Err(Fault::TooMany { what: "operations", count: ops, max: OPS_MAX });
        }
        let mut inner = self.lock();
        for (key, revision) in expected {
            let found = inner.keys.get(*key).map_or(0, |(_, at)| *at);
            if found != *revision {
                return Err(Fault::Conflict { key: (*key).to_owned(), expected: *revision, found });
            }
        }
        let new = changes.iter().filter(|(k, v)| v.is_some() && !inner.keys.contains_key(k));
        let count = inner.keys.len() + new.count();
        if count > KEYS_MAX {
            return Err(Fault::TooMany { what: "keys", count, max: KEYS_MAX });
        }
        let revision = inner.revision + 1;
        for (key, value) in changes {
            let existed = match &value {
                Some(v) => {
                    inner.keys.insert(key.clone(), (v.clone(), revision));
                    true
                }
                None => inner.keys.remove(&key).is_some(),
            };
            // Deleting what is not there is no change, and no revision.
            if existed {
                inner.revision = revision;
                inner.events.push_back(Event { revision, key, value });
            }
        }
        while inner.events.len() > EVENTS_MAX {
            // A revision is kept whole or not at all.
            let Some(first) = inner.events.front().map(|e| e.revision) else { break };
            inner.compacted = first;
            while inner.events.front().is_some_and(|e| e.revision == first) {
                inner.events.pop_front();
            }
        }
        Ok(inner.revision)
    }

    /// The keys that begin with `prefix`, in order, and the revision at which they are so.
    #[must_use]
    pub fn list(&self, prefix: &str) -> (Vec<Entry>, u64) {
        let inner = self.lock();
        let from = inner.keys.range(prefix.to_owned()..);
        let entries = from
            .take_while(|(key, _)| key.starts_with(prefix))
            .map(|(key, (value, at))| Entry {
                key: key.clone(),
                value: value.clone(),
                mod_revision: *at,
            })
            .collect();
        (entries, inner.revision)
    }

    /// Revision of the last change of a key, and its value.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Entry> {
        let inner = self.lock();
        let (value, at) = inner.keys.get(key)?;
        Some(Entry { key: key.to_owned(), value: value.clone(), mod_revision: *at })
    }

    /// Watches what begins with `prefix`, from a revision on (a listing's revision + 1).
    #[must_use]
    pub fn watch(&self, prefix: &str, from: u64) -> Watch {
        Watch { store: self.clone(), prefix: prefix.to_owned(), next: from }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the history of the store.
#[derive(Clone, Debug)]
pub struct Watch {
    store: Store,
    prefix: String,
    next: u64,
}

impl Watch {
    /// The changes since the last call, whole revisions, in order.
    ///
    /// # Errors
    /// [`Fault::Compacted`] when changes in between are gone: a new listing is needed.
    pub fn poll(&mut self) -> Result<Vec<Event>, Fault> {
        let inner = self.store.lock();
        if self.next <= inner.compacted {
            return Err(Fault::Compacted(inner.compacted));
        }
        let begin = inner.events.partition_point(|e| e.revision < self.next);
        let events = inner
            .events
            .range(begin..)
            .filter(|e| e.key.starts_with(&self.prefix))
            .cloned()
            .collect();
        self.next = inner.revision + 1;
        Ok(events)
    }
}
