//! What a rule remembers about one room: whether it is in, what it holds, and how long it has been entering or leaving.

use barrage_protocol::ids::{Level, Slot};
use serde::{Deserialize, Serialize};

/// The kind of a rule; a rule whose kind changes starts anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Burst ratio over the baseline.
    Burst,
    /// A multiple of the baseline within the second.
    Fast,
    /// An absolute rate.
    Rate,
    /// A rise over the room's background.
    Surge,
    /// A burst of less than a second.
    Micro,
}

impl Shape {
    /// Whether the rule needs a baseline and freezes it when it opens.
    #[must_use]
    pub fn freezes(self) -> bool {
        matches!(self, Self::Burst | Self::Fast)
    }

    /// Name of the kind, as in rule sets.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Burst => "burst",
            Self::Fast => "fast",
            Self::Rate => "rate",
            Self::Surge => "surge",
            Self::Micro => "micro",
        }
    }

    /// Whether a span of it is an alarm: a micro-burst is too short to be one.
    #[must_use]
    pub fn is_alarm(self) -> bool {
        self != Self::Micro
    }

    /// Whether the rule asks for levels.
    #[must_use]
    pub fn moves_level(self) -> bool {
        matches!(self, Self::Burst | Self::Fast | Self::Rate)
    }
}

/// What a rule says about one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Neither healthy nor ill: nothing enters or leaves, and the level holds.
    Unknown,
    /// The slot was judged.
    Known {
        /// Highest level whose enter condition holds in this slot; 0: none. Rules without levels say 1.
        asks: Level,
        /// Whether the leave condition holds in this slot.
        leaves: bool,
    },
}

/// What a tick changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    None,
    /// The rule went in.
    Entered,
    /// The rule went out; the slot in which it had gone in.
    Left(Slot),
}

/// A rule that is in, entering or leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Live {
    /// Kind of the rule.
    pub shape: Shape,
    /// Version under which it was last judged.
    pub version: u64,
    /// The slot in which it went in; none: it is not in.
    pub since: Option<Slot>,
    /// The last slot whose enter condition held.
    pub last: Slot,
    /// Highest level it has asked for since it went in: no descent goes below it while the rule is in.
    pub holds: Level,
    /// Slots in a row that asked for at least level 1, 2, 3.
    pub(super) entering: [u32; Level::MAX.0 as usize],
    /// Slots in a row whose leave condition held.
    pub leaving: u32,
}

impl Live {
    /// A rule that is out.
    #[must_use]
    pub fn new(shape: Shape, version: u64) -> Self {
        Self {
            shape,
            version,
            since: None,
            last: Slot(0),
            holds: Level::NORMAL,
            entering: [0; Level::MAX.0 as usize],
            leaving: 0,
        }
    }

    /// Takes in one slot. Returns the level asked for in this very slot (0: none) and what changed.
    ///
    /// "For k ticks in a row" is counted per level: with k ticks that asked for 3, 2, 3 the rule asks for 2. An
    /// unknown slot interrupts both rows: after it, k whole ticks must be seen again.
    pub fn tick(
        &mut self,
        slot: Slot,
        verdict: Verdict,
        enter_ticks: u32,
        exit_ticks: u32,
    ) -> (Level, Change) {
        let Verdict::Known { asks, leaves } = verdict else {
            self.entering = [0; Level::MAX.0 as usize];
            self.leaving = 0;
            return (Level::NORMAL, Change::None);
        };
        let mut now = Level::NORMAL;
        for (level, ticks) in (1..).zip(&mut self.entering) {
            *ticks = if asks.0 >= level { ticks.saturating_add(1) } else { 0 };
            if *ticks >= enter_ticks.max(1) {
                now = Level(level);
            }
        }
        if asks > Level::NORMAL {
            self.last = slot;
            self.leaving = 0;
        }
        if now > Level::NORMAL {
            let change = if self.since.is_none() { Change::Entered } else { Change::None };
            self.since.get_or_insert(slot);
            self.holds = self.holds.max(now);
            return (now, change);
        }
        match self.since {
            Some(since) if leaves && asks == Level::NORMAL => {
                self.leaving = self.leaving.saturating_add(1);
                if self.leaving >= exit_ticks.max(1) {
                    let entering = self.entering;
                    *self =
                        Self { entering, last: self.last, ..Self::new(self.shape, self.version) };
                    return (now, Change::Left(since));
                }
            }
            _ => self.leaving = 0,
        }
        (now, Change::None)
    }

    /// Ticks in a row that asked for at least this level.
    #[must_use]
    pub fn ticks(&self, level: Level) -> u32 {
        usize::from(level.0).checked_sub(1).and_then(|i| self.entering.get(i)).copied().unwrap_or(0)
    }

    /// Whether there is nothing to remember.
    #[must_use]
    pub fn idle(&self) -> bool {
        self.since.is_none() && self.entering.iter().all(|t| *t == 0)
    }
}
