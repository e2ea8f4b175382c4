//! The whole controller once more, written from the specification's text alone: every slot is judged anew from the raw
//! counts, with plain fractions, without any state of the engine. Compared on random streams.

use crate::fixture::{Rng, Run, burst, fast, ladder, rate, rule, shipped, step_to};
use barrage_engine::fixed::Fixed;
use barrage_engine::rules::{Config, Ladder, Micro, Surge, Trigger};
use barrage_protocol::decision::Kind;
use std::collections::BTreeMap;

/// Settings that differ from stream to stream; the rest is as shipped.
#[derive(Clone, Debug)]
struct Settings {
    min_count_60s: i128,
    min_count_1s: i128,
    rate_enter: i128,
    rate_exit: i128,
    micro_rate: i128,
    enter_ticks: usize,
    exit_ticks: usize,
    dwell: u64,
    every: u64,
    max_moves: usize,
    moves_within: u64,
    blast_min: u64,
    blast_within: u64,
    frozen_alarm: u64,
    frozen_max: u64,
    no_descent_before: u64,
}

/// A baseline: slots of life, Σc, Σc².
type Base = (i128, i128, i128);

/// (slot, kind, rule, from, to)
type Line = (u64, Kind, &'static str, String, String);

struct Oracle<'a> {
    s: &'a Settings,
    c: &'a [u32],
    absent: &'a [bool],
    first: usize,
    /// Per slot, what the windows hold as the baseline (a hole's one included).
    windows: Vec<Base>,
    blocks: Vec<i128>,
    /// Per rule and slot: highest level whose condition held; whether it would leave.
    asked: BTreeMap<&'static str, Vec<u8>>,
    leaving: BTreeMap<&'static str, Vec<bool>>,
    /// Rules that are in: since, highest level asked for since.
    inside: BTreeMap<&'static str, (usize, u8)>,
    frozen: Option<(Base, usize, bool)>,
    /// Levels after each slot.
    levels: Vec<u8>,
    /// (slot, up) of every change of level.
    changes: Vec<(usize, bool)>,
    grants: Vec<usize>,
    held: bool,
    capped: bool,
    out: Vec<Line>,
}

const RULES: [&str; 5] = ["burst", "fast", "micro", "rate", "surge"];

impl Oracle<'_> {
    fn sum(&self, from: i64, to: i64) -> i128 {
        let c = |i: i64| usize::try_from(i).ok().and_then(|i| self.c.get(i)).copied().unwrap_or(0);
        (from..=to).map(|i| i128::from(c(i))).sum()
    }

    fn last(&self, t: usize, slots: i64) -> i128 {
        self.sum(t as i64 - slots + 1, t as i64)
    }

    fn base_over(&self, t: usize) -> Base {
        let life = (t as i64 - 699).max(self.first as i64)..=(t as i64 - 100);
        life.fold((0, 0, 0), |(n, s, q), i| {
            let c = i128::from(self.c[i as usize]);
            (n + 1, s + c, q + c * c)
        })
    }

    /// "Opens when a room is silent for ≥ 50 slots and baseline × silence ≥ 12 events; keeps the baseline of the last
    /// event until 700 slots after the return."
    fn window_base(&self, t: usize) -> Base {
        let opens = |e: usize, silence: usize| {
            silence >= 50 && {
                let (n, s, _) = self.windows[e];
                n >= 300 && s * silence as i128 >= 12 * n
            }
        };
        let mut later = t + 1;
        for e in (self.first..=t).rev().filter(|e| self.c[*e] > 0) {
            // Between the event at `e` and the next one at `later` lies a silence.
            let silence = later - 1 - e;
            if later > t && opens(e, t - e) || later <= t && t < later + 700 && opens(e, silence) {
                return self.windows[e];
            }
            if later + 700 <= t {
                break;
            }
            later = e;
        }
        self.base_over(t)
    }

    /// (rate_10s − baseline) / max(baseline, 1) compared with p/q: is it greater, is it less?
    fn ratio(&self, t: usize, (n, s, _): Base, p: i128, q: i128) -> (bool, bool) {
        // In events per 10 s and n slots: rate 10·r·n = count·n, baseline 10·b·n = 100·s.
        let above = self.last(t, 100) * n - 100 * s;
        let floor = (100 * s).max(10 * n);
        (above * q > p * floor, above * q < p * floor)
    }

    fn z_above_4(&self, t: usize, (n, s, q): Base) -> bool {
        let above = self.last(t, 100) * n - 100 * s;
        // sigma² · n² = max(10 (n·Σc² − (Σc)²), n · max(10·Σc, n)); z² > 16 with dispersion 8/5 and 7/60.
        let sigma = (10 * (n * q - s * s)).max(n * (10 * s).max(n));
        above > 0 && 3 * above * above > 16 * 8 * 7 * sigma
    }

    /// (highest level asked for, would leave), or none while unknown.
    fn judge(&self, rule: &str, t: usize, base: Base) -> Option<(u8, bool)> {
        let s = self.s;
        let known = base.0 >= 300;
        match rule {
            _ if self.absent[t] => None,
            "burst" | "fast" if !known => None,
            "burst" => {
                let steps = [(2, 1), (4, 2), (8, 3)].into_iter();
                let level = steps.filter(|p| self.ratio(t, base, p.0, 1).0).map(|p| p.1).max();
                let enough = self.last(t, 600) > s.min_count_60s && self.z_above_4(t, base);
                let few = self.last(t, 100) * 60 * 10 < 8 * s.min_count_60s * 10;
                let asks = if enough { level.unwrap_or(0) } else { 0 };
                Some((asks, self.ratio(t, base, 8, 10).1 || few))
            }
            "fast" => {
                let second = self.last(t, 10);
                let enters =
                    second > s.min_count_1s && second * base.0 > 4 * (10 * base.1).max(base.0);
                let leaves = self.ratio(t, base, 8, 10).1 || self.last(t, 100) < 200;
                Some((u8::from(enters), leaves))
            }
            "rate" => {
                let rate = self.last(t, 100);
                Some((2 * u8::from(rate > 10 * s.rate_enter), rate < 10 * s.rate_exit))
            }
            "micro" => {
                let c = i128::from(self.c[t]);
                let on = t - self.first >= 10
                    && 10 * c > s.micro_rate
                    && 10 * c > 5 * self.sum(t as i64 - 10, t as i64 - 1);
                Some((u8::from(on), !on))
            }
            _ => {
                let m = self.median();
                let l = m.max(1_000);
                let alive = (0..5)
                    .filter(|k| self.sum(t as i64 - 10 * k - 9, t as i64 - 10 * k) > 0)
                    .count();
                let n = (self.last(t, 30), self.last(t, 50));
                let on = t + 1 - self.first > 300
                    && (50_000 * n.0 >= 33 * l + 400_000 || 10_000 * n.1 >= 11 * l + 80_000)
                    && alive >= 3;
                Some((u8::from(on), !on))
            }
        }
    }

    fn median(&self) -> i128 {
        let mut last: Vec<i128> = self.blocks.iter().rev().take(18).copied().collect();
        last.sort_unstable();
        match last.len() {
            0 => 0,
            n if n % 2 == 1 => last[n / 2] * 1_000,
            n => (last[n / 2 - 1] + last[n / 2]) * 500,
        }
    }

    fn ticks(&self, rule: &str) -> (usize, usize) {
        match rule {
            "micro" => (1, 50),
            "surge" => (1, 100),
            _ => (self.s.enter_ticks, self.s.exit_ticks),
        }
    }

    /// One rule at one slot: what it asks for now, and whether it went in.
    fn rule(&mut self, rule: &'static str, t: usize, base: Base) -> (u8, bool) {
        let verdict = self.judge(rule, t, base);
        let (asks, leaves) = verdict.unwrap_or((0, false));
        self.asked.entry(rule).or_default().push(asks);
        self.leaving.entry(rule).or_default().push(verdict.is_some() && leaves && asks == 0);
        let (enter, exit) = self.ticks(rule);
        let asked = &self.asked[rule];
        let now = if asked.len() < enter {
            0
        } else {
            asked[asked.len() - enter..].iter().copied().min().unwrap_or(0)
        };
        if now > 0 {
            let new = !self.inside.contains_key(rule);
            let held = self.inside.entry(rule).or_insert((t, 0));
            held.1 = held.1.max(now);
            return (now, new);
        }
        let row = &self.leaving[rule];
        let left = row.len() >= exit && row[row.len() - exit..].iter().all(|l| *l);
        if left && self.inside.remove(rule).is_some() && matches!(rule, "surge" | "micro") {
            self.say(t, rule, ("on", "off"));
        }
        (0, false)
    }

    fn say(&mut self, t: usize, rule: &'static str, (from, to): (&str, &str)) {
        let kind = match rule {
            "surge" => Kind::Surge,
            "micro" => Kind::Micro,
            "flap" => Kind::FlapHold,
            "frozen" => Kind::FrozenLong,
            "blast" => Kind::BlastCap,
            _ => Kind::Level,
        };
        self.out.push((t as u64, kind, rule, from.to_owned(), to.to_owned()));
    }

    /// Moves: slots at which the direction changed, in the last `moves_within` slots.
    fn moves(&self, t: usize) -> usize {
        let turned = |i: usize| i == 0 || self.changes[i - 1].1 != self.changes[i].1;
        let turns = (0..self.changes.len()).filter(|i| turned(*i));
        turns.filter(|i| ((t - self.changes[*i].0) as u64) < self.s.moves_within).count()
    }

    fn lifted(&self, t: usize) -> bool {
        let (n, s, _) = self.base_over(t);
        n >= 300 && self.last(t, 100) * n >= 2 * 100 * s
    }

    fn go(&mut self, t: usize, rule: &'static str, to: u8) {
        let from = *self.levels.last().unwrap_or(&0);
        if from != to {
            self.say(t, rule, (&from.to_string(), &to.to_string()));
            self.changes.push((t, to > from));
        }
        self.levels.push(to);
    }

    fn slot(&mut self, t: usize) {
        let s = self.s;
        let base = self.window_base(t);
        self.windows.push(base);
        let surge = self.inside.get("surge").map(|i| i.0);
        let end = t + 1;
        if end.is_multiple_of(100) && surge.is_none_or(|since| end - (since + 1) >= 100) {
            self.blocks.push(self.last(t, 100));
        }
        let mut long = None;
        if let Some((_, since, alarmed)) = self.frozen
            && ((t - since) as u64 >= s.frozen_max || self.calm_for(t) >= 700)
        {
            self.frozen = None;
            long = alarmed.then_some(("on", "off"));
        }
        let base = self.frozen.map_or(base, |f| f.0);
        let (mut asks, mut cause, mut opened) = (0, "", false);
        for rule in RULES {
            let (now, new) = self.rule(rule, t, base);
            if new && matches!(rule, "surge" | "micro") {
                self.say(t, rule, ("off", "on"));
            } else if !matches!(rule, "surge" | "micro") && now > asks {
                (asks, cause) = (now, rule);
            }
            opened |= new && matches!(rule, "burst" | "fast");
        }
        if opened && self.frozen.is_none() {
            self.frozen = Some((base, t, false));
        }
        let unknown = self.absent[t] || base.0 < 300 || (t as u64) < s.no_descent_before;
        let refused = self.level(t, asks, cause, unknown);
        if let Some((_, since, alarmed @ false)) = &mut self.frozen
            && (t - *since) as u64 >= s.frozen_alarm
        {
            *alarmed = true;
            long = Some(("off", "on"));
        }
        if let Some(change) = long {
            self.say(t, "frozen", change);
        }
        let used = self.used(t);
        let on = refused || self.capped && !self.lifted(t) && used >= s.blast_min;
        if on != self.capped {
            self.capped = on;
            self.say(t, "blast", if on { ("off", "on") } else { ("on", "off") });
        }
    }

    /// For how many slots the level has been 0 without a burst or fast rule in, up to the slot before `t`.
    fn calm_for(&self, t: usize) -> usize {
        if self.inside.contains_key("burst") || self.inside.contains_key("fast") {
            return 0;
        }
        t - self.levels.iter().rposition(|l| *l > 0).map_or(0, |last| last + 1)
    }

    fn used(&self, t: usize) -> u64 {
        self.grants.iter().filter(|g| ((t - **g) as u64) < self.s.blast_within).count() as u64
    }

    /// The ladder and the arbiter; whether a request was refused.
    fn level(&mut self, t: usize, asks: u8, cause: &'static str, unknown: bool) -> bool {
        let s = self.s;
        let level = *self.levels.last().unwrap_or(&0);
        let levelled = ["burst", "fast", "rate"];
        let holds =
            levelled.iter().filter_map(|r| self.inside.get(r)).map(|i| i.1).max().unwrap_or(0);
        let since = |up: Option<bool>| {
            let all = self.changes.iter().rev();
            all.clone()
                .find(|c| up.is_none_or(|up| c.1 == up))
                .map_or(u64::MAX, |c| (t - c.0) as u64)
        };
        if asks > level {
            let granted = asks < 2 || self.lifted(t) || self.used(t) < s.blast_min;
            if asks >= 2 && granted {
                self.grants.push(t);
            }
            self.go(t, cause, if granted { asks } else { level.max(1) });
            self.hold(t, false);
            return !granted;
        }
        let may =
            level > holds && !unknown && since(None) >= s.dwell && since(Some(false)) >= s.every;
        let begins = self.changes.last().is_none_or(|c| c.1);
        let held = may && begins && self.moves(t) >= s.max_moves;
        if may && !held {
            self.go(t, "ladder", level - 1);
        } else {
            self.levels.push(level);
        }
        if !unknown || may {
            self.hold(t, held);
        }
        false
    }

    fn hold(&mut self, t: usize, held: bool) {
        if held != self.held {
            self.held = held;
            self.say(t, "flap", if held { ("off", "on") } else { ("on", "off") });
        }
    }
}

fn settings(rng: &mut Rng) -> Settings {
    let dwell = 10 + rng.below(120);
    Settings {
        min_count_60s: rng.pick(&[300, 600, 1_500]),
        min_count_1s: rng.pick(&[60, 150, 800]),
        rate_enter: rng.pick(&[100, 200, 400]),
        rate_exit: rng.pick(&[50, 80, 120]),
        micro_rate: rng.pick(&[100, 300, 1_000]),
        enter_ticks: 1 + rng.below(3) as usize,
        exit_ticks: 5 + rng.below(96) as usize,
        dwell,
        every: 10 + rng.below(120),
        max_moves: 1 + rng.below(4) as usize,
        moves_within: 300 + rng.below(2_000),
        blast_min: rng.pick(&[0, 1, 2, 5]),
        blast_within: 200 + rng.below(500),
        frozen_alarm: 100 + rng.below(900),
        frozen_max: 500 + rng.below(2_000),
        no_descent_before: rng.pick(&[0, 0, 700]),
    }
}

fn config(s: &Settings) -> Config {
    let (enter_ticks, exit_ticks) = (s.enter_ticks as u32, s.exit_ticks as u32);
    let min_count_60s = s.min_count_60s as u32;
    let mut by_ratio = burst();
    (by_ratio.min_count_60s, by_ratio.enter_ticks, by_ratio.exit_ticks) =
        (min_count_60s, enter_ticks, exit_ticks);
    let mut second = fast();
    (second.min_count_1s, second.enter_ticks, second.exit_ticks) =
        (s.min_count_1s as u32, enter_ticks, exit_ticks);
    let mut absolute = rate();
    absolute.steps = vec![step_to(2, s.rate_enter as i64)];
    absolute.exit = Fixed::int(s.rate_exit as i64);
    (absolute.enter_ticks, absolute.exit_ticks) = (enter_ticks, exit_ticks);
    let micro = Micro {
        ratio: Fixed::int(5),
        min_rate: Fixed::int(s.micro_rate as i64),
        min_life: 10,
        exit_ticks: 50,
    };
    Config {
        ladder: Ladder {
            min_dwell: s.dwell,
            step_every: s.every,
            max_moves: s.max_moves as u32,
            moves_within: s.moves_within,
            blast_min: s.blast_min as u32,
            blast_max_share: Fixed::int(0),
            blast_within: s.blast_within,
            frozen_max: s.frozen_max,
            frozen_alarm: s.frozen_alarm,
            ..ladder()
        },
        rules: vec![
            rule("burst", Trigger::Burst(by_ratio)),
            rule("fast", Trigger::Fast(second)),
            rule("micro", Trigger::Micro(micro)),
            rule("rate", Trigger::Rate(absolute)),
            rule("surge", Trigger::Surge(Surge { c: 8, min_life: 300, exit_ticks: 100 })),
        ],
        ..shipped()
    }
}

const SLOTS: usize = 2_200;

fn stream(rng: &mut Rng) -> (Vec<u32>, Vec<bool>) {
    let (mut counts, mut absent) = (Vec::new(), Vec::new());
    let usual = 1 + rng.below(9);
    while counts.len() < SLOTS {
        let factor = rng.pick(&[0, 1, 1, 1, 1, 2, 3, 4, 6, 9, 14]);
        let slots = rng.pick(&[3, 30, 60, 120, 250, 400]) + rng.below(20);
        let away = rng.below(12) == 0;
        for _ in 0..slots {
            let noise = rng.below(usual * factor / 2 + 1);
            counts.push((usual * factor * 3 / 4 + noise) as u32);
            absent.push(away);
        }
    }
    counts.truncate(SLOTS);
    absent.truncate(SLOTS);
    (counts, absent)
}

fn kept<T: serde::Serialize + serde::de::DeserializeOwned>(what: &T) -> T {
    serde_json::from_str(&serde_json::to_string(what).expect("kept")).expect("taken up")
}

#[test]
fn the_controller_equals_the_oracle_on_random_streams() {
    let mut kinds: BTreeMap<(Kind, String), usize> = BTreeMap::new();
    let mut refused = 0;
    for seed in 0..320 {
        let mut rng = Rng(seed);
        let s = settings(&mut rng);
        let (counts, absent) = stream(&mut rng);
        // A multiple of 100, so that blocks end alike.
        let base = 1_000_000;
        let mut run = Run::new(config(&s), base);
        run.ctx.no_descent_before = barrage_protocol::ids::Slot(base + s.no_descent_before);
        for (count, absent) in counts.iter().zip(&absent) {
            run.ctx.unknown = *absent;
            run.close(*count);
            // What a checkpoint keeps of the room and of the arbiter is everything.
            if rng.below(150) == 0 {
                run.state = kept(&run.state);
                run.arbiter = kept(&run.arbiter);
            }
        }
        let ours: Vec<Line> = run
            .decisions
            .iter()
            .map(|d| {
                let all = ["burst", "fast", "micro", "rate", "surge", "ladder", "flap", "frozen"];
                let name = all.into_iter().find(|n| *n == d.rule).unwrap_or("blast");
                (d.slot.0 - base, d.kind, name, d.from.clone(), d.to.clone())
            })
            .collect();
        let theirs = oracle(&s, &counts, &absent);
        let differ = ours.iter().zip(&theirs).position(|(a, b)| a != b);
        let at = differ.unwrap_or(ours.len().min(theirs.len()));
        let part = |l: &[Line]| l[at.saturating_sub(3)..(at + 3).min(l.len())].to_vec();
        let parts = (part(&ours), part(&theirs));
        assert!(ours == theirs, "seed {seed}, {s:?}: engine, oracle: {parts:#?}");
        for line in ours {
            *kinds.entry((line.1, line.4)).or_default() += 1;
        }
        let text = barrage_protocol::decision::Value::Text("refused".to_owned());
        refused += run.decisions.iter().filter(|d| d.evidence.get("blast") == Some(&text)).count();
    }
    println!("oracle: seeds 0 to 319 equal; decisions {kinds:?}, {refused} rises refused");
    for kind in [Kind::Surge, Kind::Micro, Kind::BlastCap, Kind::FlapHold, Kind::FrozenLong] {
        for to in ["on", "off"] {
            assert!(kinds.get(&(kind, to.to_owned())).is_some_and(|n| *n > 20), "{kind:?} {to}");
        }
    }
    for to in 0..=3 {
        assert!(kinds.get(&(Kind::Level, to.to_string())).is_some_and(|n| *n > 50), "level {to}");
    }
    assert!(refused > 20);
}

fn oracle(s: &Settings, counts: &[u32], absent: &[bool]) -> Vec<Line> {
    let Some(first) = counts.iter().position(|c| *c > 0) else { return Vec::new() };
    let mut oracle = Oracle {
        s,
        c: counts,
        absent,
        first,
        windows: vec![(0, 0, 0); first],
        blocks: Vec::new(),
        asked: BTreeMap::new(),
        leaving: BTreeMap::new(),
        inside: BTreeMap::new(),
        frozen: None,
        levels: vec![0; first],
        changes: Vec::new(),
        grants: Vec::new(),
        held: false,
        capped: false,
        out: Vec::new(),
    };
    for t in first..counts.len() {
        oracle.slot(t);
    }
    let order = |l: &Line| (l.0, l.1 == Kind::BlastCap, l.1);
    let mut out = oracle.out;
    out.sort_by_key(order);
    out
}
