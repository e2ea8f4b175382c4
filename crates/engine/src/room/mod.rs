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
mod evidence;
pub mod exact;
pub mod fast;
pub mod ladder;
pub mod live;
pub mod micro;
pub mod rate;
pub mod surge;

use crate::blast::{CAPPED, Grant, Request};
use crate::decision::{self, Identity, int, text};
use crate::features::Features;
use crate::fixed::Fixed;
use crate::rules::{Config, Rule, Trigger};
use barrage_protocol::decision::{Decision, Evidence, Id, Kind, Scope};
use barrage_protocol::ids::{Class, Level, RoomKey, Slot};
use baseline::{Frozen, InForce};
use exact::Excess;
use ladder::{Next, Position, Wish};
use live::{Change, Live, Shape, Verdict};
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
    /// starts anew; one that vanished no longer holds. A surge or micro-burst that was on ends without a decision of
    /// its own being possible, since its rule is gone.
    pub fn reconfigure(&mut self, config: &Config) {
        let keeps = |id: &String, live: &mut Live| {
            config.rules.iter().any(|r| r.id == *id && shape(&r.trigger) == live.shape)
        };
        self.rules.retain(keeps);
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

/// One step: everything about it that does not change while it is taken.
struct Turn<'a> {
    config: &'a Config,
    room: &'a str,
    f: &'a Features,
    base: InForce,
    drafts: Vec<Decision>,
    ended: Vec<Span>,
}

/// Steps one room by the slot of `f`. Slots must come in order; slots may be left out only while
/// [`State::needs_step`] is false and no rule could enter.
#[must_use]
pub fn step(
    state: &mut State,
    config: &Config,
    room: &str,
    f: &Features,
    ctx: &Context,
) -> Outcome {
    let let_go = state.frozen.take_if(|frozen| frozen.ends(f.slot, &config.ladder));
    let base = state.in_force(f);
    let mut turn = Turn { config, room, f, base, drafts: Vec::new(), ended: Vec::new() };
    let (mut wish, cause) = turn.judge(state, ctx);
    wish.unknown |= ctx.unknown || f.slot < ctx.no_descent_before;
    let next = state.position.next(&config.ladder, f.slot, wish);
    turn.hold(state, next, wish, ctx);
    turn.frozen(state, let_go);
    turn.finish(state, next, wish, cause)
}

impl Turn<'_> {
    /// Asks every rule. Returns what they want, and the rule that asks for the most (the first by id).
    fn judge(&mut self, state: &mut State, ctx: &Context) -> (Wish, Option<usize>) {
        let mut wish = Wish { asks: Level::NORMAL, holds: Level::NORMAL, unknown: false };
        let mut cause = None;
        let mut opened = false;
        for (i, rule) in self.config.rules.iter().enumerate() {
            let shape = shape(&rule.trigger);
            let verdict = if ctx.unknown {
                Verdict::Unknown
            } else {
                verdict(&rule.trigger, self.f, &self.base)
            };
            wish.unknown |= verdict == Verdict::Unknown;
            let kept = state.rules.get_mut(&rule.id);
            let quiet = matches!(verdict, Verdict::Unknown | Verdict::Known { asks: Level(0), .. });
            // Almost every rule of almost every room is out and stays out: nothing is stored for it.
            if kept.is_none() && quiet {
                continue;
            }
            let mut fresh = Live::new(shape);
            let live = kept.unwrap_or(&mut fresh);
            let (enter, exit) = ticks(&rule.trigger);
            let before = live.clone();
            let (asks, change) = live.tick(self.f.slot, verdict, enter, exit);
            if shape.moves_level() {
                wish.holds = wish.holds.max(live.holds);
                if asks > wish.asks {
                    (wish.asks, cause) = (asks, Some(i));
                }
            }
            let after = live.clone();
            if after.idle() {
                state.rules.remove(&rule.id);
            } else if before.idle() {
                state.rules.insert(rule.id.clone(), after.clone());
            }
            opened |= change == Change::Entered && shape.freezes();
            self.changed(state, rule, change, &before, &after, exit);
        }
        if opened && state.frozen.is_none() {
            state.frozen = Some(Frozen::new(self.f.slot, self.base));
        }
        (wish, cause)
    }

    /// What a rule's going in or out says by itself: spans, surges, micro-bursts.
    fn changed(
        &mut self,
        state: &mut State,
        rule: &Rule,
        change: Change,
        before: &Live,
        after: &Live,
        exit: u32,
    ) {
        if let Change::Left(since) = change {
            self.ended.push(span(&rule.id, before, since));
            if before.shape.moves_level() {
                state.left = Some((rule.id.clone(), self.f.slot));
            }
        }
        let kind = match before.shape {
            Shape::Surge => Kind::Surge,
            Shape::Micro => Kind::Micro,
            _ => return,
        };
        if change == Change::None {
            return;
        }
        let mut e = evidence::common(self.f, &self.base, state.frozen.as_ref());
        evidence::rule(rule, self.f, &self.base, &mut e);
        let of = (rule.id.as_str(), rule.version, None);
        if change == Change::Entered {
            evidence::live(after, &mut e);
            self.say(kind, of, ("off", "on"), e);
        } else {
            evidence::live(&Live { leaving: exit, ..before.clone() }, &mut e);
            self.say(kind, of, ("on", "off"), e);
        }
    }

    /// Says when the flap guard begins and ceases to hold the room up. Where nothing is known, it stands as it is.
    fn hold(&mut self, state: &mut State, next: Next, wish: Wish, ctx: &Context) {
        let held = next == Next::Held;
        let unjudged = (wish.unknown || ctx.unknown) && next == Next::Stay;
        if held == state.position.held || unjudged {
            return;
        }
        state.position.held = held;
        let mut e = Evidence::new();
        evidence::ladder(&state.position, &self.config.ladder, self.f.slot, wish, &mut e);
        e.insert("level".to_owned(), int(state.position.level.0));
        for (i, at) in state.position.moves.iter().enumerate() {
            e.insert(format!("move_{}", i + 1), int(at.0));
        }
        let (from, to) = if held { ("off", "on") } else { ("on", "off") };
        self.say(Kind::FlapHold, ("flap", 1, None), (from, to), e);
    }

    /// Says when a baseline has been frozen for too long, and when such a one is let go.
    fn frozen(&mut self, state: &mut State, let_go: Option<Frozen>) {
        let (limit, slot) = (self.config.ladder.frozen_alarm, self.f.slot);
        let over = let_go.filter(|f| f.alarmed);
        if let Some(frozen) = &over {
            self.say_frozen(frozen, ("on", "off"));
        }
        if let Some(frozen) = &mut state.frozen
            && !frozen.alarmed
            && frozen.age(slot) >= limit
        {
            frozen.alarmed = true;
            let frozen = frozen.clone();
            self.say_frozen(&frozen, ("off", "on"));
        }
    }

    fn say_frozen(&mut self, frozen: &Frozen, change: (&str, &str)) {
        let mut e = evidence::common(self.f, &self.base, Some(frozen));
        e.insert("frozen_since".to_owned(), int(frozen.since.0));
        e.insert("frozen_slots".to_owned(), int(frozen.age(self.f.slot)));
        e.insert("frozen_alarm".to_owned(), int(self.config.ladder.frozen_alarm));
        e.insert("frozen_max".to_owned(), int(self.config.ladder.frozen_max));
        e.insert("rebase".to_owned(), int(u8::from(frozen.rebase)));
        if let Some(calm) = frozen.calm {
            e.insert("level_0_since".to_owned(), int(calm.0));
        }
        self.say(Kind::FrozenLong, ("frozen", 1, None), change, e);
    }

    fn say(
        &mut self,
        kind: Kind,
        rule: (&str, u64, Option<Class>),
        change: (&str, &str),
        evidence: Evidence,
    ) {
        let draft = self.draft(kind, rule, change, evidence);
        self.drafts.push(draft);
    }

    fn draft(
        &self,
        kind: Kind,
        (rule, rule_version, class): (&str, u64, Option<Class>),
        (from, to): (&str, &str),
        evidence: Evidence,
    ) -> Decision {
        let identity = Identity {
            rules_hash: &self.config.rules_hash,
            rule,
            rule_version,
            mode: "enforce",
            scope: Scope::Room,
            subject: self.room,
            class,
            slot: self.f.slot,
            kind,
            from,
            to,
        };
        decision::draft(&identity, evidence)
    }

    /// Moves the level, or asks the arbiter; then orders and chains what was said.
    fn finish(
        mut self,
        state: &mut State,
        next: Next,
        wish: Wish,
        cause: Option<usize>,
    ) -> Outcome {
        let (from, ladder) = (state.position.level, &self.config.ladder);
        let mut asked = None;
        match next {
            Next::Stay | Next::Held => {}
            Next::Down(to) => {
                let level = self.descent(state, to, wish);
                self.drafts.push(level);
                state.position.go(ladder, self.f.slot, to);
            }
            Next::Up(to) if to < CAPPED => {
                self.drafts.extend(self.rise(state, to, wish, cause, None));
                state.position.go(ladder, self.f.slot, to);
            }
            Next::Up(to) => {
                let granted = self.rise(state, to, wish, cause, Some("granted"));
                // Refused, it still does what needs no leave.
                let refused = (from < Level(1))
                    .then(|| self.rise(state, Level(1), wish, cause, Some("refused")))
                    .flatten();
                state.position.go(ladder, self.f.slot, from.max(Level(1)));
                asked = Some((to, granted, refused));
            }
        }
        self.calm(state);
        let Some((to, granted, refused)) = asked else {
            decision::sort(&mut self.drafts);
            state.prev = decision::chain(&mut self.drafts, state.prev);
            return Outcome { decisions: self.drafts, request: None, ended: self.ended };
        };
        let with = |level: Option<Decision>| {
            let mut all = self.drafts.clone();
            all.extend(level);
            decision::sort(&mut all);
            let last = decision::chain(&mut all, state.prev);
            (all, last)
        };
        let (granted, _) = with(granted);
        let (refused, last) = with(refused);
        let request = Request {
            room: RoomKey::of(self.room),
            name: self.room.to_owned(),
            slot: self.f.slot,
            ratio: self.ratio(),
            from,
            to,
            granted,
            refused,
        };
        state.prev = last;
        Outcome { decisions: Vec::new(), request: Some(request), ended: self.ended }
    }

    /// Burst ratio in millionths for the arbiter: a room whose baseline is unknown shows no rise.
    fn ratio(&self) -> i64 {
        let excess = Excess::new(self.f.count_10s, &self.base.baseline, floor_of(self.config));
        if self.base.baseline.known() { excess.ratio_millionths() } else { 0 }
    }

    /// Notes since when the room is calm: level 0 and no burst or fast rule in.
    fn calm(&self, state: &mut State) {
        let rules = &state.rules;
        if let Some(frozen) = &mut state.frozen {
            let calm = state.position.level == Level::NORMAL
                && !rules.values().any(|l| l.shape.freezes() && l.since.is_some());
            match (calm, frozen.calm) {
                (true, None) => frozen.calm = Some(self.f.slot),
                (false, Some(_)) => frozen.calm = None,
                _ => {}
            }
        }
    }

    fn rise(
        &self,
        state: &State,
        to: Level,
        wish: Wish,
        cause: Option<usize>,
        blast: Option<&str>,
    ) -> Option<Decision> {
        let rule = self.config.rules.get(cause?)?;
        // The baseline shown is the one compared; it may have been frozen in this very slot.
        let mut e = evidence::common(self.f, &self.base, state.frozen.as_ref());
        evidence::rule(rule, self.f, &self.base, &mut e);
        evidence::ladder(&state.position, &self.config.ladder, self.f.slot, wish, &mut e);
        if let Some(live) = state.rules.get(&rule.id) {
            evidence::live(live, &mut e);
            e.insert("ticks_entering".to_owned(), int(live.ticks(wish.asks)));
        }
        if let Some(answer) = blast {
            e.insert("blast".to_owned(), text(answer));
        }
        let (from, to) = (state.position.level.0.to_string(), to.0.to_string());
        let of = (rule.id.as_str(), rule.version, class(&rule.trigger));
        Some(self.draft(Kind::Level, of, (&from, &to), e))
    }

    fn descent(&self, state: &State, to: Level, wish: Wish) -> Decision {
        let mut e = evidence::common(self.f, &self.base, state.frozen.as_ref());
        evidence::ladder(&state.position, &self.config.ladder, self.f.slot, wish, &mut e);
        if let Some((rule, at)) = &state.left {
            e.insert("left_rule".to_owned(), text(rule));
            e.insert("left_at".to_owned(), int(at.0));
            if let Some(rule) = self.config.rules.iter().find(|r| r.id == *rule) {
                evidence::rule(rule, self.f, &self.base, &mut e);
            }
        }
        let (from, to) = (state.position.level.0.to_string(), to.0.to_string());
        self.draft(Kind::Level, ("ladder", 1, None), (&from, &to), e)
    }
}
