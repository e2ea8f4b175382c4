//! What a reader may know of the present: hottest rooms, totals, sizes. Never on the way of a decision.

use crate::gauge::Held;
use barrage_protocol::ids::{CLASSES, Level, Slot};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The state of things at the end of one second of event time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct View {
    /// The slot it holds for.
    pub slot: Slot,
    /// The hottest rooms, hottest first.
    pub rooms: Vec<Room>,
    /// Totals by group name.
    pub groups: BTreeMap<String, Tally>,
    /// Totals of the site.
    pub site: Tally,
    /// Sizes, summed over the workers.
    pub stats: Stats,
}

impl View {
    /// Events of the last ten seconds in rooms that are not named: the row `_other`.
    #[must_use]
    pub fn other_10s(&self) -> i64 {
        let named: i64 = self.rooms.iter().map(|room| i64::from(room.count_10s)).sum();
        self.site.last_10s.iter().sum::<i64>() - named
    }
}

/// One room of the view. Rates in events, not per second; decimals in thousandths.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Room {
    /// The room's id.
    pub room: String,
    /// Its group.
    pub group: String,
    /// Its level.
    pub level: Level,
    /// Whether a surge is on.
    pub surge: bool,
    /// Whether a micro-burst is on.
    pub micro: bool,
    /// Events of the last second.
    pub count_1s: u32,
    /// Events of the last ten seconds.
    pub count_10s: u32,
    /// Events of the last sixty seconds.
    pub count_60s: u32,
    /// Baseline in events per second; none while it is unknown.
    pub baseline_milli: Option<i64>,
    /// Burst ratio; none while the baseline is unknown.
    pub ratio_milli: Option<i64>,
    /// Rate over ten seconds, in events per second, beyond which the level would rise; none: no rule could raise it.
    pub threshold_milli: Option<i64>,
    /// Whether a partition of the room is absent.
    pub unknown: bool,
}

/// Events of a group or of the site.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Tally {
    /// Events per class in the last 200 ms.
    pub last_200ms: [i64; CLASSES],
    /// Events per class in the last second.
    pub last_1s: [i64; CLASSES],
    /// Events per class in the last ten seconds.
    pub last_10s: [i64; CLASSES],
}

/// Sizes of what is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Rooms alive.
    pub rooms: u64,
    /// Rooms with a controller of their own (any rule has looked at them).
    pub controllers: u64,
    /// Rooms evaluated in the slot.
    pub due: u64,
    /// Entries of the delta log.
    pub log_entries: u64,
    /// Bytes of windows and log.
    pub bytes: u64,
    /// Updates held in differential's traces.
    pub trace_updates: u64,
    /// Batches held in differential's traces.
    pub trace_batches: u64,
    /// Records and names that waited for their slot, at most.
    pub ahead: u64,
    /// Counts that came for a slot already closed, or too far ahead, and were dropped: always 0 unless there is a bug.
    pub refused: u64,
}

/// The newest view, shared between the graph and its readers.
#[derive(Clone, Debug, Default)]
pub struct Latest(Arc<Mutex<Shown>>);

#[derive(Debug, Default)]
struct Shown {
    view: Arc<View>,
    /// Sizes of each worker, as of its last second.
    sizes: BTreeMap<usize, Stats>,
    traces: BTreeMap<usize, Held>,
}

impl Latest {
    /// The newest view.
    #[must_use]
    pub fn get(&self) -> Arc<View> {
        Arc::clone(&self.lock().view)
    }

    /// Replaces it; the sizes are filled in.
    pub(crate) fn set(&self, mut view: View) {
        let mut shown = self.lock();
        for size in shown.sizes.values() {
            view.stats.add(size);
        }
        for held in shown.traces.values() {
            view.stats.trace_updates += held.updates as u64;
            view.stats.trace_batches += held.batches as u64;
        }
        shown.view = Arc::new(view);
    }

    /// Sizes of one worker.
    pub(crate) fn sizes(&self, worker: usize, stats: Stats) {
        self.lock().sizes.insert(worker, stats);
    }

    /// Sizes of the traces of one worker.
    pub(crate) fn traces(&self, worker: usize, held: Held) {
        self.lock().traces.insert(worker, held);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Shown> {
        // Nothing is left half done under the lock, so a panic elsewhere does not spoil it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stats {
    fn add(&mut self, other: &Self) {
        self.rooms += other.rooms;
        self.controllers += other.controllers;
        self.due += other.due;
        self.log_entries += other.log_entries;
        self.bytes += other.bytes;
        self.ahead = self.ahead.max(other.ahead);
        self.refused += other.refused;
    }
}
