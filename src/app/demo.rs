//! `barrage demo`: one process, nothing else installed: events, decisions, policies, an edge, a live page.

use super::lead::{Lead, Round};
use super::line::{Observer, Settings};
use super::stage::{Paced, Recorded, SharedGate, Show};
use crate::api::board::{self, Board, Phase};
use crate::api::server;
use crate::demo::{Gate, Pace, span};
use crate::ingest::{self, Options, Problems, Source};
use crate::publish::memory::{Store, Watch};
use crate::publish::plan::Plan;
use crate::publish::writer::Writer;
use crate::scenes::night::Night;
use crate::scenes::{PRELUDE_SECS, Programme, START_MS};
use anyhow::Context as _;
use barrage_dataflows::view::View;
use barrage_edge::Change;
use barrage_engine::decision::kind_name;
use barrage_engine::rules::RuleSet;
use barrage_protocol::decision::{Decision, Kind};
use barrage_protocol::ids::{Class, Slot};
use barrage_protocol::policy::Keys;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Rooms of the generated night.
const ROOMS: usize = 90;
/// How often readers of the page are told how things stand.
const TICK: Duration = Duration::from_millis(250);
/// How long to wait when nothing is to be done.
const REST: Duration = Duration::from_millis(10);

/// Arguments of `barrage demo`, beside how files are read.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Feed the page from a file of events, or a pipe (`-`), instead of the generated night
    #[arg(long, value_name = "FILE|-")]
    pub input: Option<PathBuf>,
    /// Rule set [default: the shipped one]
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
    /// Put every room into this group
    #[arg(long, value_name = "NAME")]
    pub group: Option<String>,
    /// Where the page is served; loopback only, port 0: any free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8700")]
    pub listen: SocketAddr,
    /// Seed of the generated night
    #[arg(long, value_name = "N", default_value_t = 7)]
    pub seed: u64,
    /// Where decisions go as they are made, canonical, one a line
    #[arg(long, value_name = "OUT.jsonl")]
    pub decisions: Option<PathBuf>,
    /// Seconds of event time per second
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = speed)]
    pub speed: f64,
    /// End by itself after this long, with a summary
    #[arg(long = "for", value_name = "DURATION", value_parser = span::parse)]
    pub duration: Option<Duration>,
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(x) if (0.1..=1_000.0).contains(&x) => Ok(x),
        _ => Err("a number from 0.1 to 1000".to_owned()),
    }
}

/// Runs the demo.
///
/// # Errors
/// An address that cannot be listened on, a file that cannot be read, rules that are invalid.
pub fn run(args: &Args, options: &Options) -> anyhow::Result<ExitCode> {
    server::check_loopback(args.listen).map_err(anyhow::Error::msg)?;
    let Some(rules) = crate::rules::load(args.rules.as_deref())? else {
        return Ok(ExitCode::from(3));
    };
    let problems = Problems::default();
    let keys = Keys::new("demo", 0);
    let gate: SharedGate = Arc::new(Mutex::new(Gate::new(keys.clone())));
    let free_ms = (PRELUDE_SECS * 1_000) as i64;
    let pace = Pace::new(free_ms, args.speed);
    let (source, name): (Box<dyn Source>, _) = match &args.input {
        Some(path) => {
            let opened = ingest::open(path, options, &problems, true)?;
            let name = opened.source.name().to_owned();
            (Box::new(Recorded::new(opened.source, pace, Arc::clone(&gate))), name)
        }
        None => {
            let night = Night::new(args.seed, ROOMS, Programme::Match);
            (Box::new(Paced::new(night, pace, Arc::clone(&gate))), format!("seed {}", args.seed))
        }
    };
    let board = Arc::new(Board::new(&name, args.speed));
    let (interrupt, stop) = sync_channel(1);
    let address = serve(args.listen, &board, interrupt)?;
    eprintln!("the page: http://{address}/  (Ctrl-C ends the demo)");
    let mut stage = Stage::new(args, keys, gate, Arc::clone(&board), &rules)?;
    let settings = Settings { group: args.group.clone(), ..Settings::default() };
    let mut line = Lead::new(settings, rules, vec![source], 0, &mut stage)?;
    let mut ended = false;
    let began = Instant::now();
    let over = |began: Instant| args.duration.is_some_and(|d| began.elapsed() >= d);
    while stop.try_recv().is_err() && !over(began) {
        let now_ms = i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX);
        let round = line.round(now_ms, &mut stage)?;
        stage.after(&line)?;
        problems.fresh().iter().for_each(|note| eprintln!("{note}"));
        match round {
            Round::Busy => {}
            Round::Idle if stop.recv_timeout(REST).is_ok() => break,
            Round::Idle => {}
            Round::Finished => {
                // The page stays, so that how it stood at the end can be read.
                if !std::mem::replace(&mut ended, true) {
                    board.phase(Phase::Ended);
                    eprintln!("the input has ended; the page shows how it stood");
                }
                stage.tell();
                if stop.recv_timeout(TICK).is_ok() {
                    break;
                }
            }
        }
    }
    line.stop()?;
    stage.summary()?;
    Ok(ExitCode::SUCCESS)
}

/// Serves the page on a thread of its own; Ctrl-C is told to `interrupt`.
fn serve(
    address: SocketAddr,
    board: &Arc<Board>,
    interrupt: SyncSender<()>,
) -> anyhow::Result<SocketAddr> {
    let listener = std::net::TcpListener::bind(address).with_context(|| {
        format!("cannot listen on {address}; try --listen 127.0.0.1:0 for a free port")
    })?;
    listener.set_nonblocking(true)?;
    let bound = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("cannot start the server's threads")?;
    let board = Arc::clone(board);
    std::thread::Builder::new().name("page".to_owned()).spawn(move || {
        runtime.block_on(async move {
            let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
            let stop = async move {
                let _ = tokio::signal::ctrl_c().await;
                let _ = interrupt.try_send(());
            };
            if let Err(error) = server::serve(listener, board, stop).await {
                eprintln!("the page is gone: {error}");
            }
        });
    })?;
    Ok(bound)
}

/// What follows from decisions: policies, the edge, the page.
struct Stage {
    show: Option<Show>,
    writer: Writer,
    watch: Watch,
    gate: SharedGate,
    board: Arc<Board>,
    began: Instant,
    ticked: Instant,
    shown: Slot,
    kinds: BTreeMap<Kind, u64>,
    first: Option<Duration>,
    out: Option<File>,
}

impl Stage {
    fn new(
        args: &Args,
        keys: Keys,
        gate: SharedGate,
        board: Arc<Board>,
        rules: &RuleSet,
    ) -> anyhow::Result<Self> {
        let store = Store::default();
        let watch = store.watch(keys.tree(), 1);
        let plan = Plan::new(keys.clone(), 1, Arc::new(rules.clone()), Slot::of_ms(START_MS));
        let writer = Writer::new(plan, store, &keys, 1);
        let now = Instant::now();
        let create = |path: &PathBuf| {
            let file = File::create(path);
            file.with_context(|| format!("cannot write {}", path.display()))
        };
        Ok(Self {
            show: args.input.is_none().then(|| Show::new(Programme::Match)),
            writer,
            watch,
            gate,
            board,
            began: now,
            ticked: now,
            shown: Slot(0),
            kinds: BTreeMap::new(),
            first: None,
            out: args.decisions.as_ref().map(create).transpose()?,
        })
    }

    /// After a round: publishes what waits, lets the edge see it, tells the page.
    fn after(&mut self, line: &Lead) -> anyhow::Result<()> {
        let Some(closed) = line.last_closed() else { return Ok(()) };
        let now_ms = u64::try_from(closed.end_ms()).unwrap_or(0);
        self.writer.step(now_ms, closed, false)?;
        let events = self.watch.poll()?;
        if !events.is_empty() {
            let changes: Vec<Change<'_>> =
                events.iter().map(|e| Change { key: &e.key, value: e.value.as_deref() }).collect();
            self.gate.lock().unwrap_or_else(PoisonError::into_inner).apply(&changes, now_ms);
            let policies = self.writer.plan().published();
            self.board.policies(policies.map(|(r, p)| (r.to_owned(), p.clone())).collect());
        }
        if let Some(show) = &mut self.show
            && let Some(scene) = show.scene(closed.end_ms())
            && self.board.scene(scene.name(), scene.tale())
        {
            eprintln!("{:>6.1} s  {scene}: {}", self.began.elapsed().as_secs_f64(), scene.tale());
        }
        if self.ticked.elapsed() >= TICK {
            self.ticked = Instant::now();
            self.tell();
        }
        Ok(())
    }

    /// Tells the page about the edge, and its readers how things stand.
    fn tell(&mut self) {
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        let now_ms = u64::try_from(self.shown.end_ms()).unwrap_or(0);
        let status = gate.status(now_ms);
        let tally = |t: crate::demo::gate::Tally| board::Tally {
            admitted: t.admitted,
            delayed: t.delayed,
            refused: t.refused,
        };
        let both = gate.recent().into_iter().zip(gate.total());
        let lanes = Class::ALL.into_iter().zip(both);
        let lane = |(class, (recent, total))| board::Lane {
            class,
            recent: tally(recent),
            total: tally(total),
        };
        self.board.edge(board::Edge {
            state: format!("{:?}", status.state).to_lowercase(),
            applied: status.applied,
            rooms: status.rooms,
            classes: lanes.map(lane).collect(),
        });
        drop(gate);
        self.board.tick();
    }

    fn summary(&self) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        let decided: u64 = self.kinds.values().sum();
        let noun = if decided == 1 { "decision" } else { "decisions" };
        write!(out, "{decided} {noun} in {:.0} s", self.began.elapsed().as_secs_f64())?;
        if let Some(first) = self.first {
            write!(out, ", the first after {:.1} s", first.as_secs_f64())?;
        }
        writeln!(out)?;
        for (kind, n) in &self.kinds {
            writeln!(out, "  {:<12} {n}", kind_name(*kind))?;
        }
        writeln!(
            out,
            "{:<12} {:>10} {:>10} {:>10}",
            "at the edge", "admitted", "delayed", "refused"
        )?;
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        for (class, t) in Class::ALL.into_iter().zip(gate.total()) {
            let (name, admitted) = (class.name(), t.admitted);
            writeln!(out, "  {name:<10} {admitted:>10} {:>10} {:>10}", t.delayed, t.refused)?;
        }
        Ok(())
    }
}

impl Observer for Stage {
    fn closed(&mut self, _upto: Slot, view: &Arc<View>) -> anyhow::Result<()> {
        if view.slot > self.shown {
            self.shown = view.slot;
            let second = view.slot.start_ms().div_euclid(1_000);
            let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
            self.board.view(view, |room| gate.passed(room, second));
            if gate.live() {
                self.board.phase(Phase::Live);
            }
        }
        Ok(())
    }

    fn decided(
        &mut self,
        _slot: Slot,
        decisions: &[Decision],
        lines: &[String],
    ) -> anyhow::Result<()> {
        if let Some(out) = &mut self.out {
            let mut text = lines.join("\n");
            if !text.is_empty() {
                text.push('\n');
            }
            out.write_all(text.as_bytes()).context("cannot write the decisions")?;
        }
        if !decisions.is_empty() {
            self.first.get_or_insert_with(|| self.began.elapsed());
        }
        for decision in decisions {
            *self.kinds.entry(decision.kind).or_default() += 1;
        }
        self.writer.plan().take(decisions);
        self.board.decided(decisions);
        Ok(())
    }
}
