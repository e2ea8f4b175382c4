//! The numbers about a room at a slot (semantics §2), and exact comparisons on them.

use barrage_protocol::ids::{CLASSES, OUTCOMES, Slot};
use serde::{Deserialize, Serialize};

/// Slots in one second, ten seconds, sixty seconds.
pub const W1: u64 = 10;
/// Slots in ten seconds.
pub const W10: u64 = 100;
/// Slots in sixty seconds; also the length of the baseline.
pub const W60: u64 = 600;
/// Slots that any window reaches back: the tested ten seconds and the baseline before them.
pub const W70: u64 = 700;
/// Slots of three and five seconds, for surges.
pub const W3: u64 = 30;
/// Slots of five seconds.
pub const W5: u64 = 50;
/// Slots of life without which a baseline is unknown.
pub const WARM_UP: u16 = 300;

/// Sums over the slots of a baseline: `n` slots of the room's life, Σc and Σc² over them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baseline {
    /// Slots of the room's life among the 600 before the last 100.
    pub n: u16,
    /// Events in them.
    pub sum: u64,
    /// Sum of the squares of the slots' counts.
    pub sumsq: u64,
}

impl Baseline {
    /// Whether there is enough life in it to judge by.
    #[must_use]
    pub fn known(&self) -> bool {
        self.n >= WARM_UP
    }

    /// Mean per second in thousandths, rounded half up (0 without life).
    #[must_use]
    pub fn per_second_milli(&self) -> i64 {
        if self.n == 0 {
            return 0;
        }
        let n = u128::from(self.n);
        i64::try_from((u128::from(self.sum) * 20_000 + n) / (2 * n)).unwrap_or(i64::MAX)
    }
}

/// How the baseline in force came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The sliding window.
    Window,
    /// Kept over a hole (a silence of at least 50 slots), until 700 slots after the return.
    Hole,
    /// Frozen by a burst.
    Frozen,
}

/// Everything that is known about one room when slot `slot` has closed, from the windows alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Features {
    /// The slot just closed (T).
    pub slot: Slot,
    /// First slot of the room's life.
    pub first: Slot,
    /// Slot of its last event.
    pub last: Slot,
    /// c(T).
    pub count: u32,
    /// Events of the ten slots before T.
    pub before_1s: u32,
    /// Events of the last 10 slots.
    pub count_1s: u32,
    /// Events of the last 30 slots.
    pub count_3s: u32,
    /// Events of the last 50 slots.
    pub count_5s: u32,
    /// Events of the last 100 slots.
    pub count_10s: u32,
    /// Events of the last 600 slots.
    pub count_60s: u32,
    /// How many of the last five seconds (slots T−10k−9 … T−10k, k = 0 … 4) hold an event.
    pub seconds_of_5: u8,
    /// The sliding baseline, or the one kept over a hole.
    pub baseline: Baseline,
    /// Whether `baseline` is kept over a hole.
    pub hole: bool,
    /// Median of the last (at most 18) finished blocks × 1000: milli-events per 10 s (M of the surge rule).
    pub background: u64,
    /// Events per class in the last 10, 100 and 600 slots.
    pub classes: [[u32; CLASSES]; 3],
    /// Events per outcome in the last 10, 100 and 600 slots.
    pub outcomes: [[u32; OUTCOMES]; 3],
}
