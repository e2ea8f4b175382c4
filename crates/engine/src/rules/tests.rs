//! Tests of rule sets: the shipped defaults figure by figure, faults with their lines, floors against a search.

use super::*;
use crate::fixed::ONE;

fn faults(text: &str) -> Vec<(usize, String, String)> {
    let problems = parse(text).expect_err("a fault");
    problems.into_iter().map(|p| (p.line, p.what, p.hint.unwrap_or_default())).collect()
}

/// The shipped rules' settings, in thousandths (§3).
const SHIPPED_RULES: [(&str, &[(&str, i64)]); 5] = [
    (
        "burst",
        &[
            ("ratio_exit", 800),
            ("count_exit_share", 800),
            ("min_count_60s", 1_500_000),
            ("z", 4_000),
            ("dispersion", 1_600),
            ("baseline_floor", 1_000),
            ("enter_ticks", 1_000),
            ("exit_ticks", 100_000),
        ],
    ),
    (
        "fast",
        &[
            ("ratio", 4_000),
            ("min_count_1s", 800_000),
            ("baseline_floor", 1_000),
            ("ratio_exit", 800),
            // 0.8 × 1500 / 60, as burst leaves.
            ("rate_exit", 20_000),
            ("enter_ticks", 1_000),
            ("exit_ticks", 100_000),
        ],
    ),
    (
        "micro",
        &[("ratio", 5_000), ("min_rate", 1_000_000), ("min_life", 10_000), ("exit_ticks", 50_000)],
    ),
    ("rate", &[("exit", 1_200_000), ("enter_ticks", 1_000), ("exit_ticks", 100_000)]),
    ("surge", &[("c", 8_000), ("min_life", 300_000), ("exit_ticks", 100_000)]),
];

/// The figures of the specification (§3, §4), each of them.
#[test]
fn the_shipped_set_is_the_specification() {
    let set = RuleSet::shipped();
    assert!(set.notes.is_empty(), "{:?}", set.notes);
    let ladder = [
        ("ladder", "min_dwell", 100 * ONE),
        ("ladder", "step_every", 100 * ONE),
        ("ladder", "max_moves_per_10m", 3 * ONE),
        ("ladder.blast", "min", 5 * ONE),
        ("ladder.blast", "max_share", ONE / 5),
        ("ladder.blast", "within", 600 * ONE),
        ("ladder.blast", "lift_ratio", 2 * ONE),
        ("ladder.frozen", "max", 72_000 * ONE),
        ("ladder.frozen", "alarm", 9_000 * ONE),
    ];
    for (table, key, value) in ladder {
        assert_eq!(set.ladder.get(table, key), Some(Fixed(value)), "{table}.{key}");
    }
    let default = set.configs().pop().expect("the default group");
    assert_eq!(default.rules.len(), SHIPPED_RULES.len());
    for (rule, (id, values)) in default.rules.iter().zip(SHIPPED_RULES) {
        assert_eq!((rule.id.as_str(), rule.mode), (id, Mode::Enforce));
        for (key, milli) in values {
            assert_eq!(rule.trigger.get(key), Some(Fixed::milli(*milli)), "{id}.{key}");
        }
    }
    let steps = |id: &str| -> Vec<(u8, i64)> {
        let rule = default.rules.iter().find(|r| r.id == id).expect("a rule");
        rule.trigger.steps().iter().map(|s| (s.level.0, s.above.0 / ONE)).collect()
    };
    assert_eq!(steps("burst"), [(1, 2), (2, 4), (3, 8)]);
    assert_eq!(steps("rate"), [(2, 2_000)]);
    let floors = Floors::of(std::slice::from_ref(&default));
    assert_eq!(floors, Floors { count_60s: 800, count_100ms: 100, surge_c: Some(8) });
    let shed = |class| set.levels.values().any(|l| l.classes.contains_key(&class));
    assert!(!shed(Class::System) && !shed(Class::Gift), "never shed by automation");
}

/// The table of §4: what each level does to each class, and how many switches it turns off.
#[test]
fn the_shipped_levels_are_the_specification() {
    let set = RuleSet::shipped();
    let admit = |milli| Measure { admit: Some(Fixed::milli(milli)), ..Measure::default() };
    let delay = Measure { delay_ms: Some(100), ..Measure::default() };
    let top = Measure { top_only: true, ..Measure::default() };
    let buffer = Measure { buffer: Some(5_000), ttl_ms: Some(30_000), ..admit(400) };
    let levels: [(u32, &[(Class, &Measure)]); 3] = [
        (2, &[(Class::Chat, &delay), (Class::Heartbeat, &delay)]),
        (
            4,
            &[(Class::Command, &admit(900)), (Class::Chat, &buffer), (Class::Heartbeat, &admit(0))],
        ),
        (
            4,
            &[
                (Class::Broadcast, &admit(500)),
                (Class::Command, &top),
                (Class::Chat, &top),
                (Class::Heartbeat, &top),
            ],
        ),
    ];
    assert_eq!(set.levels.len(), levels.len());
    for (n, (off, classes)) in (1..).zip(levels) {
        let level = &set.levels[&Level(n)];
        assert_eq!(level.off, off, "level {n}");
        let is: Vec<(Class, &Measure)> = level.classes.iter().map(|(c, m)| (*c, m)).collect();
        assert_eq!(is, classes, "level {n}");
    }
    assert_eq!(set.plan[..2], ["like_count", "entrance_effects"]);
    assert_eq!(set.plan.last().map(String::as_str), Some("picture_quality"));
    assert_eq!(set.plan.len(), 6);
    let shape = Shape { capacity: 10_000, max_wait_ms: 500, drain_qps: 18_000 };
    assert!(set.groups.iter().all(|g| g.shape == shape), "a group without one takes the default's");
}

#[test]
fn five_faults_are_told_at_once_with_line_and_nearest_name() {
    let text = r#"schema = 1

[ladder]
min_dwel = "10s"

[[group]]
id = "chat"
match = { room = { prefix = "c_" } }
set = { burst.min_cuont_60s = 300 }

[[rule]]
id = "burst"
kind = "brust"
trigger = { min_count_60s = 1500 }

[[rule]]
id = "fast"
kind = "fast"
match = { group = "chats" }
trigger = { ratio = "four" }
"#;
    let told = faults(text);
    let expected = [
        (4, "unknown key `min_dwel`", "`min_dwell`"),
        (9, "unknown key `min_cuont_60s`", "`min_count_60s`"),
        (13, "unknown kind of rule `brust`", "`burst`"),
        (19, "no group `chats`", "`chat`"),
        (20, "`four` is not a number", "1 to 1000"),
    ];
    assert_eq!(told.len(), expected.len(), "{told:#?}");
    for ((line, what, hint), (at, says, near)) in told.iter().zip(expected) {
        assert_eq!(*line, at, "{what}");
        assert!(what.contains(says) && hint.contains(near), "{what}; {hint}");
    }
}

#[test]
fn each_kind_of_fault_has_its_line() {
    let rule = |more: &str| format!("schema = 1\n[[rule]]\nid = \"r\"\nkind = \"surge\"\n{more}\n");
    let cases = [
        ("schema = 2\n".to_owned(), 1),
        ("schema = 1\n[[rule]\n".to_owned(), 2),
        (rule("trigger = { c = -1 }"), 5),
        (rule("trigger = { c = 1.5 }"), 5),
        (rule("hold = { exit_ticks = \"10s\" }"), 5),
        (rule("mode = \"enforced\""), 5),
        (rule("version = \"one\""), 5),
        (rule("steps = [ { level = 1 } ]"), 5),
        (rule("match = { group = \"*\", class = \"chat\" }"), 5),
        (rule("[[rule]]\nid = \"r\"\nkind = \"micro\""), 5),
        ("schema = 1\n[ladder]\nmin_dwell = \"150ms\"\n".to_owned(), 3),
        ("schema = 1\n[ladder]\nblast = { max_share = 1.5 }\n".to_owned(), 3),
        ("schema = 1\n[levels.4]\noff = 1\n".to_owned(), 2),
        ("schema = 1\n[[group]]\nid = \"a\"\nmatch = { room = { prefx = \"x\" } }\n".to_owned(), 4),
    ];
    for (text, line) in cases {
        let told = faults(&text);
        assert!(told.iter().any(|f| f.0 == line), "line {line}: {told:?}\n{text}");
    }
}

/// The example of the contract, word for word in its keys.
#[test]
fn the_contracts_example_is_a_rule_set() {
    let text = r#"schema = 1

[ladder]
min_dwell = "10s"
step_every = "10s"
max_moves_per_10m = 3
blast = { min = 5, max_share = 0.20, within = "60s" }

[levels.2]
chat = { admit = 0.4, buffer = 5000, ttl = "30s" }

[[group]]
id = "chat"
match = { room = { prefix = "c_" } }
set = { burst.min_count_60s = 300 }

[[rule]]
id = "burst"
kind = "burst"
version = 17
mode = "enforce"
match = { group = "*" }
trigger = { ratio_exit = 0.8, min_count_60s = 1500, z = 4.0, baseline_floor = 1.0 }
steps = [ { level = 1, ratio = 2.0 }, { level = 2, ratio = 4.0 }, { level = 3, ratio = 8.0 } ]
hold = { enter_ticks = 1, exit_ticks = 100 }
"#;
    let set = parse(text).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert_eq!(set.group_of("c_1"), 0);
    assert_eq!(set.groups[usize::from(set.group_of("x"))].id, "default");
    let burst = |group: usize| {
        let config = &set.configs()[group];
        config.rules[0].trigger.get("min_count_60s")
    };
    assert_eq!(burst(0), Some(Fixed::int(300)), "a group's setting overrides the rule's");
    assert_eq!(burst(1), Some(Fixed::int(1_500)));
    let one = set.only_group("chat").expect("a group");
    assert_eq!(one.configs()[usize::from(one.group_of("anything"))].group, "chat");
    assert!(set.only_group("chta").is_err());
}

/// What this version does not decide is said, never passed over.
#[test]
fn kinds_and_modes_for_later_are_noted() {
    let text = "schema = 1\n[[rule]]\nid = \"b\"\nkind = \"breaker\"\n[[rule]]\nid = \"s\"\nkind = \"surge\"\nmode = \"shadow\"\n";
    let set = parse(text).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert!(set.notes.iter().any(|n| n.contains("breaker")), "{:?}", set.notes);
    assert!(set.notes.iter().any(|n| n.contains("shadow")), "{:?}", set.notes);
    assert!(set.configs().iter().all(|c| c.rules.is_empty()), "neither is evaluated");
}

#[test]
fn no_text_panics() {
    let shipped = RuleSet::shipped_text();
    let mut x = 5_u64;
    let mut next = move |n: usize| {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (x >> 33) as usize % n.max(1)
    };
    for case in 0..400 {
        let mut bytes = shipped.as_bytes().to_vec();
        for _ in 0..=next(6) {
            let at = next(bytes.len());
            match next(4) {
                0 => bytes.truncate(at),
                1 => bytes[at] = b" \"{}[]=.,\n-9e"[next(13)],
                2 => {
                    let end = (at + next(40)).min(bytes.len());
                    bytes.drain(at..end);
                }
                _ => {
                    let piece = bytes[at..(at + next(60)).min(bytes.len())].to_vec();
                    let to = next(bytes.len());
                    bytes.splice(to..to, piece);
                }
            }
            if bytes.is_empty() {
                break;
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        if let Err(problems) = parse(&text) {
            assert!(!problems.is_empty(), "case {case}");
        }
    }
}

/// The hash is that of the text, and the text is kept: whoever reads it again has the same set.
#[test]
fn text_and_hash_belong_together() {
    let set = RuleSet::shipped();
    assert_eq!(set.text, RuleSet::shipped_text());
    assert_eq!(set.hash, blake3::hash(set.text.as_bytes()).to_hex().to_string());
    let again = parse(&set.text).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert_eq!(again, set, "read over itself, it is itself");
    let other =
        parse(&format!("{}\n# one more word\n", set.text)).expect("a comment changes no rule");
    assert_ne!(other.hash, set.hash, "but the text");
    assert_eq!((&other.rules, &other.ladder), (&set.rules, &set.ladder));
}

fn set_of(text: &str) -> RuleSet {
    parse(&format!("schema = 1\n{text}")).unwrap_or_else(|problems| panic!("{problems:#?}\n{text}"))
}

/// "Leaves as burst does": by the ratio and count of the burst rule that holds for the same group.
#[test]
fn a_fast_rule_leaves_as_the_burst_rule_of_its_group() {
    let exits = |set: &RuleSet, group: &str| {
        let config = set.configs().into_iter().find(|c| c.group == group).expect("a group");
        let of = |key: &str| {
            let fast = config.rules.iter().find(|r| r.trigger.kind() == "fast").expect("fast");
            fast.trigger.get(key).map(Fixed::to_milli)
        };
        [of("ratio_exit"), of("rate_exit"), of("baseline_floor")].map(Option::unwrap_or_default)
    };
    let shipped = RuleSet::shipped();
    assert_eq!(exits(&shipped, "default"), [800, 20_000, 1_000]);
    assert_eq!(exits(&shipped, "chat"), [800, 4_000, 1_000], "0.8 × 300 / 60");
    let group = "[[group]]\nid = \"g\"\nmatch = { room = { prefix = \"g\" } }\n";
    let fast = "[[rule]]\nid = \"a\"\nkind = \"fast\"\n";
    let burst = "[[rule]]\nid = \"b\"\nkind = \"burst\"\n";
    let with = |set: &str, trigger: &str| {
        let set = set_of(&format!("{group}set = {{ {set} }}\n{fast}{trigger}\n{burst}"));
        [exits(&set, "g"), exits(&set, "default")]
    };
    let usual = [800, 20_000, 1_000];
    let changed =
        "burst.ratio_exit = 0.5, burst.count_exit_share = 0.5, burst.baseline_floor = 2.0";
    assert_eq!(with(changed, ""), [[500, 12_500, 2_000], usual]);
    assert_eq!(with("fast.rate_exit = 7.0", ""), [[800, 7_000, 1_000], usual]);
    // Its own figure ends the following, in every group.
    let own = "trigger = { ratio_exit = 1.5 }";
    assert_eq!(with("burst.ratio_exit = 0.5", own), [[1_500, 20_000, 1_000]; 2]);
    // Without a burst rule it leaves as the shipped one does.
    assert_eq!(exits(&set_of(fast), "default"), usual);
}

/// A rounded rate must part whole counts exactly where the fraction does: for every share and count.
#[test]
fn the_rounded_exit_rate_parts_counts_where_the_fraction_does() {
    let mut x = 77_u64;
    for case in 0..20_000 {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let share = i64::try_from((x >> 33) % 1_000_001).expect("small");
        let min = u32::try_from((x >> 20) % 3_000).expect("small");
        let mut set = RuleSet::shipped();
        let Trigger::Burst(burst) = &mut set.rules[0].trigger else {
            panic!("burst is first by id")
        };
        (burst.count_exit_share, burst.min_count_60s) = (Fixed(share), min);
        let burst = burst.clone();
        let Trigger::Fast(fast) = &mut set.rules[1].trigger else { panic!("then fast") };
        resolve::leave_as(fast, &burst);
        // count / 10 < share · min / 60, and the same against the rounded rate.
        let near = share * i64::from(min) / (6 * ONE);
        for count in (near - 1).max(0)..=near + 2 {
            let exact =
                i128::from(count) * 6 * i128::from(ONE) < i128::from(share) * i128::from(min);
            let rounded = count * ONE < fast.rate_exit.0 * 10;
            assert_eq!(rounded, exact, "case {case}: share {share}, min {min}, count {count}");
        }
    }
}

#[test]
fn defaults_fill_what_is_left_out() {
    let set = set_of("[[rule]]\nid = \"r\"\nkind = \"rate\"\ntrigger = { enter = 3000 }\n");
    assert_eq!((set.rules[0].version, set.rules[0].mode), (1, Mode::Enforce));
    let Trigger::Rate(rate) = &set.rules[0].trigger else { panic!("a rate rule") };
    assert_eq!(rate.window, Window::S10);
    assert_eq!(rate.steps, [StepTo { level: Level(2), above: Fixed::int(3_000) }]);
    assert_eq!((rate.exit, rate.exit_ticks, rate.class), (Fixed::int(1_200), 100, None));
    // A shorter plan, and more switches at a lower level: levels that are not written follow.
    let set = set_of("plan = [\"a\", \"b\", \"c\", \"d\", \"e\"]\n[levels.2]\noff = 5\n");
    assert_eq!(set.levels.values().map(|l| l.off).collect::<Vec<_>>(), [2, 5, 5]);
    assert_eq!(set.levels[&Level(2)].classes[&Class::Chat].buffer, Some(5_000));
    let set = set_of("plan = [\"a\"]\n");
    assert_eq!(set.levels.values().map(|l| l.off).collect::<Vec<_>>(), [1, 1, 1]);
    // Times in every unit.
    for (text, slots) in
        [("100ms", 1), ("10s", 100), ("2m", 1_200), ("2min", 1_200), ("1h", 36_000)]
    {
        let set = set_of(&format!("[ladder]\nmin_dwell = \"{text}\"\n"));
        assert_eq!(set.ladder.min_dwell, slots, "{text}");
    }
    // Decimals are exact: a float would make 0.29 · 10^6 something else.
    let set = set_of("[ladder]\nblast = { max_share = 0.29 }\n");
    assert_eq!(set.ladder.blast_max_share, Fixed(290_000));
}

/// The reference page names every setting, with unit, range and shipped value, and every word of the language.
#[test]
fn the_reference_page_names_every_setting() {
    let page = include_str!("../../../../docs/rules.md");
    let shipped = RuleSet::shipped();
    let default = shipped.configs().pop().expect("the default group");
    let section = |heading: &str| {
        let from = page.split_once(&format!("\n## {heading}\n")).expect(heading).1;
        from.split("\n## ").next().unwrap_or_default().to_owned()
    };
    let row = |setting: &keys::Setting| {
        let bound = |v| parse::show(setting.unit, v).replace('"', "");
        let (min, max) = (bound(setting.min), bound(setting.max));
        format!("| `{}` | {} | {min} to {max} |", setting.key, setting.unit.name())
    };
    let value = |setting: &keys::Setting, v: Option<Fixed>| {
        parse::show(setting.unit, v.expect("a value")).replace('"', "")
    };
    for rule in &default.rules {
        let text = section(rule.trigger.kind());
        for setting in keys::settings(rule.trigger.kind()) {
            let row =
                format!("{} {} |", row(setting), value(setting, rule.trigger.get(setting.key)));
            assert!(text.contains(&row), "docs/rules.md lacks: {row}");
        }
    }
    for setting in keys::LADDER {
        let v = value(setting, shipped.ladder.get(setting.table, setting.key));
        let row = format!("{} {v} (`[{}]`) |", row(setting), setting.table);
        assert!(section("ladder").contains(&row), "docs/rules.md lacks: {row}");
    }
    for (heading, settings) in
        [("levels, by class", keys::MEASURE), ("shape of a group", keys::SHAPE)]
    {
        for setting in settings {
            assert!(
                section(heading).contains(&row(setting)),
                "docs/rules.md lacks: {}",
                row(setting)
            );
        }
    }
    let words =
        ["window", "top_only", "off", "offered", "prefix", "exact", "class", "shadow", "canary"];
    let rule_keys =
        ["id", "kind", "version", "mode", "match", "trigger", "steps", "hold", "set", "shape"];
    for word in words.into_iter().chain(rule_keys).chain(keys::KINDS).chain(keys::LATER_KINDS) {
        let written = [format!("`{word}`"), format!("\n## {word}\n"), format!("`{word} = ")];
        assert!(written.iter().any(|w| page.contains(w)), "docs/rules.md lacks `{word}`");
    }
}
