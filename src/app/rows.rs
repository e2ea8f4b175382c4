//! `barrage bench rows`: one plain rule over a file, through the program's own ingest, exchange and windows.

use super::lead::{Lead, Round};
use super::line::{Observer, Settings};
use crate::bench::cost::Meter;
use crate::bench::rows::{self, Args, Outcome};
use crate::ingest::slotting::Batch;
use crate::ingest::{self, Options, Problems};
use anyhow::{Context as _, bail};
use barrage_dataflows::command::{self, Mode};
use barrage_dataflows::report::Row;
use barrage_engine::control;
use barrage_engine::rules::RuleSet;
use barrage_protocol::decision::Decision;
use barrage_protocol::ids::{RoomKey, SLOT_MS, Slot};
use std::collections::HashSet;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::process::ExitCode;

/// Runs the benchmark.
///
/// # Errors
/// A file that cannot be read, or holds nothing usable.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let problems = Problems::default();
    let opened = ingest::open(&args.file, &Options::default(), &problems, false)?;
    let what = || format!("cannot write {}", args.out.display());
    let out = BufWriter::new(File::create(&args.out).with_context(what)?);
    let mode = Mode::Rows { min_count_60s: rows::MIN_COUNT_60S, slide: args.slide_ms / SLOT_MS };
    let settings = Settings {
        control: control::Config {
            out_of_order_ms: rows::OUT_OF_ORDER_MS,
            ..control::Config::default()
        },
        workers: usize::from(args.workers),
        graph: command::Options { mode, view: false, ..Default::default() },
        ..Settings::default()
    };
    let meter = Meter::start();
    let mut watch = Watch { out, rooms: HashSet::new(), rows: 0 };
    let mut line = Lead::new(settings, RuleSet::shipped(), vec![opened.source], 0, &mut watch)?;
    loop {
        let now_ms = line.last_closed().map_or(0, Slot::end_ms);
        match line.round(now_ms, &mut watch)? {
            Round::Finished => break,
            Round::Idle => bail!("the file stands still: this is a fault of the program"),
            Round::Busy => {}
        }
    }
    line.close_beyond(rows::AFTER, &mut watch)?;
    let counters = line.counters(0).cloned().unwrap_or_default();
    line.stop()?;
    watch.out.flush().with_context(what)?;
    for note in problems.fresh() {
        eprintln!("{note}");
    }
    if counters.in_slot == 0 {
        bail!("{} held nothing usable: no record is an event", args.file.display());
    }
    let outcome = Outcome {
        events: counters.in_slot,
        lost: counters.late + counters.rejected,
        rooms: watch.rooms.len() as u64,
        rows: watch.rows,
        cost: meter.read(),
    };
    let mut stdout = std::io::stdout().lock();
    if args.json {
        writeln!(stdout, "{:#}", rows::to_json(args, &outcome))?;
    } else {
        writeln!(stdout, "{}", rows::to_text(args, &outcome))?;
    }
    Ok(ExitCode::SUCCESS)
}

struct Watch {
    out: BufWriter<File>,
    rooms: HashSet<RoomKey>,
    rows: u64,
}

impl Observer for Watch {
    fn counts(&mut self, _slot: Slot, batch: &Batch) {
        self.rooms.extend(batch.names.iter().map(|(key, _)| *key));
    }

    fn rows(&mut self, rows: Vec<Row>) -> anyhow::Result<()> {
        for row in rows {
            let (end, c60, c10) = (row.slot.end_ms(), row.count_60s, row.count_10s);
            rows::row(&mut self.out, &row.room, end, c60, c10).context("cannot write the rows")?;
            self.rows += 1;
        }
        Ok(())
    }

    fn decided(&mut self, _: Slot, _: &[Decision], _: &[String]) -> anyhow::Result<()> {
        Ok(())
    }
}
