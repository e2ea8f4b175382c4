//! Rules as shipped, a room that is stepped slot by slot, and a small seeded generator.

use crate::twin::Twin;
use barrage_engine::blast::{Arbiter, SiteTotals};
use barrage_engine::fixed::Fixed;
use barrage_engine::room::{self, Context, Span, State};
use barrage_engine::rules::{
    Burst, Config, Fast, Ladder, Micro, Mode, Rate, Rule, StepTo, Surge, Trigger, Window,
};
use barrage_protocol::decision::{Decision, Kind};
use barrage_protocol::ids::{Level, RoomKey};

/// Numbers from a seed (splitmix64, by its published recurrence).
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to n − 1.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

pub(crate) fn ladder() -> Ladder {
    Ladder {
        min_dwell: 100,
        step_every: 100,
        max_moves: 3,
        moves_within: 6_000,
        blast_min: 5,
        blast_max_share: Fixed::milli(200),
        blast_within: 600,
        blast_lift_ratio: Fixed::int(2),
        frozen_max: 72_000,
        frozen_alarm: 9_000,
    }
}

pub(crate) fn step_to(level: u8, above: i64) -> StepTo {
    StepTo { level: Level(level), above: Fixed::int(above) }
}

pub(crate) fn rule(id: &str, trigger: Trigger) -> Rule {
    Rule { id: id.to_owned(), version: 1, mode: Mode::Enforce, group: None, trigger }
}

pub(crate) fn burst() -> Burst {
    Burst {
        steps: vec![step_to(1, 2), step_to(2, 4), step_to(3, 8)],
        min_count_60s: 1_500,
        z: Fixed::int(4),
        dispersion: Fixed::milli(1_600),
        baseline_floor: Fixed::int(1),
        ratio_exit: Fixed::milli(800),
        count_exit_share: Fixed::milli(800),
        enter_ticks: 1,
        exit_ticks: 100,
    }
}

pub(crate) fn fast() -> Fast {
    Fast {
        ratio: Fixed::int(4),
        min_count_1s: 800,
        level: Level(1),
        baseline_floor: Fixed::int(1),
        ratio_exit: Fixed::milli(800),
        rate_exit: Fixed::int(20),
        exit_as_burst: false,
        enter_ticks: 1,
        exit_ticks: 100,
    }
}

pub(crate) fn rate() -> Rate {
    Rate {
        window: Window::S10,
        class: None,
        steps: vec![step_to(2, 2_000)],
        exit: Fixed::int(1_200),
        enter_ticks: 1,
        exit_ticks: 100,
    }
}

pub(crate) fn shipped() -> Config {
    Config {
        group: "default".to_owned(),
        rules_hash: "test".to_owned(),
        ladder: ladder(),
        rules: vec![
            rule("burst", Trigger::Burst(burst())),
            rule("fast", Trigger::Fast(fast())),
            rule(
                "micro",
                Trigger::Micro(Micro {
                    ratio: Fixed::int(5),
                    min_rate: Fixed::int(1_000),
                    min_life: 10,
                    exit_ticks: 50,
                }),
            ),
            rule("rate", Trigger::Rate(rate())),
            rule("surge", Trigger::Surge(Surge { c: 8, min_life: 300, exit_ticks: 100 })),
        ],
    }
}

/// What a decision says, in short: slot, kind, before, after.
pub(crate) type Said = (u64, Kind, String, String);

pub(crate) fn said(d: &Decision) -> Said {
    (d.slot.0, d.kind, d.from.clone(), d.to.clone())
}

/// One room with its own arbiter, fed with counts.
pub(crate) struct Run {
    pub(crate) config: Config,
    pub(crate) twin: Twin,
    pub(crate) state: State,
    pub(crate) arbiter: Arbiter,
    pub(crate) ctx: Context,
    pub(crate) decisions: Vec<Decision>,
    pub(crate) spans: Vec<Span>,
    /// Rooms with events in the last minute, as the arbiter is told.
    pub(crate) rooms: u64,
}

pub(crate) const ROOM: &str = "r_1";

impl Run {
    pub(crate) fn new(config: Config, first: u64) -> Self {
        Self {
            config,
            twin: Twin::new(first),
            state: State::default(),
            arbiter: Arbiter::default(),
            ctx: Context::default(),
            decisions: Vec::new(),
            spans: Vec::new(),
            rooms: 1,
        }
    }

    /// Closes the next slot with this many events; returns the decisions of that slot.
    pub(crate) fn close(&mut self, count: u32) -> Vec<Decision> {
        let f = self.twin.close(count, self.state.surge_since());
        let slot = f.slot;
        // A room that never had an event does not exist for the windows.
        let mut all = Vec::new();
        let mut requests = Vec::new();
        if self.twin.born() {
            let out = room::step(&mut self.state, &self.config, ROOM, &f, &self.ctx);
            assert!(out.request.is_none() || out.decisions.is_empty());
            all = out.decisions;
            requests.extend(out.request);
            self.spans.extend(out.ended);
        }
        let totals = SiteTotals { count: count.into(), rooms_60s: self.rooms };
        let (more, grants) = self.arbiter.close(
            slot,
            &self.config.ladder,
            &self.config.rules_hash,
            totals,
            requests,
        );
        for grant in &grants {
            assert_eq!(grant.room, RoomKey::of(ROOM));
            self.state.granted(&self.config, grant);
        }
        all.extend(more);
        self.decisions.extend(all.iter().cloned());
        all
    }

    /// All that was said about the room, with slots counted from `zero` and ends of slots as times: 1 is 0.1 s after.
    pub(crate) fn said_from(&self, zero: u64) -> Vec<Said> {
        let of_room = self.decisions.iter().filter(|d| d.subject == ROOM);
        let mut all: Vec<Said> = of_room.map(said).collect();
        all.retain(|s| s.0 >= zero);
        for s in &mut all {
            s.0 = s.0 + 1 - zero;
        }
        all
    }
}

/// Counts per slot of evenly spaced events: event k of a segment at floor(k · 1000 / rate) ms after its start.
pub(crate) fn evenly(segments: &[(u64, u64)]) -> Vec<u32> {
    let mut counts = Vec::new();
    for (rate, ms) in segments {
        let start = counts.len();
        counts.resize(start + (*ms / 100) as usize, 0);
        for k in 0.. {
            if *rate == 0 || k * 1_000 / rate >= *ms {
                break;
            }
            counts[start + (k * 1_000 / rate / 100) as usize] += 1;
        }
    }
    counts
}

#[test]
fn events_are_spaced_as_the_golden_cases_say() {
    assert_eq!(evenly(&[(120, 200)]), [12, 12]);
    // 4/s: events at 0, 250, 500, 750 ms.
    assert_eq!(evenly(&[(4, 1_000)]), [1, 0, 1, 0, 0, 1, 0, 1, 0, 0]);
    assert_eq!(evenly(&[(1_000, 100), (0, 100), (10, 100)]), [100, 0, 1]);
}
