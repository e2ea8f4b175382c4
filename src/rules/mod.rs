//! `barrage rules`: check rule sets as people write them, show what is in force, print the shipped one.

use anyhow::Context as _;
use barrage_engine::rules::{self, Config, RuleSet, keys, parse};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What to do with rule sets.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Command {
    /// Read rule sets and name every fault at once, with its line and what may be meant
    Check {
        /// Rule sets (TOML)
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
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
/// A file that cannot be read.
pub fn run(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Check { files } => check(files),
        Command::Show { file, output } => {
            let Some(rules) = load(file.as_deref())? else { return Ok(ExitCode::from(3)) };
            let mut out = std::io::stdout().lock();
            match output {
                Output::Json => writeln!(out, "{:#}", to_json(&rules))?,
                Output::Table => write!(out, "{}", to_table(&rules))?,
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Default => {
            write!(std::io::stdout().lock(), "{}", RuleSet::shipped_text())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn check(files: &[PathBuf]) -> anyhow::Result<ExitCode> {
    let mut invalid = 0;
    for path in files {
        match load(Some(path))? {
            Some(rules) => {
                let (groups, live) = (rules.groups.len(), rules.rules.len());
                let mut out = std::io::stdout().lock();
                writeln!(out, "{}: valid, {live} rules, {groups} groups", path.display())?;
            }
            None => invalid += 1,
        }
    }
    Ok(if invalid > 0 { ExitCode::from(3) } else { ExitCode::SUCCESS })
}

/// The rule set of a file, or the shipped one; nothing if it is invalid: every fault has been told on stderr then, and
/// otherwise what in it this version does not decide.
///
/// # Errors
/// A file that cannot be read.
pub fn load(path: Option<&Path>) -> anyhow::Result<Option<RuleSet>> {
    let Some(path) = path else { return Ok(Some(RuleSet::shipped())) };
    let name = path.display();
    let bytes = std::fs::read(path).with_context(|| format!("cannot read the rules in {name}"))?;
    let mut err = std::io::stderr().lock();
    let Ok(text) = String::from_utf8(bytes) else {
        writeln!(err, "{name}: is not UTF-8 text")?;
        return Ok(None);
    };
    match rules::parse(&text) {
        Ok(rules) => {
            for note in &rules.notes {
                writeln!(err, "{name}: {note}")?;
            }
            Ok(Some(rules))
        }
        Err(problems) => {
            for p in &problems {
                writeln!(err, "{name}:{}:{}: {}", p.line, p.column, p.what)?;
                if let Some(hint) = &p.hint {
                    writeln!(err, "  hint: {hint}")?;
                }
            }
            let n = problems.len();
            let noun = if n == 1 { "fault" } else { "faults" };
            writeln!(err, "error: {name} is not valid: {n} {noun}")?;
            Ok(None)
        }
    }
}

/// Settings of one rule: name and value as it would be written.
fn settings(rule: &rules::Rule) -> Vec<(String, String)> {
    let kind = rule.trigger.kind();
    let mut all: Vec<_> = keys::settings(kind)
        .iter()
        .filter_map(|s| Some((s.key.to_owned(), parse::show(s.unit, rule.trigger.get(s.key)?))))
        .collect();
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

fn to_json(rules: &RuleSet) -> Value {
    let map = |all: Vec<(String, String)>| -> Value {
        all.into_iter().map(|(k, v)| (k, Value::from(v))).collect::<serde_json::Map<_, _>>().into()
    };
    let group = |config: &Config| {
        let rule = |r: &rules::Rule| {
            json!({
                "id": r.id, "kind": r.trigger.kind(), "version": r.version,
                "settings": map(settings(r)),
            })
        };
        json!({"group": config.group, "rules": config.rules.iter().map(rule).collect::<Vec<_>>()})
    };
    json!({
        "hash": rules.hash,
        "ladder": map(ladder(rules)),
        "plan": rules.plan,
        "groups": rules.configs().iter().map(group).collect::<Vec<_>>(),
    })
}

fn to_table(rules: &RuleSet) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(out, "rule set {}\n", rules.hash.get(..12).unwrap_or_default());
    for (key, value) in ladder(rules) {
        let _ = writeln!(out, "{key:<28} {value}");
    }
    for config in rules.configs() {
        let _ = writeln!(out, "\ngroup {}", config.group);
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
