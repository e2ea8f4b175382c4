//! `barrage replay`: files through the line as fast as the machine can, leading or following a control log.

use super::follow::Follow;
use super::lead::{Lead, Round};
use super::line::{Observer, Settings};
use super::run::setup;
use crate::control;
use crate::ingest::kafka;
use crate::ingest::slotting::Batch;
use crate::ingest::{self, Options, Problems, Progress, Source};
use crate::replay::{Alarm, Args, Bar, FileTotals, Report, summary};
use anyhow::{Context as _, bail};
use barrage_dataflows::report::Ended;
use barrage_dataflows::view::View;
use barrage_engine::control::Counters;
use barrage_engine::rules::RuleSet;
use barrage_protocol::control::Entry;
use barrage_protocol::decision::Decision;
use barrage_protocol::ids::Slot;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest entry of a control log that is read: a step with a whole rule set in it.
const ENTRY_MAX: u64 = 8 << 20;

/// Runs `barrage replay`.
///
/// # Errors
/// Files that cannot be read or hold nothing usable, rules that are invalid, a worker that fell.
pub fn run(args: &Args, options: &Options) -> anyhow::Result<ExitCode> {
    let Some(rules) = crate::rules::load(args.rules.as_deref())? else {
        return Ok(ExitCode::from(3));
    };
    if let (true, Some(config)) = (args.kafka, &args.config) {
        return cluster(args, options, config, rules);
    }
    let problems = Problems::default();
    let mut sources: Vec<Box<dyn Source>> = Vec::new();
    let mut progress = Vec::new();
    for path in &args.files {
        let opened = ingest::open(path, options, &problems, false)?;
        sources.push(opened.source);
        progress.push(opened.progress);
    }
    let names: Vec<String> = sources.iter().map(|s| s.name().to_owned()).collect();
    let control = match &args.write_control {
        Some(path) => Some(create(path)?),
        None => None,
    };
    let total = progress.iter().map(|p| p.total).sum();
    let mut watch = Watch {
        report: Report::new(args.decisions.as_deref())?,
        bar: Bar::new(total),
        problems,
        progress,
        control,
        started: Instant::now(),
    };
    watch.report.workers = args.workers;
    let settings = settings(args);
    let diverged = match &args.control {
        Some(log) => follow(settings, rules, sources, &names, log, &mut watch)?,
        None => lead(settings, rules, sources, &names, &mut watch)?,
    };
    finish(args, options, watch, diverged)
}

fn settings(args: &Args) -> Settings {
    let graph =
        barrage_dataflows::command::Options { view: false, spans: true, ..Default::default() };
    let workers = usize::from(args.workers);
    Settings { workers, graph, group: args.group.clone(), ..Settings::default() }
}

/// How long an answer of Kafka is waited for while nothing moves.
const STILL: Duration = Duration::from_secs(30);

/// Follows a cluster's control log over its topic, from the first step that is kept to the last.
fn cluster(
    args: &Args,
    options: &Options,
    config: &Path,
    rules: RuleSet,
) -> anyhow::Result<ExitCode> {
    let Some(config) = setup::load(config)? else { return Ok(ExitCode::from(3)) };
    let time = config.time.clone();
    let setup = setup::Setup::new(config)?;
    let events = kafka::Settings {
        begin: kafka::Begin::Earliest,
        dead_letters: String::new(),
        ..setup.events()
    };
    let topic = kafka::open(events).map_err(anyhow::Error::msg)?;
    let mut log = control::open(&setup.control(), None)?;
    let names: Vec<String> =
        (0..topic.partitions()).map(|p| format!("{}/{p}", setup.config.kafka.events)).collect();
    let mut watch = Watch {
        report: Report::new(args.decisions.as_deref())?,
        bar: Bar::new(0),
        problems: Problems::default(),
        progress: Vec::new(),
        control: None,
        started: Instant::now(),
    };
    watch.report.workers = args.workers;
    let settings = Settings { control: time, ..settings(args) };
    let mut line = Follow::at(settings, rules, log.position(), topic.sources())?;
    let (mut diverged, mut moved) = (0_u64, Instant::now());
    loop {
        while line.wants().is_some()
            && let Some((position, entry)) = log.read()?
        {
            line.entry_at(position, entry);
        }
        let now_ms = i64::try_from(watch.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        let round = line.round(now_ms, &mut watch)?;
        while let Some(divergence) = line.divergence() {
            diverged += 1;
            if diverged <= 3 {
                watch.bar.say(&format!("differs from the control log: {divergence}"));
            }
        }
        match round {
            Round::Busy => moved = Instant::now(),
            Round::Finished if log.is_at_end() => break,
            Round::Finished | Round::Idle => std::thread::park_timeout(Duration::from_millis(2)),
        }
        if let Some(event) = topic.events().next() {
            bail!("the topic does not hold what the control log names: {event:?}");
        }
        if moved.elapsed() > STILL {
            bail!(
                "nothing moves for {STILL:?}: the control log goes further than the topic, or Kafka does not answer"
            );
        }
        watch.tell();
    }
    if line.last_closed().is_none() {
        bail!("the control log {} holds no step", setup.control().topic);
    }
    ended(line, &names, &mut watch)?;
    finish(args, options, watch, diverged > 0)
}

/// What is left to tell of a line that has followed to the end.
fn ended(mut line: Follow, names: &[String], watch: &mut Watch) -> anyhow::Result<()> {
    if line.last_closed().is_some() {
        watch.spans(line.open_spans()?);
    }
    watch.report.hash = line.hash();
    watch.files(names, |p| line.counters(p).cloned());
    line.stop()
}

fn create(path: &Path) -> anyhow::Result<BufWriter<File>> {
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(BufWriter::new(file))
}

/// Leads: time is that of the events, so that the control log does not depend on the machine's speed.
fn lead(
    settings: Settings,
    rules: RuleSet,
    sources: Vec<Box<dyn Source>>,
    names: &[String],
    watch: &mut Watch,
) -> anyhow::Result<bool> {
    let mut line = Lead::new(settings, rules, sources, 0, watch)?;
    loop {
        let now_ms = line.last_closed().map_or(0, Slot::end_ms);
        match line.round(now_ms, watch)? {
            Round::Finished => break,
            Round::Idle => {
                let failed = (0..).zip(names).filter_map(|(p, _)| line.status(p)?.1);
                match failed.into_iter().next() {
                    Some(why) => bail!("{why}"),
                    None => bail!("the files stand still: this is a fault of the program"),
                }
            }
            Round::Busy => watch.tell(),
        }
    }
    if line.last_closed().is_some() {
        watch.spans(line.open_spans()?);
    }
    watch.report.hash = line.hash();
    watch.files(names, |p| line.counters(p).cloned());
    line.stop()?;
    Ok(false)
}

/// Follows a recorded control log; true: it came to something else than the log says.
fn follow(
    settings: Settings,
    rules: RuleSet,
    sources: Vec<Box<dyn Source>>,
    names: &[String],
    log: &Path,
    watch: &mut Watch,
) -> anyhow::Result<bool> {
    let mut entries = Entries::open(log)?;
    let mut line = Follow::new(settings, rules, sources)?;
    let mut diverged = 0_u64;
    let mut still = 0;
    loop {
        while line.wants().is_some()
            && let Some(entry) = entries.next()?
        {
            line.entry(entry);
        }
        let round = line.round(0, watch)?;
        while let Some(divergence) = line.divergence() {
            diverged += 1;
            if diverged <= 3 {
                watch.bar.say(&format!("differs from the control log: {divergence}"));
            }
        }
        match round {
            Round::Finished if entries.ended => break,
            Round::Busy => still = 0,
            Round::Finished | Round::Idle => still += 1,
        }
        if still > 10_000 {
            bail!(
                "{}: its steps go further than the files do; are these the files it was written for?",
                log.display()
            );
        }
        watch.tell();
    }
    ended(line, names, watch)?;
    if diverged > 0 {
        watch.bar.say(&format!("{diverged} differences from the control log"));
    }
    Ok(diverged > 0)
}

fn finish(
    args: &Args,
    options: &Options,
    mut watch: Watch,
    diverged: bool,
) -> anyhow::Result<ExitCode> {
    watch.tell();
    watch.bar.done();
    if let Some(control) = &mut watch.control {
        control.flush().context("cannot write the control log")?;
    }
    let report = &mut watch.report;
    let counted: u64 = report.files.iter().map(|f| f.counted + f.late).sum();
    if counted == 0 {
        let files = if args.files.len() == 1 { "the file" } else { "the files" };
        bail!("{files} held nothing usable: no record is an event (see above)");
    }
    let first = report.activity.span().map_or(0, |(first, _)| first.start_ms());
    let zero_ms = args.zero.or(options.ts_base).unwrap_or(first);
    report.wall_ms = u64::try_from(watch.started.elapsed().as_millis()).unwrap_or(u64::MAX);
    report.finish(args.alarms.as_deref(), zero_ms)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{:#}", summary::json(report, zero_ms))?;
    } else {
        write!(out, "{}", summary::table(report, zero_ms))?;
    }
    Ok(if diverged { ExitCode::from(3) } else { ExitCode::SUCCESS })
}

/// Looks on while files are replayed.
struct Watch {
    report: Report,
    bar: Bar,
    problems: Problems,
    progress: Vec<Progress>,
    control: Option<BufWriter<File>>,
    started: Instant,
}

impl Watch {
    /// Tells what could not be read since the last call, and how far it is.
    fn tell(&mut self) {
        for note in self.problems.fresh() {
            let note = note.to_string();
            self.bar.say(&note);
            self.report.notes.push(note);
        }
        let read = self.progress.iter().map(Progress::read).sum();
        self.bar.at(read, self.report.activity.events());
    }

    fn spans(&mut self, ended: Vec<Ended>) {
        for Ended { room, span } in ended {
            let kind = span.shape.name();
            // A micro-burst is too short to be an alarm.
            if span.shape.is_alarm() {
                let (from, to, rule) = (span.from, span.to, span.rule);
                self.report.alarms.push(Alarm { room, from, to, rule, kind });
            }
        }
    }

    fn files(&mut self, names: &[String], counters: impl Fn(u32) -> Option<Counters>) {
        for (p, name) in (0..).zip(names) {
            let c = counters(p).unwrap_or_default();
            self.report.files.push(FileTotals {
                name: name.clone(),
                read: c.read,
                counted: c.in_slot,
                late: c.late,
                rejected: c.reasons,
                skipped: c.skipped,
                overflow: c.overflow,
            });
        }
    }
}

impl Observer for Watch {
    fn counts(&mut self, slot: Slot, batch: &Batch) {
        self.report.activity.counts(slot, &batch.records, &batch.names);
    }

    fn closed(&mut self, upto: Slot, _view: &Arc<View>) -> anyhow::Result<()> {
        self.report.last = Some(upto);
        Ok(())
    }

    fn ended(&mut self, ended: Vec<Ended>) {
        self.spans(ended);
    }

    fn decided(
        &mut self,
        _slot: Slot,
        decisions: &[Decision],
        lines: &[String],
    ) -> anyhow::Result<()> {
        self.report.slot(decisions, lines).context("cannot write the decisions")
    }

    fn written(&mut self, entry: &Entry) -> anyhow::Result<()> {
        if let Some(out) = &mut self.control {
            serde_json::to_writer(&mut *out, entry).context("cannot write the control log")?;
            out.write_all(b"\n").context("cannot write the control log")?;
        }
        Ok(())
    }
}

/// Entries of a control log in a file, one a line.
struct Entries {
    name: String,
    reader: BufReader<File>,
    line: u64,
    ended: bool,
}

impl Entries {
    fn open(path: &Path) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
        Ok(Self { name, reader: BufReader::new(file), line: 0, ended: false })
    }

    fn next(&mut self) -> anyhow::Result<Option<Entry>> {
        use std::io::Read as _;
        let mut text = Vec::new();
        while !self.ended {
            text.clear();
            let mut limited = (&mut self.reader).take(ENTRY_MAX);
            let n = limited.read_until(b'\n', &mut text);
            let n = n.with_context(|| format!("cannot read {}", self.name))?;
            self.line += 1;
            if n as u64 == ENTRY_MAX {
                bail!("{}:{}: longer than {ENTRY_MAX} bytes", self.name, self.line);
            }
            self.ended = n == 0;
            if text.trim_ascii().is_empty() {
                continue;
            }
            let what = || format!("{}:{}: not an entry of a control log", self.name, self.line);
            return serde_json::from_slice(&text).map(Some).with_context(what);
        }
        Ok(None)
    }
}
