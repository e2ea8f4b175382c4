//! Tests: texts that are wrong in one way each, and texts made to hurt their reader.

use super::*;

/// The one problem of a text, as "line: what (hint)".
fn only(text: &str) -> String {
    let text = format!("schema = 1\n{text}");
    let problems = parse(&text).expect_err(&text);
    assert_eq!(problems.len(), 1, "{problems:#?}\n{text}");
    let p = &problems[0];
    assert!(p.line >= 1 && p.column >= 1);
    format!("{}: {} ({})", p.line, p.what, p.hint.as_deref().unwrap_or_default())
}

fn rule(kind: &str, more: &str) -> String {
    format!("[[rule]]\nid = \"r\"\nkind = \"{kind}\"\n{more}\n")
}

fn group(id: &str, more: &str) -> String {
    format!("[[group]]\nid = \"{id}\"\nmatch = {{ room = {{ prefix = \"{id}\" }} }}\n{more}\n")
}

/// Each text has exactly one fault, told in these words, with this way out.
fn told(cases: &[(String, &str, &str)]) {
    for (text, what, hint) in cases {
        let told = only(text);
        assert!(
            told.contains(what) && told.contains(hint),
            "{told}\nexpected {what:?}, {hint:?}\n{text}"
        );
    }
}

/// Durations, decimals, the ladder.
#[test]
fn faults_of_times_numbers_and_the_ladder() {
    told(&[
        (
            "[ladder]\nplan = [\"a\"]\n".to_owned(),
            "3: unknown key `plan`",
            "before the first [table]",
        ),
        (
            "[ladder]\nmin_dwell = 10\n".to_owned(),
            "is not a time with its unit",
            "min_dwell = \"10s\"",
        ),
        ("[ladder]\nmin_dwell = \"10\"\n".to_owned(), "`10` has no unit", "0s\" to \"1h\""),
        ("[ladder]\nmin_dwell = \"10 days\"\n".to_owned(), "is not a time", "\"10s\""),
        ("[ladder]\nmin_dwell = \"50ms\"\n".to_owned(), "not a whole number of slots", ""),
        (
            "[ladder]\nfrozen = { max = \"10s\", alarm = \"20s\" }\n".to_owned(),
            "comes after",
            "first",
        ),
        (
            "[ladder]\nblast = { max_share = 0.1234567 }\n".to_owned(),
            "more than six decimal",
            "0.2",
        ),
        ("[ladder]\nblast = { max_share = 1e-1 }\n".to_owned(), "must be written out", "0 to 1"),
        ("[ladder]\nblast = { max_share = nan }\n".to_owned(), "must be written out", "0 to 1"),
    ]);
}

/// What levels may do.
#[test]
fn faults_of_plan_and_levels() {
    told(&[
        ("plan = [\"a\", \"a\"]\n[levels.1]\noff = 0\n".to_owned(), "stands twice", "once"),
        ("[levels.1]\noff = 7\n".to_owned(), "the plan has 6 switches", "0 to 6"),
        ("[levels.3]\noff = 1\n".to_owned(), "level 3 turns off 1", "at least 4"),
        ("[levels.1]\ngift = { admit = 0.5 }\n".to_owned(), "never shed by automation", "override"),
        ("[levels.1]\nchat = { buffer = 10 }\n".to_owned(), "both `buffer` and `ttl`", "ttl = "),
        (
            "[levels.1]\nchat = { top_only = 1 }\n".to_owned(),
            "must be true or false",
            "top_only = true",
        ),
        ("[levels.1]\nchta = { admit = 0.5 }\n".to_owned(), "unknown key `chta`", "`chat`"),
    ]);
}

/// Groups, alone and with rules.
#[test]
fn faults_of_groups() {
    told(&[
        (group("a", "set = { burts.z = 3 }"), "unknown kind of rule `burts`", "`burst`"),
        (group("a", "set = { burst.steps.4 = 3 }"), "unknown key `4`", "`1`"),
        (group("a", "shape = { capacity = 1, max_wait = \"1s\" }"), "without `drain_qps`", "18000"),
        (group("a", "offered = \"all\""), "`group.offered` is `all`", "events+refused"),
        (group("a", "") + &group("ab", ""), "`ab` never holds a room: `a`", "first match wins"),
        ("[[group]]\nid = \"a\"\n".to_owned(), "without `match`", "prefix"),
        (
            "[[group]]\nid = \"a\"\nmatch = { room = { prefix = \"\" } }\n".to_owned(),
            "no room id",
            "default",
        ),
        (
            "[[group]]\nid = \"default\"\nmatch = { room = { exact = \"x\" } }\n".to_owned(),
            "cannot have",
            "no other",
        ),
        (
            "[[group]]\nid = \"a b\"\nmatch = { room = { exact = \"x\" } }\n".to_owned(),
            "cannot be an id",
            "`-`",
        ),
        (
            group("a", "set = { rate.enter = 1000 }") + &rule("rate", ""),
            "group `a` with rule `r`: `exit` 1200 is not below",
            "must leave below",
        ),
        (
            group("a", "set = { rate.enter = 1000 }")
                + &rule(
                    "rate",
                    "steps = [ { level = 1, enter = 2000 }, { level = 2, enter = 3000 } ]",
                ),
            "rule `r` has several steps",
            "rate.steps.2",
        ),
    ]);
}

/// Burst rules, ids.
#[test]
fn faults_of_burst_rules_and_ids() {
    told(&[
        (rule("burst", "match = { class = \"chat\" }"), "cannot be for one class", "only rate"),
        (
            rule("burst", "trigger = { exit_ticks = 5 }"),
            "unknown key `exit_ticks`",
            "belongs in `hold`",
        ),
        (
            rule("burst", "trigger = { ratio_exit = 2.0 }"),
            "not below the lowest step",
            "must leave below",
        ),
        (rule("burst", "steps = [ { level = 1 } ]"), "a step without `ratio`", "ratio = 2.0"),
        (
            rule("burst", "steps = [ { level = 1, ratio = 4.0 }, { level = 2, ratio = 3.0 } ]"),
            "not above level 1",
            "higher",
        ),
        (rule("burst", "steps = [ { level = 4, ratio = 4.0 } ]"), "`steps.level` is `4`", "1 to 3"),
        ("[[rule]]\nid = \"blast\"\nkind = \"micro\"\n".to_owned(), "cannot be the id", "guards"),
    ]);
}

/// Fast, rate, surge, micro.
#[test]
fn faults_of_other_rules() {
    told(&[
        (rule("rate", "match = { class = \"chatt\" }"), "unknown class `chatt`", "`chat`"),
        (rule("rate", "trigger = { window = \"5s\" }"), "`trigger.window` is `5s`", "\"10s\""),
        (
            rule("rate", "trigger = { enter = 1000 }"),
            "`exit` 1200 is not below",
            "must leave below",
        ),
        (
            rule("rate", "trigger = { enter = 2500 }\nsteps = [ { level = 1, enter = 2000 } ]"),
            "is not used",
            "leave it out",
        ),
        (rule("fast", "steps = [ { level = 1 }, { level = 2 } ]"), "has one step", "level = 1"),
        (rule("micro", "steps = []"), "has no `steps`", "never moves"),
        (rule("micro", "hold = { enter_ticks = 1 }"), "unknown key `enter_ticks`", "`exit_ticks`"),
    ]);
}

/// Nothing here may panic, overflow a stack or take time that grows faster than the text.
#[test]
fn text_made_to_hurt_is_refused() {
    let long = parse::MAX_TEXT;
    let deep =
        |n: usize, open: &str, close: &str| format!("a = {}{}", open.repeat(n), close.repeat(n));
    let texts = [
        "#".repeat(long + 1),
        "a\n".repeat(long / 2),
        "[[rule]]\n".repeat(long / 9),
        "[[group]]\n".repeat(long / 10),
        format!("{} = 1", "a.".repeat(long / 2 - 8) + "a"),
        format!("[{}]", "a.".repeat(long / 2 - 8) + "a"),
        deep(long / 3, "[", "]"),
        deep(long / 8, "{ a = ", "}"),
        format!("{} = 1", "k".repeat(long - 8)),
        format!("plan = [{}]", "\"a\",".repeat(long / 5)),
        (0..long / 12).map(|n| format!("k{n} = 1\n")).collect(),
        format!("schema = {}", "9".repeat(long - 16)),
        format!("schema = 1\n[ladder]\nmin_dwell = \"{}s\"", "9".repeat(1_000)),
        format!("schema = 1\n[ladder]\nblast = {{ max_share = 0.{} }}", "1".repeat(100_000)),
        "\u{0}\u{feff}\u{202e}schema = 1".to_owned(),
        "schema = 1\nid = \"\\u001b[31m\"\n\"\\u001b[2J\" = 1".to_owned(),
    ];
    for text in texts {
        let begins: String = text.chars().take(24).collect();
        let problems = parse(&text).expect_err(&begins);
        assert!(!problems.is_empty() && problems.len() <= 201, "{begins}: {}", problems.len());
        for p in &problems {
            let all = format!("{}{}", p.what, p.hint.as_deref().unwrap_or_default());
            assert!(!all.chars().any(char::is_control), "{begins}: {all:?}");
            assert!(all.len() < 2_000, "{begins}: a message of {} bytes", all.len());
        }
    }
}

/// Sets with the most of everything are read.
#[test]
fn limits_are_reached_and_not_crossed() {
    let groups = |n: usize| -> String {
        (0..n)
            .map(|i| {
                format!(
                    "[[group]]\nid = \"g{i:03}\"\nmatch = {{ room = {{ exact = \"{i:03}\" }} }}\n"
                )
            })
            .collect()
    };
    let rules = |n: usize| -> String {
        (0..n).map(|i| format!("[[rule]]\nid = \"r{i}\"\nkind = \"surge\"\n")).collect()
    };
    let set = parse(&format!("schema = 1\n{}{}", groups(255), rules(32))).expect("within limits");
    assert_eq!((set.groups.len(), set.rules.len()), (256, 32), "the default group is the last");
    assert_eq!(usize::from(set.group_of("254")), 254);
    assert_eq!(usize::from(set.group_of("none")), 255);
    assert!(set.configs().iter().all(|c| c.rules.len() == 32));
    assert!(only(&groups(256)).contains("at most 255"));
    assert!(only(&rules(33)).contains("at most 32"));
    let id = |n: usize| format!("[[rule]]\nid = \"{}\"\nkind = \"surge\"\n", "x".repeat(n));
    assert!(parse(&format!("schema = 1\n{}", id(64))).is_ok());
    assert!(only(&id(65)).contains("at most 64"));
}
