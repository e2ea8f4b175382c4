//! `barrage bench core`: arguments, and how the result is told: what a million events cost from ingest's door to
//! decisions, and the hot path alone against a plain program.

use super::cost::Cost;
use super::load::Shape;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Slots before the measurement: every window is full, every baseline warm.
pub const WARM_UP: u64 = 800;
/// Slots of a second.
const SECOND: u64 = 10;

/// Arguments of `barrage bench core`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Rooms
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1_000..=10_000_000))]
    pub rooms: u32,
    /// Events measured, after the first 80 s of event time
    #[arg(long, value_name = "N", default_value_t = 150_000_000, value_parser = clap::value_parser!(u64).range(1_000_000..=100_000_000_000))]
    pub events: u64,
    /// Events per second of event time
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(20_000..=10_000_000))]
    pub rate: u64,
    /// Length of a slot, in milliseconds (100 is what there is)
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(100..=100))]
    pub slot_ms: u64,
    /// Worker threads of the dataflow
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub workers: u16,
    /// Runs, of which medians are told
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=99))]
    pub runs: u16,
    /// Instead: twenty minutes in which all rooms are replaced every minute, and what is left after them
    #[arg(long)]
    pub churn: bool,
    /// Leave transparent huge pages alone; otherwise the program starts itself again with them
    #[arg(long)]
    pub small_pages: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

impl Args {
    /// The load.
    #[must_use]
    pub fn shape(&self) -> Shape {
        let churn = if self.churn { 60 * SECOND } else { 0 };
        Shape { rooms: self.rooms, per_slot: (self.rate / SECOND) as usize, churn }
    }

    /// Slots measured.
    #[must_use]
    pub fn slots(&self) -> u64 {
        self.events.div_ceil(self.rate / SECOND)
    }
}

/// What one run came to.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Events measured.
    pub events: u64,
    /// The whole: counting, exchange, windows, rules, ladder, decisions, top rooms, totals.
    pub whole: Cost,
    /// The hot path alone: counting, exchange, windows, which rules would enter.
    pub hot: Cost,
    /// The plain program, which does the same.
    pub plain: Cost,
    /// Changes that the last two found, the same ones.
    pub changes: u64,
    /// Rooms known at the end.
    pub rooms: u64,
    /// Non-empty (room, slot) pairs of the last 70 s.
    pub slot_entries: u64,
    /// Milliseconds by the clock from a slot's events to its decisions.
    pub slot_ms: Vec<f64>,
    /// Spans and decisions by rule.
    pub fired: BTreeMap<String, u64>,
}

/// Memory of the first run's whole, input and generator left out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// Most anonymous memory resident, in bytes.
    pub anon_bytes: u64,
    /// Most memory resident since the process began, in bytes.
    pub peak_rss_bytes: u64,
}

/// 24 B × (room, slot) + 250 B × rooms + 32 MB.
#[must_use]
pub fn bytes_allowed(slot_entries: u64, rooms: u64) -> u64 {
    24 * slot_entries + 250 * rooms + 32_000_000
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let half = numbers.len() / 2;
    match numbers.get(half) {
        Some(upper) if numbers.len() % 2 == 1 => *upper,
        Some(upper) => (upper + numbers[half - 1]) / 2.0,
        None => 0.0,
    }
}

/// The result as JSON: medians over the runs.
#[must_use]
pub fn to_json(args: &Args, runs: &[Run], memory: Memory) -> Value {
    let Some(last) = runs.last() else { return Value::Null };
    let million = last.events as f64 / 1e6;
    let of = |f: &dyn Fn(&Run) -> f64| median(runs.iter().map(f).collect());
    let cpu = of(&|r| r.whole.cpu_seconds);
    let mut slots: Vec<f64> = runs.iter().flat_map(|r| r.slot_ms.iter().copied()).collect();
    slots.sort_by(f64::total_cmp);
    let share = |p: f64| slots.get(((slots.len() as f64 - 1.0) * p) as usize).copied();
    json!({
        "bench": "core",
        "events": last.events,
        "rate": args.rate,
        "runs": runs.len(),
        "workers": args.workers,
        "huge_pages": !args.small_pages,
        "rooms": last.rooms,
        "cpu_seconds": cpu,
        "cpu_s_per_million": cpu / million,
        "events_per_cpu_second": last.events as f64 / cpu,
        "wall_seconds": of(&|r| r.whole.wall_seconds),
        "hot_cpu_s_per_million": of(&|r| r.hot.cpu_seconds) / million,
        "bound_cpu_s_per_million": of(&|r| r.plain.cpu_seconds) / million,
        "ratio_to_bound": of(&|r| r.plain.cpu_seconds / r.hot.cpu_seconds),
        "changes": last.changes,
        "slot_entries": last.slot_entries,
        "anon_bytes": memory.anon_bytes,
        "bytes_allowed": bytes_allowed(last.slot_entries, last.rooms),
        "peak_rss_bytes": memory.peak_rss_bytes,
        "slot_ms_p50": share(0.5),
        "slot_ms_p99": share(0.99),
        "slot_ms_max": share(1.0),
        "fired": last.fired,
    })
}

/// The result for a person, from its JSON.
#[must_use]
pub fn to_text(json: &Value) -> String {
    let f = |name: &str| json[name].as_f64().unwrap_or(0.0);
    let fired = json["fired"].as_object().into_iter().flatten();
    let fired: Vec<String> = fired.map(|(rule, n)| format!("{rule} {n}")).collect();
    format!(
        "{:.0} M events, {:.0} rooms, {} worker(s), median of {} run(s)\n\
         the whole      {:.4} s of processor time per million events ({:.1} M events per second of it)\n\
         the hot path   {:.4}\n\
         plain program  {:.4}, which is {:.2} of the hot path; {} changes, the same ones\n\
         a slot         {:.1} ms, p99 {:.1} ms, at most {:.1} ms\n\
         memory         {:.0} MB of {:.0} MB allowed, {} (room, slot) pairs\n\
         fired          {}",
        f("events") / 1e6,
        f("rooms"),
        json["workers"],
        json["runs"],
        f("cpu_s_per_million"),
        f("events_per_cpu_second") / 1e6,
        f("hot_cpu_s_per_million"),
        f("bound_cpu_s_per_million"),
        f("ratio_to_bound"),
        json["changes"],
        f("slot_ms_p50"),
        f("slot_ms_p99"),
        f("slot_ms_max"),
        f("anon_bytes") / 1e6,
        f("bytes_allowed") / 1e6,
        json["slot_entries"],
        fired.join(", "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_of_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(Vec::new()), 0.0);
    }

    #[test]
    fn the_text_has_the_figures_of_the_json() {
        let cost = |cpu_seconds| Cost { cpu_seconds, ..Cost::default() };
        let run = Run {
            events: 2_000_000,
            whole: cost(0.06),
            hot: cost(0.04),
            plain: cost(0.03),
            rooms: 10,
            slot_entries: 1_000_000,
            slot_ms: vec![1.0, 2.0],
            ..Run::default()
        };
        let json = to_json(&args(), &[run], Memory::default());
        assert_eq!(json["ratio_to_bound"], 0.75);
        assert_eq!(json["cpu_s_per_million"], 0.03);
        assert_eq!(json["bytes_allowed"], 24_000_000 + 2_500 + 32_000_000);
        assert!(
            to_text(&json).contains("0.0150, which is 0.75 of the hot path"),
            "{}",
            to_text(&json)
        );
    }

    fn args() -> Args {
        Args {
            rooms: 1_000,
            events: 2_000_000,
            rate: 20_000,
            slot_ms: 100,
            workers: 1,
            runs: 1,
            churn: false,
            small_pages: true,
            json: true,
        }
    }
}
