//! The events of a night in order of event time; every slot is drawn from the seed and its own number alone.

use super::cast::{Cast, Role};
use super::random::Random;
use super::{Moment, Programme, START_MS, Scene};
use barrage_protocol::ids::{Class, Outcome, SLOT_MS, Tier};
use std::fmt::Write;

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Event time in milliseconds since the Unix epoch.
    pub t_ms: i64,
    /// Position of its room in the cast.
    pub room: u32,
    /// Number of the user who sent it.
    pub user: u32,
    /// Class.
    pub class: Class,
    /// Tier of the user.
    pub tier: Tier,
    /// What became of it.
    pub outcome: Outcome,
}

/// The night: an endless iterator of events, none before another that is earlier.
#[derive(Clone, Debug)]
pub struct Night {
    cast: Cast,
    programme: Programme,
    seed: u64,
    /// Slots since the start that were drawn.
    slot: u64,
    /// Micro-events of all slots drawn.
    sent: u128,
    /// How many events how many micro-events stand for, where a number was asked for.
    scale: Option<(u64, u128)>,
    sums: Vec<u64>,
    drawn: Vec<Event>,
    next: usize,
}

impl Night {
    /// A night with the rates as they are written in the cast.
    #[must_use]
    pub fn new(seed: u64, rooms: usize, programme: Programme) -> Self {
        Self {
            cast: Cast::new(rooms),
            programme,
            seed,
            slot: 0,
            sent: 0,
            scale: None,
            sums: Vec::new(),
            drawn: Vec::new(),
            next: 0,
        }
    }

    /// The same night with all rates scaled so that its first `secs` seconds hold exactly `events` events.
    #[must_use]
    pub fn scaled(mut self, events: u64, secs: u64) -> Self {
        let whole = (0..secs * 1000 / SLOT_MS).map(|s| u128::from(self.rate(s) * SLOT_MS / 1000));
        self.scale = Some((events, whole.sum::<u128>().max(1)));
        self
    }

    /// How many events the first `secs` seconds hold with the rates as written.
    #[must_use]
    pub fn natural(mut self, secs: u64) -> u64 {
        let whole = (0..secs * 1000 / SLOT_MS).map(|s| u128::from(self.rate(s) * SLOT_MS / 1000));
        (whole.sum::<u128>() / 1_000_000) as u64
    }

    /// The rooms that [`Event::room`] counts through.
    #[must_use]
    pub fn cast(&self) -> &Cast {
        &self.cast
    }

    /// What goes on at an event time.
    #[must_use]
    pub fn moment(&self, t_ms: i64) -> Moment {
        self.programme.at(u64::try_from(t_ms - START_MS).unwrap_or(0))
    }

    /// Micro-events a second of the whole site in a slot; leaves the acting rooms' sums behind.
    fn rate(&mut self, slot: u64) -> u64 {
        let moment = self.programme.at(slot * SLOT_MS);
        let steady = self.cast.rates(moment, &mut self.sums);
        steady + self.sums.last().copied().unwrap_or(0)
    }

    /// Draws the next slot's events into `drawn`, ordered by time.
    fn draw(&mut self) {
        let slot = self.slot;
        let rate = self.rate(slot);
        let moment = self.programme.at(slot * SLOT_MS);
        let after = self.sent + u128::from(rate * SLOT_MS / 1000);
        let (events, whole) = self.scale.unwrap_or((1, 1_000_000));
        let number = |sent: u128| u128::from(events) * sent / whole;
        let count = number(after) - number(self.sent);
        let mut random = Random::of(self.seed, slot);
        let begin = START_MS + (slot * SLOT_MS) as i64;
        self.drawn.clear();
        self.next = 0;
        for _ in 0..count {
            let event = self.event(&mut random, begin, rate, moment);
            self.drawn.push(event);
        }
        // Stable: events of one millisecond keep the order in which they were drawn.
        self.drawn.sort_by_key(|e| e.t_ms);
        self.slot += 1;
        self.sent = after;
    }

    fn event(&self, random: &mut Random, begin: i64, rate: u64, moment: Moment) -> Event {
        let acting = self.sums.last().copied().unwrap_or(0);
        let x = random.below(rate);
        let room = if x < acting {
            self.sums.partition_point(|sum| *sum <= x)
        } else {
            self.cast.steady_room(random.below(self.cast.steady_sum()))
        };
        let room_of = &self.cast.rooms()[room];
        let bits = random.next();
        // The product of two even draws: a few users write much, most write little.
        let of_room = random.below(random_below(bits >> 32, room_of.users) + 1);
        let user = ((room as u64 * 7_919 + of_room) % 1_000_000) as u32;
        let raid = moment.scene == Scene::Storm
            && moment.into_ms.is_some()
            && matches!(room_of.role, Role::Match(_) | Role::Fan { .. });
        Event {
            t_ms: begin + (bits % SLOT_MS) as i64,
            room: room as u32,
            user,
            class: class(moment.scene, (bits >> 8) % 1_000),
            tier: if user.wrapping_mul(2_654_435_761) >> 16 & 15 == 0 {
                Tier::Vip
            } else {
                Tier::Ordinary
            },
            outcome: outcome(raid, (bits >> 20) % 1_000),
        }
    }
}

/// A number below `n` from 32 random bits.
fn random_below(bits: u64, n: u64) -> u64 {
    (bits * n) >> 32
}

/// Class by a draw below 1,000: mostly chat, more so in a storm, more gifts after a goal.
fn class(scene: Scene, x: u64) -> Class {
    let (gift, command, heartbeat) = match scene {
        Scene::Goal => (140, 60, 60),
        Scene::Storm => (50, 70, 50),
        _ => (80, 70, 120),
    };
    let marks = [
        (Class::System, 5),
        (Class::Broadcast, 10),
        (Class::Gift, gift),
        (Class::Command, command),
        (Class::Heartbeat, heartbeat),
    ];
    let mut sum = 0;
    for (class, share) in marks {
        sum += share;
        if x < sum {
            return class;
        }
    }
    Class::Chat
}

/// Outcome by a draw below 1,000; under a raid the servers behind the room fail more often.
fn outcome(raid: bool, x: u64) -> Outcome {
    let (error, timeout) = if raid { (25, 20) } else { (4, 2) };
    match x {
        x if x < error => Outcome::Error,
        x if x < error + timeout => Outcome::Timeout,
        x if x < error + timeout + 2 => Outcome::Rejected,
        x if x < error + timeout + 3 => Outcome::Ignored,
        _ => Outcome::Ok,
    }
}

impl Iterator for Night {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        // A slot may be empty where few events were asked for over a long time, but never 10 hours of them.
        for _ in 0..=360_000 {
            if let Some(event) = self.drawn.get(self.next) {
                self.next += 1;
                return Some(*event);
            }
            self.draw();
        }
        None
    }
}

/// Appends the event as one line of JSON, as the topic `room.events` carries it.
pub fn write_json(event: &Event, cast: &Cast, out: &mut String) {
    let room = &cast.rooms()[event.room as usize].name;
    let (t, user, class) = (event.t_ms, event.user, event.class.name());
    // Room names of the cast hold letters, digits and underscores: nothing to escape.
    let _ = write!(out, r#"{{"room":"{room}","ts":{t},"class":"{class}","user":"u_{user}""#);
    if event.tier == Tier::Vip {
        out.push_str(r#","tier":"vip""#);
    }
    if event.outcome != Outcome::Ok {
        let _ = write!(out, r#","outcome":"{}""#, event.outcome.name());
    }
    out.push_str("}\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(seed: u64, take: usize) -> String {
        let night = Night::new(seed, 90, Programme::Match);
        let cast = night.cast().clone();
        let mut text = String::new();
        for event in night.take(take) {
            write_json(&event, &cast, &mut text);
        }
        text
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
        assert_eq!(lines(7, 50_000), lines(7, 50_000));
        assert_ne!(lines(7, 1_000), lines(8, 1_000));
    }

    #[test]
    fn time_never_goes_back() {
        let night = Night::new(3, 90, Programme::Match);
        let mut last = START_MS;
        for event in night.take(300_000) {
            assert!(event.t_ms >= last);
            last = event.t_ms;
        }
        assert!(last > START_MS + 60_000);
    }

    #[test]
    fn a_scaled_night_holds_exactly_the_number_asked_for() {
        for (events, secs) in [(1, 10), (10_000, 60), (123_457, 300)] {
            let night = Night::new(1, 500, Programme::Match).scaled(events, secs);
            let end = START_MS + secs as i64 * 1000;
            let within = night.take(events as usize + 1).take_while(|e| e.t_ms < end).count();
            assert_eq!(within as u64, events, "{events} events in {secs} s");
        }
    }

    #[test]
    fn every_class_tier_and_outcome_is_there() {
        let mut classes = std::collections::BTreeSet::new();
        let mut outcomes = std::collections::BTreeSet::new();
        let mut vips = 0_u32;
        for event in Night::new(7, 90, Programme::Match).take(50_000) {
            classes.insert(event.class);
            outcomes.insert(event.outcome);
            vips += u32::from(event.tier == Tier::Vip);
        }
        assert_eq!((classes.len(), outcomes.len()), (6, 5));
        assert!((1_000..8_000).contains(&vips), "{vips} of 50,000 by vips");
    }

    #[test]
    fn the_goal_is_seven_times_as_loud_within_a_second() {
        let goal = START_MS + (120 + 10 + 25 + 3) * 1000;
        let (mut before, mut after) = (0_u32, 0_u32);
        for event in Night::new(7, 90, Programme::Match).take_while(|e| e.t_ms < goal + 1000) {
            if event.room == 0 && event.t_ms >= goal - 1000 {
                *if event.t_ms < goal { &mut before } else { &mut after } += 1;
            }
        }
        assert!(after > 6 * before && after > 900, "{before} → {after}");
    }
}
