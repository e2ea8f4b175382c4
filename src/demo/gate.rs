//! A simulated edge: every message is put through the table of policies in event time, and its verdict counted.

use barrage_edge::{Applied, Change, Status, Table, Verdict};
use barrage_protocol::ids::{CLASSES, Class, Tier};
use barrage_protocol::policy::Keys;
use std::collections::{HashMap, VecDeque};

/// Seconds over which the recent counts go.
pub const RECENT: i64 = 10;
/// Rooms counted one by one; further ones are counted by class only.
const ROOMS_MAX: usize = 8_192;
/// Seconds kept of each room: the view of a second comes later than its messages.
const SECONDS: usize = 64;

/// What became of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Passed at once.
    pub admitted: u64,
    /// Passed later.
    pub delayed: u64,
    /// Did not pass.
    pub refused: u64,
}

impl Tally {
    fn count(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Admit => self.admitted += 1,
            Verdict::Delay { .. } => self.delayed += 1,
            Verdict::Refuse { .. } => self.refused += 1,
        }
    }

    fn add(&mut self, other: Self) {
        self.admitted += other.admitted;
        self.delayed += other.delayed;
        self.refused += other.refused;
    }
}

/// The edge and its counts.
#[derive(Debug)]
pub struct Gate {
    table: Table,
    total: [Tally; CLASSES],
    /// Second of event time and what happened in it, the newest last.
    seconds: VecDeque<(i64, [Tally; CLASSES])>,
    /// Per room, messages that passed, by second.
    rooms: HashMap<Box<str>, VecDeque<(i64, u32)>>,
    newest: i64,
    live: bool,
}

impl Gate {
    /// An edge that watches the given keys.
    #[must_use]
    pub fn new(keys: Keys) -> Self {
        Self {
            table: Table::new(keys),
            total: [Tally::default(); CLASSES],
            seconds: VecDeque::new(),
            rooms: HashMap::new(),
            newest: 0,
            live: false,
        }
    }

    /// Takes changes of a watch.
    pub fn apply(&mut self, changes: &[Change<'_>], now_ms: u64) -> Applied {
        self.table.apply(changes, now_ms)
    }

    /// Takes a listing.
    pub fn replace(&mut self, listing: &[Change<'_>], now_ms: u64) -> Applied {
        self.table.replace(listing, now_ms)
    }

    /// One message at event time `t_ms`.
    pub fn message(
        &mut self,
        t_ms: i64,
        room: &str,
        class: Class,
        tier: Tier,
        user: &str,
    ) -> Verdict {
        let now = u64::try_from(t_ms).unwrap_or(0);
        let verdict = self.table.admit(room, class, tier, user, now);
        let second = t_ms.div_euclid(1_000);
        self.total[class as usize].count(verdict);
        if let Some(classes) = self.recent_of(second) {
            classes[class as usize].count(verdict);
        }
        self.count_room(room, second, !matches!(verdict, Verdict::Refuse { .. }));
        verdict
    }

    /// The counts of a second; none if it is too long ago.
    fn recent_of(&mut self, second: i64) -> Option<&mut [Tally; CLASSES]> {
        if second > self.newest || self.seconds.is_empty() {
            self.newest = second;
            self.seconds.push_back((second, [Tally::default(); CLASSES]));
            while self.seconds.front().is_some_and(|(s, _)| *s <= second - RECENT) {
                self.seconds.pop_front();
            }
        }
        self.seconds.iter_mut().rev().find(|(s, _)| *s == second).map(|(_, classes)| classes)
    }

    fn count_room(&mut self, room: &str, second: i64, passed: bool) {
        if !self.rooms.contains_key(room) {
            if self.rooms.len() >= ROOMS_MAX {
                let old = self.newest - SECONDS as i64;
                self.rooms.retain(|_, s| s.back().is_some_and(|(at, _)| *at > old));
            }
            if self.rooms.len() >= ROOMS_MAX {
                return;
            }
            self.rooms.insert(room.into(), VecDeque::new());
        }
        let Some(seconds) = self.rooms.get_mut(room) else { return };
        match seconds.iter_mut().rev().find(|(s, _)| *s == second) {
            Some((_, count)) => *count += u32::from(passed),
            None => {
                seconds.push_back((second, u32::from(passed)));
                if seconds.len() > SECONDS {
                    seconds.pop_front();
                }
            }
        }
    }

    /// Messages of a room that passed in a second of event time; none if they were not counted.
    #[must_use]
    pub fn passed(&self, room: &str, second: i64) -> Option<u32> {
        let seconds = self.rooms.get(room)?;
        let found = seconds.iter().rev().find(|(s, _)| *s == second).map(|(_, count)| *count);
        // A second without an entry had no message, if it is not older than what is kept.
        found.or_else(|| (seconds.front().is_some_and(|(s, _)| *s < second)).then_some(0))
    }

    /// What happened in the last ten seconds, by class.
    #[must_use]
    pub fn recent(&self) -> [Tally; CLASSES] {
        let mut sum = [Tally::default(); CLASSES];
        for (_, classes) in &self.seconds {
            for (sum, one) in sum.iter_mut().zip(classes) {
                sum.add(*one);
            }
        }
        sum
    }

    /// What happened since the start, by class.
    #[must_use]
    pub fn total(&self) -> [Tally; CLASSES] {
        self.total
    }

    /// Whether the beginning at full speed is over.
    #[must_use]
    pub fn live(&self) -> bool {
        self.live
    }

    /// Says whether the beginning at full speed is over.
    pub fn set_live(&mut self, live: bool) {
        self.live = live;
    }

    /// How the table stands.
    #[must_use]
    pub fn status(&self, now_ms: u64) -> Status {
        self.table.status(now_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_counted_by_class_and_by_room() {
        let keys = Keys::new("test", 0);
        let mut gate = Gate::new(keys.clone());
        let policy = br#"{"schema":1,"room":"a","group":"g","epoch":1,"seq":1,"slot":1,"level":2,
            "classes":{"chat":{"admit":0.5}}}"#;
        gate.apply(&[Change { key: &keys.room("a"), value: Some(policy) }], 0);
        for t in 0..100 {
            gate.message(1_000 + t, "a", Class::Chat, Tier::Ordinary, "u");
            gate.message(1_000 + t, "b", Class::Gift, Tier::Ordinary, "u");
        }
        let chat = gate.recent()[Class::Chat as usize];
        assert_eq!(chat, Tally { admitted: 50, delayed: 0, refused: 50 });
        assert_eq!(gate.recent()[Class::Gift as usize].admitted, 100);
        assert_eq!((gate.passed("a", 1), gate.passed("b", 1)), (Some(50), Some(100)));
        assert_eq!(gate.passed("c", 1), None);
        gate.message(11_500, "b", Class::Gift, Tier::Ordinary, "u");
        assert_eq!(gate.recent()[Class::Chat as usize], Tally::default(), "ten seconds later");
        assert_eq!(gate.total()[Class::Chat as usize].refused, 50);
        assert_eq!(gate.passed("b", 5), Some(0), "a second of silence");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut gate = Gate::new(Keys::new("test", 0));
        for n in 0..20_000_i64 {
            gate.message(n * 10, &format!("r{n}"), Class::Chat, Tier::Ordinary, "u");
        }
        assert!(gate.rooms.len() <= ROOMS_MAX && gate.seconds.len() <= RECENT as usize);
        // Messages of a second long gone change nothing recent.
        gate.message(0, "late", Class::Chat, Tier::Ordinary, "u");
        assert!(gate.recent()[Class::Chat as usize].admitted <= 1_000);
    }
}
