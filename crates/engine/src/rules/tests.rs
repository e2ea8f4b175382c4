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
    let chat = &set.levels[&Level(2)].classes[&Class::Chat];
    assert_eq!(
        (chat.admit, chat.buffer, chat.ttl_ms),
        (Some(Fixed::milli(400)), Some(5_000), Some(30_000))
    );
    assert_eq!(set.levels[&Level(1)].classes[&Class::Chat].delay_ms, Some(100));
    assert!(set.levels[&Level(3)].classes[&Class::Chat].top_only);
    let shed = |class| set.levels.values().any(|l| l.classes.contains_key(&class));
    assert!(!shed(Class::System) && !shed(Class::Gift), "never shed by automation");
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

/// Below the floors nothing enters; just above them something could, so they are no lower than they must be.
#[test]
fn floors_are_the_least_counts_that_could_enter() {
    let default = RuleSet::shipped().configs().pop().expect("the default group");
    let of = |keep: &str| {
        let mut config = default.clone();
        config.rules.retain(|r| r.id == keep);
        Floors::of(&[config])
    };
    let none = u32::MAX;
    assert_eq!(of("burst"), Floors { count_60s: 1_500, count_100ms: none, surge_c: None });
    assert_eq!(of("fast"), Floors { count_60s: 800, count_100ms: none, surge_c: None });
    // More than 2,000/s over 10 s are at least 20,001 events in the last 60 s.
    assert_eq!(of("rate"), Floors { count_60s: 20_000, count_100ms: none, surge_c: None });
    assert_eq!(of("micro"), Floors { count_60s: none, count_100ms: 100, surge_c: None });
    assert_eq!(of("surge"), Floors { count_60s: none, count_100ms: none, surge_c: Some(8) });
    assert_eq!(of("-"), Floors { count_60s: none, count_100ms: none, surge_c: None });
}

/// The reference page names every setting that there is.
#[test]
fn the_reference_page_names_every_setting() {
    let page = include_str!("../../../../docs/rules.md");
    let tables = [keys::BURST, keys::FAST, keys::RATE, keys::SURGE, keys::MICRO];
    let shared = [keys::LADDER, keys::MEASURE, keys::SHAPE];
    for setting in tables.into_iter().chain(shared).flatten() {
        let row = format!(
            "| `{}` | {} | {} to {} |",
            setting.key,
            setting.unit.name(),
            parse::show(setting.unit, setting.min).replace('"', ""),
            parse::show(setting.unit, setting.max).replace('"', "")
        );
        assert!(page.contains(&row), "docs/rules.md lacks: {row}");
    }
}
