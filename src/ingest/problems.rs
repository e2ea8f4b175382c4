//! What could not be read, named with file and line: the first few of each kind, then counted.

use barrage_protocol::event::{Reason, Reject};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many of a kind are named, per file.
const NAMED: u64 = 3;
/// Most notes that are kept altogether.
const NOTES: usize = 1_000;

/// One thing to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// File, and line where there is one.
    pub place: String,
    /// What is wrong, and what may help.
    pub what: String,
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

/// Text from a file as a terminal may show it: what would steer the terminal is spelled out.
fn plain(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        if c.is_control() {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
        out
    })
}

#[derive(Debug, Default)]
struct Inner {
    notes: Vec<Note>,
    told: usize,
    counts: BTreeMap<(String, Reason), u64>,
}

/// Problems of all files of a run; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    inner: Arc<Mutex<Inner>>,
}

impl Problems {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic elsewhere leaves nothing half done here.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A record that was rejected when it was read. `hint` is asked for only if it is named.
    pub(super) fn reject(
        &self,
        file: &str,
        line: u64,
        reject: &Reject,
        hint: impl FnOnce() -> Option<String>,
    ) {
        let mut inner = self.lock();
        let count = inner.counts.entry((file.to_owned(), reject.reason)).or_insert(0);
        *count += 1;
        // A repetition is what was asked for, not a fault.
        if *count > NAMED || reject.reason == Reason::Repeated || inner.notes.len() >= NOTES {
            return;
        }
        let hint = hint().map(|h| format!("; {h}")).unwrap_or_default();
        let last = inner.counts.get(&(file.to_owned(), reject.reason)) == Some(&NAMED);
        let more = if last { " (more of this kind are only counted)" } else { "" };
        let what = plain(&format!("{reject}{hint}{more}"));
        inner.notes.push(Note { place: format!("{file}:{line}"), what });
    }

    /// Something about a whole file, or one line of it.
    pub(super) fn note(&self, file: &str, line: Option<u64>, what: impl Into<String>) {
        let mut inner = self.lock();
        if inner.notes.len() < NOTES {
            let place = line.map_or_else(|| file.to_owned(), |line| format!("{file}:{line}"));
            inner.notes.push(Note { place, what: plain(&what.into()) });
        }
    }

    /// Everything noted since the last call, for telling as it goes.
    #[must_use]
    pub fn fresh(&self) -> Vec<Note> {
        let mut inner = self.lock();
        let fresh = inner.notes[inner.told..].to_vec();
        inner.told = inner.notes.len();
        fresh
    }

    /// Everything noted.
    #[must_use]
    pub fn notes(&self) -> Vec<Note> {
        self.lock().notes.clone()
    }

    /// Records rejected when they were read, by reason, over all files.
    #[must_use]
    pub fn rejected(&self) -> BTreeMap<Reason, u64> {
        let mut all = BTreeMap::new();
        for ((_, reason), n) in &self.lock().counts {
            *all.entry(*reason).or_insert(0) += n;
        }
        all
    }
}

#[test]
fn what_steers_a_terminal_is_spelled_out() {
    let problems = Problems::default();
    problems.note("f.csv", Some(1), "the columns are a\u{1b}[31mred, b\nc");
    assert_eq!(problems.notes()[0].what, r"the columns are a\u{1b}[31mred, b\nc");
}
