//! One step of a room: every rule is asked, the ladder moves or the arbiter is asked, and all of it is said.

use super::baseline::{Frozen, InForce};
use super::exact::Excess;
use super::ladder::{Next, Wish};
use super::live::{Change, Live, Verdict};
use super::{
    Context, Outcome, Span, State, class, evidence, floor_of, kind, shape, span, ticks, verdict,
};
use crate::blast::{CAPPED, Request};
use crate::decision::{self, Identity, int, text};
use crate::features::Features;
use crate::rules::{Config, Rule};
use barrage_protocol::decision::{Decision, Evidence, Kind, Scope};
use barrage_protocol::ids::{Class, Level, RoomKey};

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
    turn.end_gone(state);
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
            let mut fresh = Live::new(shape, rule.version);
            let live = kept.unwrap_or(&mut fresh);
            let (enter, exit) = ticks(&rule.trigger);
            let before = *live;
            live.version = rule.version;
            let (asks, change) = live.tick(self.f.slot, verdict, enter, exit);
            if shape.moves_level() {
                wish.holds = wish.holds.max(live.holds);
                if asks > wish.asks {
                    (wish.asks, cause) = (asks, Some(i));
                }
            }
            let after = *live;
            if after.idle() {
                state.rules.remove(&rule.id);
            } else if before.idle() {
                state.rules.insert(rule.id.clone(), after);
            }
            opened |= change == Change::Entered && shape.freezes();
            self.changed(state, rule, change, &before, &after, exit);
        }
        if opened && state.frozen.is_none() {
            state.frozen = Some(Frozen::new(self.f.slot, self.base));
        }
        (wish, cause)
    }

    /// Ends what was on when its rule went out of force.
    fn end_gone(&mut self, state: &mut State) {
        for (id, live) in std::mem::take(&mut state.gone) {
            let (Some(since), Some(kind)) = (live.since, kind(live.shape)) else { continue };
            self.ended.push(span(&id, &live, since));
            let mut e = evidence::common(self.f, &self.base, state.frozen.as_ref());
            evidence::live(&live, &mut e);
            e.insert("rule_out_of_force".to_owned(), int(1));
            self.say(kind, (&id, live.version, None), ("on", "off"), e);
        }
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
        let Some(kind) = kind(before.shape) else { return };
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
            evidence::live(&Live { leaving: exit, ..*before }, &mut e);
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
