//! `barrage bench core`: joins the load with counting, the worker and the plain program, in turns, and measures.

#[path = "../../benches/plain.rs"]
mod plain;

use crate::bench::core::{self, Args, Memory, Run, WARM_UP};
use crate::bench::cost::{self, Cost};
use crate::bench::load::{Event, Load};
use crate::worker::Host;
use anyhow::{Context as _, bail, ensure};
use barrage_dataflows::command::{Mode, Options};
use barrage_engine::precount::{Record, Table};
use barrage_engine::rules::RuleSet;
use barrage_protocol::ids::{CLASSES, OUTCOMES, RoomKey, SLOT_MS, Slot};
use plain::Plain;
use serde_json::json;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Instant;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The slot in which the load begins.
const FIRST: Slot = Slot(17_000_000_000);
/// Slots generated at a time, outside the clock.
const CHUNK: u64 = 10;
/// Slots that may be open at once: the one being read, and the one before it.
const OPEN: usize = 2;
/// How many events ahead the counting table is asked for a room.
const AHEAD: usize = 16;
/// Seed of the load.
const SEED: u64 = 1;
/// What turns transparent huge pages on, by the C library.
const HUGE: (&str, &str) = ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");
/// The rules as shipped.
const RULES: [&str; 5] = ["burst", "fast", "micro", "rate", "surge"];

/// Runs the benchmark.
///
/// # Errors
/// A worker that failed, a rule that never fired, or a plain program that found something else than the hot path.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if !args.small_pages && std::env::var_os(HUGE.0).is_none() {
        let program = std::env::current_exe().context("cannot find this program")?;
        let again =
            Command::new(program).args(std::env::args_os().skip(1)).env(HUGE.0, HUGE.1).exec();
        return Err(again)
            .context("cannot start again with huge pages (`--small-pages` does without)");
    }
    if args.churn {
        return churn(args);
    }
    let (mut runs, mut memory) = (Vec::new(), Memory::default());
    for turn in 1..=args.runs {
        let mut run = Run::default();
        let whole = whole(args, &mut run)?;
        if turn == 1 {
            memory = whole;
        }
        let hot = hot(args, &mut run)?;
        let plain = plain(args, &mut run);
        ensure!(
            hot == plain,
            "run {turn}: the hot path and the plain program found different changes"
        );
        for rule in RULES {
            if !run.fired.contains_key(rule) {
                bail!("the rule `{rule}` did not fire: this would not be the cost of all rules");
            }
        }
        let million = run.events as f64 / 1e6;
        eprintln!(
            "run {turn} of {}: the whole {:.4}, the hot path {:.4}, the plain program {:.4} CPU-s per million",
            args.runs,
            run.whole.cpu_seconds / million,
            run.hot.cpu_seconds / million,
            run.plain.cpu_seconds / million,
        );
        runs.push(run);
    }
    let json = core::to_json(args, &runs, memory);
    if args.json {
        println!("{json:#}");
    } else {
        println!("{}", core::to_text(&json));
    }
    Ok(ExitCode::SUCCESS)
}

/// The load in chunks, and what is measured between them.
struct Feed {
    load: Load,
    chunk: Vec<Vec<Event>>,
    at: u64,
    slots: u64,
    cost: Cost,
    events: u64,
    before: u64,
    anon_bytes: u64,
}

impl Feed {
    fn new(args: &Args) -> Self {
        let shape = args.shape();
        let mut load = Load::new(shape, SEED);
        // Filled once, so that the input is not counted as memory of what is measured.
        let mut chunk: Vec<Vec<Event>> = (0..CHUNK).map(|_| Vec::new()).collect();
        chunk.iter_mut().for_each(|events| load.slot(FIRST, 0, events));
        let before = cost::status_bytes("RssAnon:");
        let slots = WARM_UP + args.slots();
        Self {
            load: Load::new(shape, SEED),
            chunk,
            at: 0,
            slots,
            cost: Cost::default(),
            events: 0,
            before,
            anon_bytes: 0,
        }
    }

    /// Hands the next slots to `take` within the clock; false when there are none.
    fn next(
        &mut self,
        mut take: impl FnMut(Slot, &[Event], bool) -> anyhow::Result<()>,
    ) -> anyhow::Result<bool> {
        if self.at >= self.slots {
            return Ok(false);
        }
        for (events, slot) in self.chunk.iter_mut().zip(self.at..) {
            events.clear();
            self.load.slot(FIRST, slot, events);
        }
        let measured = self.at >= WARM_UP;
        let (cpu, wall) = (cost::cpu_seconds_exact(), Instant::now());
        for (events, slot) in self.chunk.iter().zip(self.at..) {
            take(Slot(FIRST.0 + slot), events, measured)?;
        }
        if measured {
            self.cost.cpu_seconds += cost::cpu_seconds_exact() - cpu;
            self.cost.wall_seconds += wall.elapsed().as_secs_f64();
            self.events += self.chunk.iter().map(|e| e.len() as u64).sum::<u64>();
        }
        let now = cost::status_bytes("RssAnon:").saturating_sub(self.before);
        self.anon_bytes = self.anon_bytes.max(now);
        self.at += CHUNK;
        Ok(true)
    }
}

/// Counts of the open slots, as `ingest` counts them.
#[derive(Default)]
struct Counting {
    open: [Table; OPEN],
    records: Vec<Record>,
}

impl Counting {
    fn slot(t: i64) -> usize {
        (t as u64 / SLOT_MS) as usize % OPEN
    }

    fn add(&mut self, events: &[Event]) {
        for (i, event) in events.iter().enumerate() {
            if let Some(soon) = events.get(i + AHEAD) {
                self.open[Self::slot(soon.t)].prefetch(soon.room);
            }
            self.open[Self::slot(event.t)].add(event.room, event.class, event.outcome);
        }
    }

    fn hand_over(&mut self, slot: Slot, host: &mut Host) -> anyhow::Result<()> {
        let table = &mut self.open[slot.0 as usize % OPEN];
        self.records.clear();
        table.drain(0, &mut self.records);
        Ok(host.counts_of(0, slot, &self.records, Vec::new())?)
    }
}

/// The whole of it: events in, decisions out, top rooms and totals beside them.
fn whole(args: &Args, run: &mut Run) -> anyhow::Result<Memory> {
    let mut feed = Feed::new(args);
    let options = Options { spans: true, ..Options::default() };
    let rules = Arc::new(RuleSet::shipped());
    let mut host = Host::start(usize::from(args.workers), FIRST, rules, options)?;
    // Ids go ahead of the counts, once a room.
    host.counts(0, FIRST, Vec::new(), feed.load.names())?;
    let mut counting = Counting::default();
    loop {
        let more = feed.next(|slot, events, measured| {
            let began = Instant::now();
            counting.add(events);
            if slot > FIRST {
                let done = slot.minus(1);
                counting.hand_over(done, &mut host)?;
                for decision in host.close(done)?.into_iter().flat_map(|(_, decisions)| decisions) {
                    *run.fired.entry(decision.rule).or_default() += 1;
                }
                for ended in host.spans() {
                    *run.fired.entry(ended.span.rule).or_default() += 1;
                }
            }
            if measured {
                run.slot_ms.push(began.elapsed().as_secs_f64() * 1e3);
            }
            Ok(())
        })?;
        if !more {
            break;
        }
    }
    let view = host.settle(host.next().minus(1))?;
    (run.rooms, run.slot_entries) = (view.stats.rooms, view.stats.log_entries);
    (run.whole, run.events) = (feed.cost, feed.events);
    host.stop()?;
    Ok(Memory { anon_bytes: feed.anon_bytes, peak_rss_bytes: cost::status_bytes("VmHWM:") })
}

/// The hot path alone. Returns a hash over its changes.
fn hot(args: &Args, run: &mut Run) -> anyhow::Result<u64> {
    let mut feed = Feed::new(args);
    let options = Options { mode: Mode::Masks, view: false, ..Options::default() };
    let rules = Arc::new(RuleSet::shipped());
    let mut host = Host::start(usize::from(args.workers), FIRST, rules, options)?;
    let (mut counting, mut seen) = (Counting::default(), Seen::default());
    while feed.next(|slot, events, _| {
        counting.add(events);
        if slot > FIRST {
            let done = slot.minus(1);
            counting.hand_over(done, &mut host)?;
            host.close(done)?;
            let mut masks = host.masks();
            masks.sort_unstable_by_key(|m| m.room);
            for m in &masks {
                seen.change(done, m.room, m.mask, &m.classes, &m.outcomes);
            }
        }
        Ok(())
    })? {}
    host.stop()?;
    (run.hot, run.changes) = (feed.cost, seen.changes);
    Ok(seen.hash)
}

/// The plain program. Returns a hash over its changes.
fn plain(args: &Args, run: &mut Run) -> u64 {
    let mut feed = Feed::new(args);
    let (mut plain, mut seen, mut changes) = (Plain::new(FIRST.0), Seen::default(), Vec::new());
    let of = |t: i64| t as u64 / SLOT_MS;
    // Nothing in it can fail.
    while let Ok(true) = feed.next(|slot, events, _| {
        for (i, event) in events.iter().enumerate() {
            if let Some(soon) = events.get(i + AHEAD) {
                plain.soon(of(soon.t), soon.room);
            }
            plain.add(of(event.t), event.room, event.class, event.outcome);
        }
        if slot > FIRST {
            plain.close(&mut changes);
            changes.sort_unstable_by_key(|c| c.room);
            for c in changes.drain(..) {
                let outcomes = [0, 1, 2].map(|w| c.sums.outcomes(w));
                seen.change(slot.minus(1), c.room, c.mask.into(), &c.sums.classes, &outcomes);
            }
        }
        Ok(())
    }) {}
    run.plain = feed.cost;
    seen.hash
}

/// A hash over changes, in the order of slots and rooms.
#[derive(Default)]
struct Seen {
    hash: u64,
    changes: u64,
}

impl Seen {
    fn change(
        &mut self,
        slot: Slot,
        room: RoomKey,
        mask: u32,
        classes: &[[u32; CLASSES]; 3],
        outcomes: &[[u32; OUTCOMES]; 3],
    ) {
        let sums = classes.iter().flatten().chain(outcomes.iter().flatten());
        let head = [slot.0, room.0, room.1, u64::from(mask)];
        for word in head.into_iter().chain(sums.map(|n| u64::from(*n))) {
            self.hash = xxh3_64_with_seed(&word.to_le_bytes(), self.hash);
        }
        self.changes += 1;
    }
}

/// Minutes of churn: rooms are forgotten ten minutes after their last event, so ten fill up and ten are looked at.
const MINUTES: u64 = 20;

/// Rooms that come and go, and what is left when nothing comes any more.
fn churn(args: &Args) -> anyhow::Result<ExitCode> {
    let slots = MINUTES * 600 - WARM_UP;
    let args = &Args { events: slots * (args.rate / 10), ..args.clone() };
    let mut feed = Feed::new(args);
    let rules = Arc::new(RuleSet::shipped());
    let mut host = Host::start(usize::from(args.workers), FIRST, rules, Options::default())?;
    let (mut counting, mut minutes) = (Counting::default(), Vec::new());
    loop {
        let names = feed.load.names();
        if !names.is_empty() {
            host.counts(0, host.next(), Vec::new(), names)?;
        }
        let more = feed.next(|slot, events, _| {
            counting.add(events);
            if slot > FIRST {
                counting.hand_over(slot.minus(1), &mut host)?;
                host.close(slot.minus(1))?;
            }
            Ok(())
        })?;
        if !more {
            break;
        }
        if feed.at.is_multiple_of(600) {
            let (minute, stats) = (feed.at / 600, host.settle(host.next().minus(1))?.stats);
            let anon = cost::status_bytes("RssAnon:").saturating_sub(feed.before);
            eprintln!(
                "minute {minute}: {} MB, {} rooms, {} pairs",
                anon / 1_000_000,
                stats.rooms,
                stats.log_entries
            );
            minutes.push(json!({ "anon_bytes": anon, "rooms": stats.rooms, "slot_entries": stats.log_entries, "trace_updates": stats.trace_updates }));
        }
    }
    counting.hand_over(host.next(), &mut host)?;
    let end = host.next();
    let mut left = Vec::new();
    for after in [701, 701 + 6_000] {
        let upto = Slot(end.0 + after);
        while host.next() <= upto {
            let next = Slot(host.next().0 + 99).min(upto);
            host.close(next)?;
        }
        let s = host.settle(upto)?.stats;
        left.push(json!({ "slots_after_the_end": after, "rooms": s.rooms, "controllers": s.controllers, "slot_entries": s.log_entries, "trace_updates": s.trace_updates }));
    }
    host.stop()?;
    let anon = |m: &serde_json::Value| m["anon_bytes"].as_u64().unwrap_or(0);
    let late: Vec<u64> = minutes.iter().skip(10).map(anon).collect();
    let (least, most) =
        (late.iter().min().copied().unwrap_or(0), late.iter().max().copied().unwrap_or(0));
    let growth = most as f64 / least.max(1) as f64 - 1.0;
    println!(
        "{:#}",
        json!({ "bench": "churn", "events": feed.at * args.rate / 10, "minutes": minutes, "growth_after_minute_10": growth, "left": left })
    );
    Ok(ExitCode::SUCCESS)
}
