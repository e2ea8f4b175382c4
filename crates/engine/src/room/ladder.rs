//! The ladder (semantics §4): up at once, down a step at a time, and the guard against flapping.

use crate::rules::Ladder;
use barrage_protocol::ids::{Level, Slot};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Which way a room last moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// To a higher level.
    Up,
    /// To a lower level.
    Down,
}

/// Where a room stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The level.
    pub level: Level,
    /// The slot in which it came to stand there.
    pub since: Slot,
    /// Which way it came; none: it never moved.
    pub way: Option<Way>,
    /// The slot of its last descent.
    pub descended: Option<Slot>,
    /// Slots in which its last moves (changes of direction) began, oldest first; no more than the guard counts.
    pub moves: VecDeque<Slot>,
    /// Whether the flap guard is said to hold it up.
    pub held: bool,
}

/// What the rules want in one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Highest level asked for in this slot; 0: none.
    pub asks: Level,
    /// Highest level held by a rule that is in.
    pub holds: Level,
    /// Nothing may come down: a rule is unknown, a partition is absent, or the windows are not yet full.
    pub unknown: bool,
}

/// What becomes of the level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It stays.
    Stay,
    /// It rises to this level.
    Up(Level),
    /// It comes down to this level.
    Down(Level),
    /// It would begin to come down, were it not for the flap guard.
    Held,
}

impl Position {
    /// Moves that lie in the last `moves_within` slots up to `slot`.
    #[must_use]
    pub fn moves_in(&self, slot: Slot, ladder: &Ladder) -> u32 {
        let within = |m: &&Slot| slot.0.saturating_sub(m.0) < ladder.moves_within;
        u32::try_from(self.moves.iter().filter(within).count()).unwrap_or(u32::MAX)
    }

    /// What becomes of the level in `slot`; changes nothing.
    #[must_use]
    pub fn next(&self, ladder: &Ladder, slot: Slot, wish: Wish) -> Next {
        let stood = |since: Slot| slot.0.saturating_sub(since.0);
        if wish.asks > self.level {
            return Next::Up(wish.asks.min(Level::MAX));
        }
        let may = self.level > wish.holds
            && !wish.unknown
            && stood(self.since) >= ladder.min_dwell
            && self.descended.is_none_or(|d| stood(d) >= ladder.step_every);
        if !may {
            Next::Stay
        } else if self.way != Some(Way::Down) && self.moves_in(slot, ladder) >= ladder.max_moves {
            Next::Held
        } else {
            Next::Down(Level(self.level.0 - 1))
        }
    }

    /// Puts the room at `level` from `slot` on and notes a change of direction.
    pub fn go(&mut self, ladder: &Ladder, slot: Slot, level: Level) {
        let way = if level > self.level { Way::Up } else { Way::Down };
        if level == self.level {
            return;
        }
        if self.way != Some(way) {
            self.moves.push_back(slot);
            // Older ones could not make the guard's count any more true.
            while self.moves.len() > ladder.max_moves.max(1) as usize {
                self.moves.pop_front();
            }
        }
        if way == Way::Down {
            self.descended = Some(slot);
        }
        (self.level, self.since, self.way) = (level, slot, Some(way));
    }
}
