//! The command line: which commands there are, and how an error is told.

use crate::{app, bench, gateway, ingest, replay, rules, scenes};
use clap::{Parser, Subcommand};
use std::io::Write;
use std::process::ExitCode;

/// Overload detector and control plane for live and chat platforms.
#[derive(Debug, Parser)]
#[command(
    name = "barrage",
    version,
    about,
    long_about = "Barrage watches the event streams of every room of a live platform, sees a flood \
                  building within a fraction of a second, and decides how much of it may pass.",
    after_help = "Start with `barrage demo`. Exit codes: 0 ok, 1 failed, 2 usage, 3 differs or \
                  invalid, 4 dependency unreachable, 5 refused."
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// A match night on a live page, on this machine only; or your own recorded events
    Demo {
        #[command(flatten)]
        args: Box<app::demo::Args>,
        #[command(flatten)]
        options: ingest::Options,
    },
    /// Make what a cluster needs: topics and tables, and only what is missing
    Init(app::init::Args),
    /// A controller: events from Kafka, policies to etcd, decisions to Postgres
    Run(app::run::Args),
    /// The hottest rooms, with level, rate and baseline
    Rooms(app::ask::Rooms),
    /// The edges that report, and what each has applied
    Edges(app::ask::Edges),
    /// An example edge with the load of a match night, reporting back: the loop closed
    Gateway(gateway::Args),
    /// The decisions recorded in Postgres
    #[command(subcommand)]
    Audit(app::ask::Audit),
    /// Write a seeded night of events to a file
    Gen(scenes::generate::Args),
    /// What the rules make of recorded events, as fast as the machine can
    Replay {
        #[command(flatten)]
        args: Box<replay::Args>,
        #[command(flatten)]
        options: ingest::Options,
    },
    /// Check rule sets, show what is in force, print the shipped one
    #[command(subcommand)]
    Rules(rules::Command),
    /// Measure this program; equality is checked before a time is shown
    #[command(subcommand)]
    Bench(Bench),
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// What a million events cost from ingest to decisions, beside a plain program that does the hot part of it
    Core(bench::core::Args),
    /// One plain rule over a file, with rows that any engine can be compared by
    Rows(bench::rows::Args),
}

impl Cli {
    /// Runs the command that was typed.
    ///
    /// # Errors
    /// Whatever the command could not do, with what to do next.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Demo { args, options } => app::demo::run(&args, &options),
            Command::Init(args) => app::init::run(&args),
            Command::Run(args) => app::run::run(&args),
            Command::Rooms(args) => app::ask::rooms(&args),
            Command::Edges(args) => app::ask::edges(&args),
            Command::Gateway(args) => app::gateway::run(&args),
            Command::Audit(command) => app::ask::audit(&command),
            Command::Gen(args) => scenes::generate::run(&args),
            Command::Replay { args, options } => app::replay::run(&args, &options),
            Command::Rules(command) => rules::run(&command),
            Command::Bench(Bench::Core(args)) => app::core::run(&args),
            Command::Bench(Bench::Rows(args)) => app::rows::run(&args),
        }
    }
}

/// Whether the reader of our output went away: not a failure of ours.
#[must_use]
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
    })
}

/// Tells an error with its causes on stderr.
pub fn report(error: &anyhow::Error) {
    let mut err = std::io::stderr().lock();
    let _ = writeln!(err, "error: {error}");
    for cause in error.chain().skip(1) {
        let _ = writeln!(err, "  because: {cause}");
    }
}
