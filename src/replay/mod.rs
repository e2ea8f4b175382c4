//! `barrage replay`: what the rules make of recorded events: arguments, what is collected, what is told.
//!
//! Reading and deciding is done elsewhere and joined with this by `app`, which calls [`Report`] as slots close.
//!
//! * [`report`]: everything collected during a run, and the files written on the way.
//! * [`activity`]: rooms by heat, with their rate over time, in bounded memory.
//! * [`alarms`]: spans in which a rule was in, as lines that `score.py` and people read.
//! * [`summary`]: the end of a run for a person, or as JSON.
//! * [`progress`]: how far it is, on a terminal.

pub mod activity;
pub mod alarms;
pub mod progress;
pub mod report;
pub mod summary;
mod text;

pub use activity::Activity;
pub use alarms::Alarm;
pub use progress::Bar;
pub use report::{FileTotals, Report};

use std::path::PathBuf;

/// Arguments of `barrage replay`, beside how files are read.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    /// Files of events, JSONL or CSV, plain or gzip; several are partitions; `-` is standard input
    #[arg(required_unless_present = "kafka", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Instead of files: the topic of events and the control log of a cluster, from its first step kept to its last
    #[arg(long, requires = "config", conflicts_with_all = ["files", "control", "write_control", "rules", "group"])]
    pub kafka: bool,
    /// The configuration of that cluster
    #[arg(short, long, value_name = "FILE", requires = "kafka")]
    pub config: Option<PathBuf>,
    /// Follow this control log instead of leading: exactly its steps, hashes compared
    #[arg(long, value_name = "FILE.jsonl")]
    pub control: Option<PathBuf>,
    /// Write the control log of this run
    #[arg(long, value_name = "FILE.jsonl", conflicts_with = "control")]
    pub write_control: Option<PathBuf>,
    /// Rule set [default: the shipped one]
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
    /// Put every room into this group
    #[arg(long, value_name = "NAME")]
    pub group: Option<String>,
    /// Worker threads of the dataflow
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub workers: u16,
    /// Milliseconds since the epoch that alarms count their seconds from [default: --ts-base, else the first slot]
    #[arg(long, value_name = "MS", allow_negative_numbers = true)]
    pub zero: Option<i64>,
    /// Write canonical decisions, one a line, in canonical order
    #[arg(long, value_name = "OUT.jsonl")]
    pub decisions: Option<PathBuf>,
    /// Write a line `room,start_s,end_s,rule` for each span of a room in burst, fast, rate or surge
    #[arg(long, value_name = "OUT.csv")]
    pub alarms: Option<PathBuf>,
    /// Print the summary as JSON
    #[arg(long)]
    pub json: bool,
}
