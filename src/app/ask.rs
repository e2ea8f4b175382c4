//! What an operator sees first: `rooms`, `edges`, `audit tail`, from a controller, or from etcd and Postgres where none
//! answers.

use super::run::setup::{self, Setup};
use crate::audit;
use crate::publish::etcd;
use anyhow::Context as _;
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Longest wait for a controller's answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// How answers are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    /// For a person.
    #[default]
    Table,
    /// One JSON document.
    Json,
}

/// Arguments of `barrage rooms`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  barrage rooms -c barrage.toml --level 2\n  barrage rooms -c barrage.toml --prefix c_ -o json"
)]
pub struct Rooms {
    /// The configuration
    #[arg(short, long, value_name = "FILE")]
    pub config: PathBuf,
    /// Only rooms at this level
    #[arg(long, value_name = "0..3", value_parser = clap::value_parser!(u8).range(0..=3))]
    pub level: Option<u8>,
    /// Only rooms whose id begins so
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub prefix: String,
    /// Rooms told at most
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
    pub limit: u16,
    /// Form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}

/// Arguments of `barrage edges`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Example: barrage edges -c barrage.toml")]
pub struct Edges {
    /// The configuration
    #[arg(short, long, value_name = "FILE")]
    pub config: PathBuf,
    /// Form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}

/// `barrage audit`.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Audit {
    /// The last decisions, oldest first; with --follow those to come as well
    Tail(Tail),
    /// Drop days of decisions that are older than `postgres.retention_days`
    Retain(Retain),
}

/// Arguments of `barrage audit tail`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Example: barrage audit tail -c barrage.toml --limit 50 -o json")]
pub struct Tail {
    /// The configuration
    #[arg(short, long, value_name = "FILE")]
    pub config: PathBuf,
    /// Decisions told at first
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub limit: u32,
    /// Form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}

/// Arguments of `barrage audit retain`.
#[derive(Clone, Debug, clap::Args)]
pub struct Retain {
    /// The configuration
    #[arg(short, long, value_name = "FILE")]
    pub config: PathBuf,
}

/// Asks a controller; none: none answers.
fn ask(setup: &Setup, path: &str) -> Option<Value> {
    let agent = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).build().new_agent();
    let mut answer = agent.get(format!("http://{}{path}", setup.config.http.api)).call().ok()?;
    answer.body_mut().read_json::<Value>().ok()
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a thread")
}

/// `barrage rooms`.
///
/// # Errors
/// A configuration that cannot be read; neither a controller nor etcd answers.
pub fn rooms(args: &Rooms) -> anyhow::Result<ExitCode> {
    let Some(config) = setup::load(&args.config)? else { return Ok(ExitCode::from(3)) };
    let setup = Setup::new(config)?;
    let prefix = barrage_protocol::policy::encode(&args.prefix);
    let level = args.level.map_or_else(String::new, |l| format!("&level={l}"));
    let path = format!("/v1/rooms?prefix={prefix}&limit={}{level}", args.limit);
    let (from, rooms) = match ask(&setup, &path) {
        Some(answer) => ("controller", answer["rooms"].as_array().cloned().unwrap_or_default()),
        None => match runtime()?.block_on(etcd::levels(&setup.etcd)) {
            Ok((levels, _)) => {
                let fits = |room: &str, level: u8| {
                    room.starts_with(&args.prefix) && args.level.is_none_or(|l| l == level)
                };
                let rooms = levels.iter().filter(|(room, level)| fits(room, level.0));
                let rooms = rooms
                    .take(usize::from(args.limit))
                    .map(|(room, l)| json!({"room": room, "level": l.0}));
                ("etcd", rooms.collect())
            }
            Err(error) => {
                eprintln!("error: no controller answers at {}, and {error}", setup.config.http.api);
                return Ok(ExitCode::from(4));
            }
        },
    };
    let mut out = std::io::stdout().lock();
    if args.output == Output::Json {
        writeln!(out, "{:#}", json!({"from": from, "rooms": rooms}))?;
        return Ok(ExitCode::SUCCESS);
    }
    if from == "etcd" {
        eprintln!(
            "no controller answers at {}; these are the levels published in etcd",
            setup.config.http.api
        );
    }
    let number = |v: &Value, places: usize| {
        v.as_f64().map_or_else(|| "–".to_owned(), |x| format!("{x:.places$}"))
    };
    writeln!(
        out,
        "{:<32} {:>5} {:>10} {:>10} {:>7} {:>6}  now",
        "room", "level", "rate/s", "baseline", "ratio", "heat"
    )?;
    for r in &rooms {
        let mut now = Vec::new();
        for (flag, name) in [("surge", "surge"), ("micro", "micro-burst"), ("unknown", "unknown")] {
            if r[flag] == true {
                now.push(name);
            }
        }
        writeln!(
            out,
            "{:<32} {:>5} {:>10} {:>10} {:>7} {:>6}  {}",
            r["room"].as_str().unwrap_or(""),
            r["level"],
            number(&r["rate_10s"], 1),
            number(&r["baseline"], 1),
            number(&r["ratio"], 2),
            number(&r["heat"], 2),
            now.join(", ")
        )?;
    }
    if rooms.is_empty() {
        eprintln!("no room fits");
    }
    Ok(ExitCode::SUCCESS)
}

/// `barrage edges`.
///
/// # Errors
/// A configuration that cannot be read.
pub fn edges(args: &Edges) -> anyhow::Result<ExitCode> {
    let Some(config) = setup::load(&args.config)? else { return Ok(ExitCode::from(3)) };
    let setup = Setup::new(config)?;
    let (Some(answer), Some(leader)) = (ask(&setup, "/v1/edges"), ask(&setup, "/v1/leader")) else {
        eprintln!(
            "error: no controller answers at {}; hint: `http.api` of the configuration is where it listens",
            setup.config.http.api
        );
        return Ok(ExitCode::from(4));
    };
    let mut out = std::io::stdout().lock();
    if args.output == Output::Json {
        writeln!(out, "{:#}", json!({"leader": leader, "edges": answer["edges"]}))?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(
        out,
        "{:<24} {:<10} {:>8} {:>10} {:>10} {:>12}",
        "edge", "state", "epoch", "seq", "news, ms", "reported, ms"
    )?;
    for e in answer["edges"].as_array().into_iter().flatten() {
        writeln!(
            out,
            "{:<24} {:<10} {:>8} {:>10} {:>10} {:>12}",
            e["edge"].as_str().unwrap_or(""),
            e["state"].as_str().unwrap_or(""),
            e["applied"][0],
            e["applied"][1],
            e["age_ms"],
            e["reported_ms_ago"]
        )?;
    }
    eprintln!(
        "the controller {} {}, epoch {}",
        leader["instance"].as_str().unwrap_or("?"),
        if leader["leads"] == true { "leads" } else { "follows" },
        leader["epoch"]
    );
    Ok(ExitCode::SUCCESS)
}

/// `barrage audit`.
///
/// # Errors
/// A configuration that cannot be read, Postgres that does not answer.
pub fn audit(command: &Audit) -> anyhow::Result<ExitCode> {
    let config = match command {
        Audit::Tail(args) => &args.config,
        Audit::Retain(args) => &args.config,
    };
    let Some(config) = setup::load(config)? else { return Ok(ExitCode::from(3)) };
    let setup = Setup::new(config)?;
    if setup.postgres.0.is_empty() {
        eprintln!("error: `postgres.url` is not configured, so there is no audit log to ask");
        return Ok(ExitCode::from(3));
    }
    let runtime = runtime()?;
    match command {
        Audit::Tail(args) => {
            match runtime.block_on(audit::tail(&setup.postgres.0, None, args.limit)) {
                Ok(rows) => tell(&rows, args.output),
                Err(error) => {
                    eprintln!("error: {error}");
                    Ok(ExitCode::from(4))
                }
            }
        }
        Audit::Retain(_) => {
            let days = setup.config.postgres.retention_days;
            if days == 0 {
                eprintln!("`postgres.retention_days` is 0: everything is kept");
                return Ok(ExitCode::SUCCESS);
            }
            let dropped = runtime.block_on(audit::retain(&setup.postgres.0, days))?;
            println!("{dropped} day(s) dropped");
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn tell(
    rows: &[Result<audit::Row, audit::Unreadable>],
    output: Output,
) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    for row in rows {
        match row {
            Err(row) => eprintln!("decision {} cannot be read: {}", row.id, row.why),
            Ok(row) if output == Output::Json => writeln!(out, "{}", row.canonical)?,
            Ok(row) => {
                let d = &row.decision;
                writeln!(
                    out,
                    "{} {:<24} {} → {:<4} {:<8} {}",
                    clock(d.slot.end_ms()),
                    d.subject,
                    d.from,
                    d.to,
                    d.rule,
                    crate::api::words::title(d)
                )?;
            }
        }
    }
    if rows.is_empty() {
        eprintln!("no decisions yet");
    }
    Ok(ExitCode::SUCCESS)
}

/// A time as people read it, in UTC.
fn clock(ms: i64) -> String {
    let time = chrono::DateTime::from_timestamp_millis(ms);
    time.map_or_else(|| ms.to_string(), |t| t.format("%Y-%m-%d %H:%M:%S%.1f").to_string())
}
