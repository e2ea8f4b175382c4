//! `barrage rules`: check rule sets as people write them, show what is in force, print the shipped one.

use anyhow::Context as _;
use barrage_engine::fixed::Fixed;
use barrage_engine::rules::{self, Config, Problem, RuleSet, keys, parse};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What to do with rule sets.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Command {
    /// Read rule sets and name every fault at once, with its line and what may be meant
    #[command(
        after_help = "Exit codes: 0 all valid, 1 a file cannot be read, 3 a rule set is invalid."
    )]
    Check {
        /// Rule sets (TOML)
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// How to print the verdict
        #[arg(short, long, value_name = "json|table", default_value = "table")]
        output: Output,
    },
    /// Show every setting in force, group by group
    Show {
        /// Rule set [default: the shipped one]
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
        /// How to print it
        #[arg(short, long, value_name = "json|table", default_value = "table")]
        output: Output,
    },
    /// Print the shipped rule set, with its comments: change a copy
    Default,
}

/// Form of what is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    /// For programs.
    Json,
    /// For people.
    Table,
}

/// Runs `barrage rules`.
///
/// # Errors
/// A file to be shown that cannot be read; output that cannot be written.
pub fn run(command: &Command) -> anyhow::Result<ExitCode> {
    let code = run_with(command, &mut std::io::stdout().lock(), &mut std::io::stderr().lock())?;
    Ok(ExitCode::from(code))
}

/// The same with data written to `out` and messages to `err`; the number is the exit code.
fn run_with(command: &Command, out: &mut dyn Write, err: &mut dyn Write) -> anyhow::Result<u8> {
    match command {
        Command::Check { files, output } => check(files, *output, out, err),
        Command::Show { file, output } => {
            let Some(rules) = load_with(file.as_deref(), err)? else { return Ok(3) };
            match output {
                Output::Json => writeln!(out, "{:#}", to_json(&rules))?,
                Output::Table => write!(out, "{}", to_table(&rules))?,
            }
            Ok(0)
        }
        Command::Default => {
            write!(out, "{}", RuleSet::shipped_text())?;
            Ok(0)
        }
    }
}

/// Reads every file, whatever is wrong with the one before.
fn check(
    files: &[PathBuf],
    output: Output,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<u8> {
    let mut code = 0;
    let mut verdicts = Vec::new();
    for path in files {
        let name = path.display();
        let read = match read(path) {
            Ok(read) => read,
            Err(error) => {
                // `{:#}`: with its cause, on one line.
                writeln!(err, "error: {error:#}")?;
                verdicts.push(json!({"file": name.to_string(), "error": format!("{error:#}")}));
                // Not knowing is worse than knowing that it is wrong.
                code = 1;
                continue;
            }
        };
        verdicts.push(verdict(&name.to_string(), &read));
        if read.is_err() && code == 0 {
            code = 3;
        }
        if output == Output::Json {
            continue;
        }
        tell(&name.to_string(), &read, err)?;
        if let Ok(rules) = &read {
            let live = rules.rules.iter().filter(|r| r.mode == rules::Mode::Enforce).count();
            let of = |n: usize, noun: &str| format!("{n} {noun}{}", if n == 1 { "" } else { "s" });
            let (live, groups) = (of(live, "live rule"), of(rules.groups.len(), "group"));
            writeln!(out, "{name}: valid, {live}, {groups}")?;
        }
    }
    if output == Output::Json {
        writeln!(out, "{:#}", Value::from(verdicts))?;
    }
    Ok(code)
}

/// A rule set, or its problems.
type Read = Result<RuleSet, Vec<Problem>>;

fn read(path: &Path) -> anyhow::Result<Read> {
    let bytes = std::fs::read(path)
        .with_context(|| format!("cannot read the rules in {}", path.display()))?;
    Ok(match String::from_utf8(bytes) {
        Ok(text) => rules::parse(&text),
        Err(error) => {
            let good = error.utf8_error().valid_up_to();
            let before = &error.as_bytes()[..good];
            let line = before.iter().filter(|b| **b == b'\n').count() + 1;
            Err(vec![Problem {
                line,
                column: 1,
                what: "is not UTF-8 text".to_owned(),
                hint: Some("save the file as UTF-8".to_owned()),
            }])
        }
    })
}

/// What a reader of JSON gets to know of one file.
fn verdict(name: &str, read: &Read) -> Value {
    match read {
        Ok(rules) => json!({
            "file": name, "valid": true, "hash": rules.hash, "notes": rules.notes, "problems": [],
        }),
        Err(problems) => {
            let one = |p: &Problem| json!({"line": p.line, "column": p.column, "what": p.what, "hint": p.hint});
            let all: Vec<Value> = problems.iter().map(one).collect();
            json!({"file": name, "valid": false, "problems": all})
        }
    }
}

/// Tells every fault with its place, or what of a valid set this version does not act on.
fn tell(name: &str, read: &Read, err: &mut dyn Write) -> std::io::Result<()> {
    match read {
        Ok(rules) => rules.notes.iter().try_for_each(|note| writeln!(err, "{name}: note: {note}")),
        Err(problems) => {
            for p in problems {
                writeln!(err, "{name}:{}:{}: {}", p.line, p.column, p.what)?;
                if let Some(hint) = &p.hint {
                    writeln!(err, "  hint: {hint}")?;
                }
            }
            let n = problems.len();
            let noun = if n == 1 { "fault" } else { "faults" };
            writeln!(err, "error: {name} is not valid: {n} {noun}")
        }
    }
}

/// The rule set of a file, or the shipped one; nothing if it is invalid: every fault has been told on stderr then, and
/// otherwise what in it this version does not decide.
///
/// # Errors
/// A file that cannot be read.
pub fn load(path: Option<&Path>) -> anyhow::Result<Option<RuleSet>> {
    load_with(path, &mut std::io::stderr().lock())
}

fn load_with(path: Option<&Path>, err: &mut dyn Write) -> anyhow::Result<Option<RuleSet>> {
    let Some(path) = path else { return Ok(Some(RuleSet::shipped())) };
    let read = read(path)?;
    tell(&path.display().to_string(), &read, err)?;
    Ok(read.ok())
}

/// Settings of one rule: name and value as it would be written.
fn settings(rule: &rules::Rule) -> Vec<(String, String)> {
    let kind = rule.trigger.kind();
    // A rate rule's `enter` stands at its steps.
    let own = keys::settings(kind).iter().filter(|s| s.key != "enter");
    let mut all: Vec<_> = own
        .filter_map(|s| Some((s.key.to_owned(), parse::show(s.unit, rule.trigger.get(s.key)?))))
        .collect();
    match &rule.trigger {
        rules::Trigger::Rate(rate) => {
            let seconds = rate.window.slots() / 10;
            all.insert(0, ("window".to_owned(), format!("\"{seconds}s\"")));
            all.extend(rate.class.map(|c| ("class".to_owned(), format!("\"{}\"", c.name()))));
        }
        rules::Trigger::Fast(fast) => all.push(("level".to_owned(), fast.level.0.to_string())),
        _ => {}
    }
    if let Some(threshold) = keys::step_threshold(kind) {
        for step in rule.trigger.steps() {
            let above = parse::show(threshold.unit, step.above);
            all.push((format!("level {} above {}", step.level.0, threshold.key), above));
        }
    }
    all
}

fn ladder(rules: &RuleSet) -> Vec<(String, String)> {
    let value = |s: &keys::Setting| Some(parse::show(s.unit, rules.ladder.get(s.table, s.key)?));
    keys::LADDER
        .iter()
        .filter_map(|s| Some((format!("{}.{}", s.table, s.key), value(s)?)))
        .collect()
}

/// What each level does: class or `off`, and the measure as it would be written.
fn levels(rules: &RuleSet) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (level, policy) in &rules.levels {
        for (class, measure) in &policy.classes {
            let of = |s: &keys::Setting| Some((s.key, measure.get(s.key)?, s.unit));
            let written = keys::MEASURE.iter().filter_map(of);
            let mut parts: Vec<String> =
                written.map(|(key, v, unit)| format!("{key} = {}", parse::show(unit, v))).collect();
            parts.extend(measure.top_only.then(|| "top_only = true".to_owned()));
            let text = if parts.is_empty() { "admitted".to_owned() } else { parts.join(", ") };
            all.push((format!("levels.{}.{}", level.0, class.name()), text));
        }
        let off = policy.off as usize;
        let names = rules.plan.get(..off).unwrap_or(&rules.plan).join(", ");
        all.push((format!("levels.{}.off", level.0), format!("{off} ({names})")));
    }
    all
}

/// Which rooms a group holds, and the shape it carries while a micro-burst is on.
fn group(group: &rules::Group) -> (String, String) {
    let rooms = match &group.matcher {
        rules::Matcher::Prefix(p) => format!("rooms that begin with `{p}`"),
        rules::Matcher::Exact(e) => format!("the room `{e}`"),
        rules::Matcher::Any => "every other room".to_owned(),
    };
    let s = group.shape;
    let wait = parse::show(keys::Unit::Millis, Fixed::int(i64::from(s.max_wait_ms)));
    let shape =
        format!("capacity = {}, max_wait = {wait}, drain_qps = {}", s.capacity, s.drain_qps);
    (rooms, shape)
}

fn to_json(rules: &RuleSet) -> Value {
    let map = |all: Vec<(String, String)>| -> Value {
        all.into_iter().map(|(k, v)| (k, Value::from(v))).collect::<serde_json::Map<_, _>>().into()
    };
    let of_group = |(g, config): (&rules::Group, Config)| {
        let (rooms, shape) = group(g);
        let rule = |r: &rules::Rule| {
            json!({
                "id": r.id, "kind": r.trigger.kind(), "version": r.version,
                "settings": map(settings(r)),
            })
        };
        let all: Vec<Value> = config.rules.iter().map(rule).collect();
        json!({"group": config.group, "rooms": rooms, "shape": shape, "rules": all})
    };
    json!({
        "hash": rules.hash,
        "ladder": map(ladder(rules)),
        "levels": map(levels(rules)),
        "plan": rules.plan,
        "groups": rules.groups.iter().zip(rules.configs()).map(of_group).collect::<Vec<_>>(),
        "notes": rules.notes,
    })
}

fn to_table(rules: &RuleSet) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(out, "rule set {}\n", rules.hash.get(..12).unwrap_or_default());
    for (key, value) in ladder(rules).into_iter().chain(levels(rules)) {
        let _ = writeln!(out, "{key:<28} {value}");
    }
    for (g, config) in rules.groups.iter().zip(rules.configs()) {
        let (rooms, shape) = group(g);
        let _ = writeln!(out, "\ngroup {}: {rooms}", config.group);
        let _ = writeln!(out, "  shape: {shape}");
        for rule in &config.rules {
            let _ =
                writeln!(out, "  {} ({}, version {})", rule.id, rule.trigger.kind(), rule.version);
            for (key, value) in settings(rule) {
                let _ = writeln!(out, "    {key:<24} {value}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests;
