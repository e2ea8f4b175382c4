//! One room's rules and ladder, stepped slot by slot (semantics §3, §4).
//!
//! A step takes what the windows say about a slot and yields decisions. Everything a room must remember is in
//! [`State`]; everything else is an argument. What the specification leaves open is decided so:
//! * A rule asks for a level only in slots whose enter condition holds, so that the evidence of every rise is true in
//!   its own slot. The highest level it has asked for since it went in is what it *holds* until it leaves: no descent
//!   goes below it.
//! * An unknown slot interrupts "ticks in a row", of entering and of leaving alike.
//! * While a burst or fast rule of the room is unknown, other rules may raise the level; nothing brings it down.
//! * A baseline frozen once is not frozen again by the same rule staying in, only by one that opens.

pub mod baseline;
pub mod burst;
mod enter;
mod evidence;
pub mod exact;
pub mod fast;
pub mod ladder;
pub mod live;
pub mod micro;
pub mod rate;
pub mod surge;
mod turn;

pub use turn::step;

pub use enter::{entering, may_enter};

use crate::blast::{Grant, Request};
use crate::features::Features;
use crate::fixed::Fixed;
use crate::rules::{Config, Rule, Trigger};
use barrage_protocol::decision::{Decision, Id, Kind};
use barrage_protocol::ids::{Class, Level, Slot};
use baseline::{Frozen, InForce};
use exact::Excess;
use ladder::Position;
use live::{Live, Shape, Verdict};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Slow state of one room: what a checkpoint keeps of it, beside the windows' own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    position: Position,
    frozen: Option<Frozen>,
    /// Rules that are in, entering or leaving, by id.
    rules: BTreeMap<String, Live>,
    /// The last rule to leave and when, for the evidence of descents.
    left: Option<(String, Slot)>,
    /// Surges and micro-bursts that were on when their rule went out of force: their end is said with the next step.
    gone: Vec<(String, Live)>,
    prev: Option<Id>,
}

/// What holds for a step beside the room's own numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// A partition of the room is absent: nothing enters, leaves or comes down.
    pub unknown: bool,
    /// Before this slot nothing comes down: the windows are not yet full after a start without a checkpoint.
    pub no_descent_before: Slot,
}

/// One time that a rule was in, from the slot it entered to its last entering slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Id of the rule.
    pub rule: String,
    /// Its kind.
    pub shape: Shape,
    /// The slot whose close put the rule in.
    pub from: Slot,
    /// The last slot whose enter condition held.
    pub to: Slot,
}

/// What a step concluded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Decisions in canonical order; empty when there is a request, which then holds them.
    pub decisions: Vec<Decision>,
    /// A rise to level 2 or above that the arbiter must allow, with all decisions of this room and slot.
    pub request: Option<Request>,
    /// Rules that left.
    pub ended: Vec<Span>,
}

impl State {
    /// A room whose level is known from elsewhere (policies in force at a start without a checkpoint).
    #[must_use]
    pub fn seeded(level: Level, slot: Slot) -> Self {
        let position =
            Position { level: level.min(Level::MAX), since: slot, ..Position::default() };
        Self { position, ..Self::default() }
    }

    /// Whether the room must be stepped in every slot, whatever its counts.
    #[must_use]
    pub fn needs_step(&self) -> bool {
        self.position.level > Level::NORMAL
            || self.frozen.is_some()
            || self.position.held
            || !self.gone.is_empty()
            || !self.rules.is_empty()
    }

    /// The level.
    #[must_use]
    pub fn level(&self) -> Level {
        self.position.level
    }

    /// The slot since which the level has stood; none: it never moved.
    #[must_use]
    pub fn level_since(&self) -> Option<Slot> {
        (self.position.way.is_some() || self.position.level > Level::NORMAL)
            .then_some(self.position.since)
    }

    /// The slot whose close opened the youngest surge that is on.
    #[must_use]
    pub fn surge_since(&self) -> Option<Slot> {
        self.since(Shape::Surge)
    }

    /// The slot whose close opened the youngest micro-burst that is on.
    #[must_use]
    pub fn micro_since(&self) -> Option<Slot> {
        self.since(Shape::Micro)
    }

    fn since(&self, shape: Shape) -> Option<Slot> {
        self.rules.values().filter(|l| l.shape == shape).filter_map(|l| l.since).max()
    }

    /// Rules that are in, ordered by id.
    pub fn open(&self) -> impl Iterator<Item = Span> + '_ {
        self.rules.iter().filter_map(|(id, l)| l.since.map(|since| span(id, l, since)))
    }

    /// Whether the flap guard holds the room up.
    #[must_use]
    pub fn held(&self) -> bool {
        self.position.held
    }

    /// Slot since which the baseline is frozen.
    #[must_use]
    pub fn frozen_since(&self) -> Option<Slot> {
        self.frozen.as_ref().map(|f| f.since)
    }

    /// The baseline that a slot with these features is judged against.
    #[must_use]
    pub fn in_force(&self, f: &Features) -> InForce {
        baseline::in_force(self.frozen.as_ref(), f)
    }

    /// Burst ratio in millionths, rounded down; none while the baseline is unknown.
    #[must_use]
    pub fn burst_ratio(&self, config: &Config, f: &Features) -> Option<i64> {
        let base = self.in_force(f).baseline;
        let excess = Excess::new(f.count_10s, &base, floor_of(config));
        base.known().then(|| excess.ratio_millionths())
    }

    /// The 10 s rate, in thousandths per second, above which a next level could be asked for; for the eye only, since
    /// z and the fast rule are not in it.
    #[must_use]
    pub fn next_threshold(&self, config: &Config, f: &Features) -> Option<i64> {
        let (base, level) = (self.in_force(f), self.level());
        let of = |rule: &Rule| match &rule.trigger {
            Trigger::Burst(r) if base.baseline.known() => burst::next_rate(r, &base, level),
            Trigger::Rate(r) => rate::next_rate(r, level),
            _ => None,
        };
        config.rules.iter().filter_map(of).min()
    }

    /// Takes the arbiter's answer, before the next slot is stepped.
    pub fn granted(&mut self, config: &Config, grant: &Grant) {
        self.position.go(&config.ladder, grant.slot, grant.level);
        self.prev = grant.last;
    }

    /// The present rate is the new normal: the frozen baseline is let go with the next step.
    pub fn rebase(&mut self) {
        if let Some(frozen) = &mut self.frozen {
            frozen.rebase = true;
        }
    }

    /// Another rule set (or group) holds from the next step on: a rule keeps its state by id; one whose kind changed
    /// starts anew; one that vanished no longer holds. A surge or micro-burst whose rule is gone ends with the next step.
    pub fn reconfigure(&mut self, config: &Config) {
        let gone = &mut self.gone;
        self.rules.retain(|id, live| {
            let keeps = |r: &Rule| r.id == *id && shape(&r.trigger) == live.shape;
            let kept = config.rules.iter().any(keeps);
            if !kept && !live.shape.moves_level() {
                gone.push((id.clone(), *live));
            }
            kept
        });
    }
}

fn span(id: &str, live: &Live, from: Slot) -> Span {
    Span { rule: id.to_owned(), shape: live.shape, from, to: live.last }
}

fn shape(trigger: &Trigger) -> Shape {
    match trigger {
        Trigger::Burst(_) => Shape::Burst,
        Trigger::Fast(_) => Shape::Fast,
        Trigger::Rate(_) => Shape::Rate,
        Trigger::Surge(_) => Shape::Surge,
        Trigger::Micro(_) => Shape::Micro,
    }
}

/// What a rule of this kind says by itself, if anything.
fn kind(shape: Shape) -> Option<Kind> {
    match shape {
        Shape::Surge => Some(Kind::Surge),
        Shape::Micro => Some(Kind::Micro),
        Shape::Burst | Shape::Fast | Shape::Rate => None,
    }
}

fn class(trigger: &Trigger) -> Option<Class> {
    match trigger {
        Trigger::Rate(r) => r.class,
        _ => None,
    }
}

fn ticks(trigger: &Trigger) -> (u32, u32) {
    match trigger {
        Trigger::Burst(r) => (r.enter_ticks, r.exit_ticks),
        Trigger::Fast(r) => (r.enter_ticks, r.exit_ticks),
        Trigger::Rate(r) => (r.enter_ticks, r.exit_ticks),
        Trigger::Surge(r) => (1, r.exit_ticks),
        Trigger::Micro(r) => (1, r.exit_ticks),
    }
}

fn verdict(trigger: &Trigger, f: &Features, base: &InForce) -> Verdict {
    match trigger {
        Trigger::Burst(r) => burst::verdict(r, f, base),
        Trigger::Fast(r) => fast::verdict(r, f, base),
        Trigger::Rate(r) => rate::verdict(r, f),
        Trigger::Surge(r) => surge::verdict(r, f),
        Trigger::Micro(r) => micro::verdict(r, f),
    }
}

/// The baseline floor of the first burst rule, else 1 per second: for the order of requests and for the eye.
fn floor_of(config: &Config) -> Fixed {
    let of = |rule: &Rule| match &rule.trigger {
        Trigger::Burst(r) => Some(r.baseline_floor),
        _ => None,
    };
    config.rules.iter().find_map(of).unwrap_or(Fixed::int(1))
}
