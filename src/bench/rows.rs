//! `barrage bench rows`: arguments, the rule's figures, and how the result is told.
//!
//! The rule is plain on purpose, so that every engine can state it: a row where `c60 > 1500` and `2 · c10 > c60`, for
//! the windows that end at each multiple of the slide.

use super::cost::Cost;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::PathBuf;

/// `c60` must exceed it.
pub const MIN_COUNT_60S: u32 = 1_500;
/// How far out of order the file may be, in milliseconds.
pub const OUT_OF_ORDER_MS: i64 = 500;
/// Slots after the last event whose windows still hold events.
pub const AFTER: u64 = 600;

/// Arguments of `barrage bench rows`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// File of events, JSONL
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Windows end at each multiple of it, in milliseconds
    #[arg(long, value_name = "1000|100", default_value = "1000", value_parser = slide)]
    pub slide_ms: u64,
    /// Where the rows go: `room,end_ms,c60,c10`
    #[arg(long, value_name = "ROWS.csv")]
    pub out: PathBuf,
    /// Worker threads of the dataflow
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub workers: u16,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// A slide: whole slots, and no longer than the shorter window.
fn slide(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(ms @ 100..=10_000) if ms % 100 == 0 => Ok(ms),
        _ => Err("a multiple of 100, from 100 to 10000".to_owned()),
    }
}

/// Writes one row.
///
/// # Errors
/// Where it cannot be written.
pub fn row(out: &mut impl Write, room: &str, end_ms: i64, c60: u32, c10: u32) -> io::Result<()> {
    writeln!(out, "{room},{end_ms},{c60},{c10}")
}

/// What came out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Events counted.
    pub events: u64,
    /// Events later than allowed, or records that are none: the rows are then not those of the whole file.
    pub lost: u64,
    /// Rooms met.
    pub rooms: u64,
    /// Rows written.
    pub rows: u64,
    /// What it took.
    pub cost: Cost,
}

/// The result as JSON.
#[must_use]
pub fn to_json(args: &Args, outcome: &Outcome) -> Value {
    let cost = outcome.cost;
    json!({
        "bench": "rows",
        "events": outcome.events,
        "lost": outcome.lost,
        "rooms": outcome.rooms,
        "rows": outcome.rows,
        "slide_ms": args.slide_ms,
        "workers": args.workers,
        "cpu_seconds": cost.cpu_seconds,
        "cpu_s_per_million": cost.cpu_s_per_million(outcome.events),
        "events_per_cpu_second": cost.events_per_cpu_second(outcome.events),
        "wall_seconds": cost.wall_seconds,
        "peak_rss_bytes": cost.peak_rss_bytes,
    })
}

/// The result for a person.
#[must_use]
pub fn to_text(args: &Args, outcome: &Outcome) -> String {
    let cost = outcome.cost;
    format!(
        "{} rows of {} rooms from {} events, slide {} ms, {} worker(s)\n\
         {:.2} s of processor time ({:.3} per million events), {:.2} s by the clock, {} MB at most",
        outcome.rows,
        outcome.rooms,
        outcome.events,
        args.slide_ms,
        args.workers,
        cost.cpu_seconds,
        cost.cpu_s_per_million(outcome.events),
        cost.wall_seconds,
        cost.peak_rss_bytes >> 20
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slides_are_whole_slots() {
        assert_eq!(slide("100"), Ok(100));
        assert_eq!(slide("1000"), Ok(1000));
        for text in ["0", "50", "150", "20000", "1s"] {
            assert!(slide(text).is_err(), "{text}");
        }
    }
}
