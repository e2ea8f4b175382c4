//! The rooms of the night, and how many events a second each sends at a moment. Integers only: same bytes everywhere.

use super::{Moment, Scene};

/// Matches played at once.
pub const MATCHES: usize = 4;
/// Small rooms that surge in turn.
pub const SMALL: usize = 12;
/// Fan rooms of each of the two sides.
pub const FANS: usize = 20;

/// Events a second of all steady rooms together, in micro-events.
const STEADY_TOTAL: u64 = 3_000_000_000;

/// What a room does in the scenes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The room of the n-th match.
    Match(usize),
    /// A room of a few events a second.
    Small(usize),
    /// The n-th fan room of a side.
    Fan {
        /// Side, 0 or 1.
        side: usize,
        /// Position among the side's rooms.
        nth: usize,
    },
    /// Busy or not, it follows the evening.
    Steady,
}

/// One room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// Id.
    pub name: String,
    /// Its part.
    pub role: Role,
    /// Events a second on an ordinary evening, in micro-events.
    pub base: u64,
    /// How many different users write in it.
    pub users: u64,
}

/// All rooms: those with a part first, then the steady ones by falling popularity.
#[derive(Clone, Debug)]
pub struct Cast {
    rooms: Vec<Room>,
    /// How many of them have a part.
    acting: usize,
    /// Running sums of the steady rooms' bases.
    steady: Vec<u64>,
}

impl Cast {
    /// A cast of `rooms` rooms (at least 1). Popularity of the steady ones follows Zipf's law.
    #[must_use]
    pub fn new(rooms: usize) -> Self {
        let rooms = rooms.max(1);
        let mut all = acting();
        all.truncate(rooms);
        let acting = all.len();
        // Weights 1 / (rank + 3): an exponent of 1 with a flattened head, so that no room is the whole site.
        let weight = |i: usize| 1_000_000_000_000 / (i as u64 + 3);
        let sum: u64 = (0..rooms - acting).map(weight).sum();
        let mut steady = Vec::with_capacity(rooms - acting);
        let mut total = 0;
        for i in 0..rooms - acting {
            let base = (u128::from(STEADY_TOTAL) * u128::from(weight(i)) / u128::from(sum)) as u64;
            total += base.max(1);
            steady.push(total);
            all.push(room(format!("r_{:04}", i + 1), Role::Steady, base.max(1)));
        }
        Self { rooms: all, acting, steady }
    }

    /// The rooms; events name them by position.
    #[must_use]
    pub fn rooms(&self) -> &[Room] {
        &self.rooms
    }

    /// Fills `sums` with the running sums of the acting rooms' rates at a moment, and returns the
    /// steady rooms' rate; all in micro-events a second.
    pub(super) fn rates(&self, moment: Moment, sums: &mut Vec<u64>) -> u64 {
        sums.clear();
        let mut total = 0;
        for room in &self.rooms[..self.acting] {
            total += room.base / 1000 * loudness(room.role, moment);
            sums.push(total);
        }
        self.steady.last().copied().unwrap_or(0) / 1000 * loudness(Role::Steady, moment)
    }

    /// Sum of the steady rooms' bases: what [`Self::steady_room`] is drawn from.
    pub(super) fn steady_sum(&self) -> u64 {
        self.steady.last().copied().unwrap_or(0)
    }

    /// The steady room whose share holds `x`, a number below [`Self::steady_sum`].
    pub(super) fn steady_room(&self, x: u64) -> usize {
        self.acting + self.steady.partition_point(|sum| *sum <= x)
    }
}

fn room(name: String, role: Role, base: u64) -> Room {
    Room { name, role, base, users: 20 + base / 40_000 }
}

fn acting() -> Vec<Room> {
    let mut all = Vec::with_capacity(MATCHES + SMALL + 2 * FANS);
    for n in 0..MATCHES {
        let base = 120_000_000 - 10_000_000 * n as u64;
        all.push(room(format!("c_match_{:02}", n + 1), Role::Match(n), base));
    }
    for n in 0..SMALL {
        let base = 3_000_000 + 250_000 * n as u64;
        all.push(room(format!("r_cafe_{:02}", n + 1), Role::Small(n), base));
    }
    for nth in 0..FANS {
        for (side, name) in ["home", "away"].into_iter().enumerate() {
            let role = Role::Fan { side, nth };
            all.push(room(format!("c_fans_{name}_{:02}", nth + 1), role, 26_000_000));
        }
    }
    all
}

/// How loud a room is, in thousandths of its ordinary rate.
fn loudness(role: Role, moment: Moment) -> u64 {
    let Some(ms) = moment.into_ms else { return 1000 };
    let main = (moment.round % MATCHES as u64) as usize;
    let raided = (moment.round % 2) as usize;
    match role {
        Role::Match(n) if n == main => match_room(moment.scene, ms),
        Role::Match(_) => match moment.scene {
            Scene::Goal if (4_000..9_000).contains(&ms) => 3_500,
            scene => crowd(scene, ms, 1_200),
        },
        Role::Fan { side, nth } if side == raided => fan_room(moment.scene, ms, nth as u64),
        Role::Fan { .. } | Role::Steady => crowd(moment.scene, ms, 1_150),
        Role::Small(n) => small_room(moment, ms, n),
    }
}

/// `from` to `to` in a straight line while `ms` goes from `begin` to `end`; before and after, the ends.
fn line(ms: u64, begin: u64, end: u64, from: u64, to: u64) -> u64 {
    let done = ms.clamp(begin, end) - begin;
    let span = (end - begin).max(1);
    (from * (span - done) + to * done) / span
}

/// What everybody does: more people while the match is on, fewer after it.
fn crowd(scene: Scene, ms: u64, peak: u64) -> u64 {
    match scene {
        Scene::Quiet => 1_000,
        Scene::WarmUp => line(ms, 0, 25_000, 1_000, peak),
        Scene::Goal | Scene::Storm => peak,
        Scene::Recovery => line(ms, 0, 30_000, peak, 1_000),
    }
}

fn match_room(scene: Scene, ms: u64) -> u64 {
    match (scene, ms) {
        // Everybody hits the key in the same moment, ...
        (Scene::Goal, 3_000..3_200) => 25_000,
        // ... goes on for some seconds, ...
        (Scene::Goal, 3_200..5_700) => 6_500,
        // ... and calms down.
        (Scene::Goal, 5_700..8_700) => line(ms, 5_700, 8_700, 6_500, 2_200),
        (Scene::Goal, 8_700..) => line(ms, 8_700, 25_000, 2_200, 1_400),
        (Scene::Storm, 2_000..24_000) => 12_000,
        (Scene::Storm, 24_000..) => line(ms, 24_000, 30_000, 12_000, 1_300),
        (Scene::Recovery, _) => line(ms, 0, 30_000, 1_300, 1_000),
        _ => crowd(scene, ms, 1_400),
    }
}

fn fan_room(scene: Scene, ms: u64, nth: u64) -> u64 {
    // The raid reaches one room after the other.
    let begin = 4_000 + 300 * nth;
    match scene {
        Scene::Goal if nth < 4 && (3_500..8_000).contains(&ms) => 3_200,
        Scene::Storm if ms < begin => 1_150,
        Scene::Storm if ms < 26_000 => 5_900,
        Scene::Storm => line(ms, 26_000, 30_000, 5_900, 1_150),
        _ => crowd(scene, ms, 1_150),
    }
}

fn small_room(moment: Moment, ms: u64, n: usize) -> u64 {
    let (begin, turn) = match moment.scene {
        Scene::Quiet => (2_000, 0),
        Scene::WarmUp => (9_000, 3),
        Scene::Goal => (22_000, 5),
        Scene::Storm => (34_000, 8),
        Scene::Recovery => (42_000, 10),
    };
    let now = (turn + moment.round as usize) % SMALL;
    if n == now && (begin..begin + 8_000).contains(&ms) { 4_500 } else { 1_000 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenes::Programme;

    #[test]
    fn popularity_falls_and_shares_add_up() {
        let cast = Cast::new(1_000);
        assert_eq!(cast.rooms().len(), 1_000);
        let steady: Vec<u64> =
            cast.rooms().iter().filter(|r| r.role == Role::Steady).map(|r| r.base).collect();
        assert!(steady.windows(2).all(|w| w[0] >= w[1]));
        let sum: u64 = steady.iter().sum();
        assert_eq!(sum, cast.steady_sum());
        assert!(sum <= STEADY_TOTAL && sum > STEADY_TOTAL * 99 / 100);
        assert_eq!(cast.steady_room(0), cast.acting);
        assert_eq!(cast.steady_room(sum - 1), 999);
    }

    #[test]
    fn any_number_of_rooms_has_a_rate() {
        for rooms in [0, 1, 3, 56, 57, 100_000] {
            let cast = Cast::new(rooms);
            let mut sums = Vec::new();
            let steady = cast.rates(Programme::Match.at(0), &mut sums);
            assert!(steady + sums.last().copied().unwrap_or(0) > 0, "{rooms} rooms");
        }
    }

    #[test]
    fn a_raid_does_not_double_the_site() {
        // Otherwise the cap of the blast radius would be lifted, and the storm would not show it.
        let cast = Cast::new(90);
        let mut sums = Vec::new();
        let mut rate = |ms: u64| {
            let steady = cast.rates(Programme::Match.at(ms), &mut sums);
            steady + sums.last().copied().unwrap_or(0)
        };
        let before = rate(120_000 + 76_000);
        let storm = rate(120_000 + 75_000 + 15_000);
        assert!(storm > before * 3 / 2 && storm < before * 19 / 10, "{before} → {storm}");
    }
}
