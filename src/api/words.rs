//! A decision told in words, with its arithmetic: the numbers of the evidence and nothing else.

use barrage_protocol::decision::{Decision, Evidence, Kind, Value};
use barrage_protocol::ids::{Level, SLOT_MS};

/// The headline: what happened to whom.
#[must_use]
pub fn title(decision: &Decision) -> String {
    let on = decision.to == "on";
    match decision.kind {
        Kind::Level => {
            let (from, to) = (level(&decision.from), level(&decision.to));
            let verb = if to > from { "up to" } else { "down to" };
            format!("{verb} level {} {}", to.0, to.name())
        }
        Kind::Surge => (if on { "surge begins" } else { "surge over" }).to_owned(),
        Kind::Micro => (if on { "micro-burst" } else { "micro-burst over" }).to_owned(),
        Kind::BlastCap => {
            (if on { "blast radius reached" } else { "blast radius free again" }).to_owned()
        }
        Kind::FlapHold => (if on { "held up: it flaps" } else { "no longer held up" }).to_owned(),
        Kind::FrozenLong => {
            (if on { "baseline frozen for long" } else { "frozen baseline let go" }).to_owned()
        }
    }
}

/// Why, as a calculation that can be followed by hand.
#[must_use]
pub fn arithmetic(decision: &Decision) -> String {
    let numbers = Numbers(&decision.evidence);
    let on = decision.to == "on";
    let told = match decision.kind {
        Kind::Level if decision.rule == "ladder" => numbers.descent(),
        Kind::Level => numbers.rise(level(&decision.to)),
        Kind::Surge if on => numbers.surge(),
        Kind::Surge => numbers.over("Neither 3 s nor 5 s held enough"),
        Kind::Micro if on => numbers.micro(),
        Kind::Micro => numbers.over("No slot of 100 ms stood out"),
        Kind::BlastCap => numbers.blast(on),
        Kind::FlapHold => numbers.flap(on),
        Kind::FrozenLong => numbers.frozen(on),
    };
    // Evidence of another version may lack a number: then what there is is listed as it is.
    told.unwrap_or_else(|| numbers.list())
}

fn level(text: &str) -> Level {
    Level(text.parse().unwrap_or(0))
}

/// The numbers of an evidence by name.
struct Numbers<'a>(&'a Evidence);

impl Numbers<'_> {
    fn get(&self, name: &str) -> Option<f64> {
        match self.0.get(name)? {
            Value::Int(n) => Some(*n as f64),
            Value::Dec(x) => Some(*x),
            Value::Text(_) => None,
        }
    }

    fn text(&self, name: &str) -> Option<&str> {
        match self.0.get(name)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A number with `places` decimals.
    fn dec(&self, name: &str, places: usize) -> Option<String> {
        Some(grouped(self.get(name)?, places))
    }

    /// Slots as seconds.
    fn secs(&self, name: &str) -> Option<String> {
        let secs = self.get(name)? * SLOT_MS as f64 / 1000.0;
        Some(grouped(secs, usize::from(secs.fract() != 0.0)))
    }

    fn rise(&self, to: Level) -> Option<String> {
        let mut told = if self.get(&format!("ratio_level_{}", to.0)).is_some() {
            self.burst(to)?
        } else if self.get("times_baseline").is_some() {
            self.fast()?
        } else {
            self.rate(to)?
        };
        match self.text("blast") {
            Some("refused") => told.push_str(
                " More was asked for, but the blast radius is used up: level 1 meanwhile.",
            ),
            Some("granted") => told.push_str(" The blast radius had room for it."),
            _ => {}
        }
        Some(told)
    }

    fn burst(&self, to: Level) -> Option<String> {
        let (rate, ratio) = (self.dec("rate_10s", 1)?, self.dec("burst_ratio", 2)?);
        let (base, floor) = (self.get("baseline")?, self.get("baseline_floor")?);
        let floored = grouped(base.max(floor), 1);
        let base = grouped(base, 1);
        let step = self.dec(&format!("ratio_level_{}", to.0), 1)?;
        let mut told = format!(
            "{rate}/s over 10 s is {ratio} × the baseline of {base}/s above it: \
             ({rate} − {base}) / {floored} = {ratio} > {step}"
        );
        if let (Some(count), Some(least)) = (self.dec("count_60s", 0), self.dec("min_count_60s", 0))
        {
            told.push_str(&format!(", {count} > {least} events in 60 s"));
        }
        if let (Some(z), Some(above)) = (self.dec("z", 1), self.dec("z_above", 1)) {
            told.push_str(&format!(", z = {z} > {above}"));
        }
        told.push('.');
        Some(told)
    }

    fn fast(&self) -> Option<String> {
        let (count, least) = (self.dec("count_1s", 0)?, self.dec("min_count_1s", 0)?);
        let base = self.get("baseline")?.max(self.get("baseline_floor")?);
        let times = self.get("times_baseline")?;
        Some(format!(
            "{count} events in 1 s: more than {} × the baseline of {}/s ({}), and more than {least}.",
            grouped(times, 1),
            grouped(base, 1),
            grouped(times * base, 1),
        ))
    }

    fn rate(&self, to: Level) -> Option<String> {
        let (rate, step) = (self.dec("rate", 1)?, self.dec(&format!("rate_level_{}", to.0), 1)?);
        let (count, over) = (self.dec("rate_count", 0)?, self.secs("rate_window_slots")?);
        Some(format!("{count} events in {over} s: {rate}/s > {step}/s."))
    }

    fn descent(&self) -> Option<String> {
        let (stood, dwell) = (self.secs("level_stood")?, self.secs("min_dwell")?);
        let (rate, held) = (self.dec("rate_10s", 1)?, self.dec("level_held", 0)?);
        let base = self.dec("baseline", 1)?;
        let mut told = format!(
            "{rate}/s over 10 s against a baseline of {base}/s; no rule holds more than level \
             {held}, and this one stood {stood} s ≥ {dwell} s: one step down."
        );
        if let (Some(moves), Some(most)) = (self.dec("moves", 0), self.dec("max_moves", 0)) {
            told.push_str(&format!(" {moves} of {most} moves in 10 min."));
        }
        Some(told)
    }

    fn surge(&self) -> Option<String> {
        let (n3, enough3) = (self.get("count_3s")?, self.get("count_3s_enough")?);
        let (n5, enough5) = (self.get("count_5s")?, self.get("count_5s_enough")?);
        let rest = self.get("background_counted_milli")? / 1000.0;
        let (n, enough, secs) = if n3 >= enough3 { (n3, enough3, 3.0) } else { (n5, enough5, 5.0) };
        let c = self.dec("c", 0)?;
        Some(format!(
            "{} events in {secs} s, {} are enough: 2.2 × the {} that {secs} s of its usual {} per \
             10 s hold, plus {c}.",
            grouped(n, 0),
            grouped(enough, 0),
            grouped(rest * secs / 10.0, 2),
            grouped(rest, 2),
        ))
    }

    fn micro(&self) -> Option<String> {
        let (rate, least) = (self.dec("rate_100ms", 0)?, self.dec("rate_100ms_above", 0)?);
        let (times, before) = (self.get("times_second_before")?, self.get("rate_1s_before")?);
        Some(format!(
            "{rate}/s within 100 ms: more than {} × the {}/s of the second before ({}/s), and more \
             than {least}/s.",
            grouped(times, 1),
            grouped(before, 1),
            grouped(times * before, 1),
        ))
    }

    fn over(&self, what: &str) -> Option<String> {
        let ticks = self.secs("exit_ticks")?;
        let rate = self.dec("rate_10s", 1)?;
        Some(format!("{what} for {ticks} s in a row; {rate}/s over the last 10 s."))
    }

    fn blast(&self, on: bool) -> Option<String> {
        let (asked, granted) = (self.dec("asked", 0)?, self.dec("granted", 0)?);
        let (used, cap) = (self.dec("used_before", 0)?, self.dec("cap", 0)?);
        let (least, rooms) = (self.dec("cap_min", 0)?, self.dec("rooms_60s", 0)?);
        let share = grouped(self.get("cap_share")? * 100.0, 0);
        let site = self.dec("site_rate_10s", 1)?;
        let lift = self.get("lift_ratio")?;
        let lifts_at = grouped(lift * self.get("site_baseline")?, 1);
        let cap = format!("max({least}, {share} % of {rooms} rooms) = {cap}");
        let lift = grouped(lift, 1);
        Some(if on {
            format!(
                "{asked} rooms ask for level 2 or more, {granted} get it: at most {cap} within 60 s, \
                 {used} were used. The site's {site}/s stay below {lift} × its baseline \
                 ({lifts_at}/s), so the cap holds."
            )
        } else if self.get("lifted")? > 0.0 {
            format!(
                "The site's {site}/s are at least {lift} × its baseline ({lifts_at}/s): the cap of \
                 {cap} is lifted."
            )
        } else {
            format!("{used} of {cap} are used within 60 s.")
        })
    }

    fn flap(&self, on: bool) -> Option<String> {
        let (moves, most) = (self.dec("moves", 0)?, self.dec("max_moves", 0)?);
        let (level, within) = (self.dec("level", 0)?, self.secs("moves_within")?);
        Some(if on {
            format!(
                "{moves} moves within {within} s, {most} are too many: it stays at level {level} \
                 rather than rattle."
            )
        } else {
            format!("{moves} moves within {within} s, fewer than {most}: it may come down again.")
        })
    }

    fn frozen(&self, on: bool) -> Option<String> {
        let (slots, alarm) = (self.secs("frozen_slots")?, self.secs("frozen_alarm")?);
        let base = self.dec("baseline", 1)?;
        Some(if on {
            format!("The baseline of {base}/s has stood still for {slots} s ≥ {alarm} s.")
        } else {
            format!("The baseline was held for {slots} s; from now on it follows the room again.")
        })
    }

    fn list(&self) -> String {
        let one = |(name, value): (&String, &Value)| match value {
            Value::Int(n) => format!("{name} {n}"),
            Value::Dec(x) => format!("{name} {x}"),
            Value::Text(text) => format!("{name} {text}"),
        };
        self.0.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

/// A number with so many decimals, thousands set apart by commas.
#[must_use]
pub fn grouped(x: f64, places: usize) -> String {
    let text = format!("{:.places$}", x.abs());
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut out = String::with_capacity(text.len() + 8);
    if x < 0.0 && text.bytes().any(|b| b.is_ascii_digit() && b != b'0') {
        out.push('−');
    }
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use barrage_protocol::decision::{Id, Scope};
    use barrage_protocol::ids::Slot;
    use std::collections::BTreeMap;

    fn decision(kind: Kind, rule: &str, to: &str, evidence: &[(&str, Value)]) -> Decision {
        Decision {
            id: Id([0; 16]),
            slot: Slot(1),
            scope: Scope::Room,
            subject: "r".into(),
            class: None,
            kind,
            rule: rule.into(),
            rule_version: 1,
            mode: "enforce".into(),
            from: "0".into(),
            to: to.into(),
            actor: "auto".into(),
            rules_hash: String::new(),
            prev: None,
            evidence: evidence.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect(),
            offsets: BTreeMap::new(),
        }
    }

    fn golden() -> Vec<(&'static str, Value)> {
        vec![
            ("rate_10s", Value::milli(480_000)),
            ("baseline", Value::milli(120_000)),
            ("baseline_floor", Value::milli(1_000)),
            ("burst_ratio", Value::milli(3_000)),
            ("ratio_level_1", Value::milli(2_000)),
            ("count_60s", Value::Int(10_800)),
            ("min_count_60s", Value::Int(1_500)),
            ("z", Value::milli(31_250)),
            ("z_above", Value::milli(4_000)),
        ]
    }

    #[test]
    fn a_burst_is_told_with_its_arithmetic() {
        let told = decision(Kind::Level, "burst", "1", &golden());
        assert_eq!(title(&told), "up to level 1 trim");
        assert_eq!(
            arithmetic(&told),
            "480.0/s over 10 s is 3.00 × the baseline of 120.0/s above it: \
             (480.0 − 120.0) / 120.0 = 3.00 > 2.0, 10,800 > 1,500 events in 60 s, z = 31.2 > 4.0."
        );
    }

    #[test]
    fn a_refusal_by_the_blast_radius_is_said() {
        let mut evidence = golden();
        evidence.push(("blast", Value::Text("refused".into())));
        let told = arithmetic(&decision(Kind::Level, "burst", "1", &evidence));
        assert!(told.ends_with("the blast radius is used up: level 1 meanwhile."), "{told}");
    }

    #[test]
    fn a_surge_names_the_window_that_was_enough() {
        let told = arithmetic(&decision(
            Kind::Surge,
            "surge",
            "on",
            &[
                ("count_3s", Value::Int(35)),
                ("count_3s_enough", Value::Int(35)),
                ("count_5s", Value::Int(43)),
                ("count_5s_enough", Value::Int(52)),
                ("background_counted_milli", Value::Int(40_000)),
                ("c", Value::Int(8)),
            ],
        ));
        assert_eq!(
            told,
            "35 events in 3 s, 35 are enough: 2.2 × the 12.00 that 3 s of its usual 40.00 per 10 s \
             hold, plus 8."
        );
    }

    #[test]
    fn evidence_that_lacks_a_number_is_listed() {
        let told = arithmetic(&decision(Kind::Level, "new", "2", &[("x", Value::Int(3))]));
        assert_eq!(told, "x 3");
        assert_eq!(arithmetic(&decision(Kind::Micro, "m", "on", &[])), "");
    }

    #[test]
    fn numbers_are_grouped() {
        let told: Vec<String> =
            [(0.0, 1), (999.95, 1), (1_000.0, 0), (-1_234_567.891, 2), (-0.04, 1)]
                .map(|(x, n)| grouped(x, n))
                .to_vec();
        assert_eq!(told, ["0.0", "1,000.0", "1,000", "−1,234,567.89", "0.0"]);
    }
}
