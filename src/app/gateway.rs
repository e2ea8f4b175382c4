//! `barrage gateway`: joins the night's events, the edge and Kafka.

use super::run::setup::{self, Setup};
use crate::gateway::{Args, Sender, Tally};
use crate::scenes::night::{Event, Night, write_json};
use crate::scenes::{PRELUDE_SECS, START_MS, Scene};
use anyhow::Context as _;
use barrage_edge::report::Accumulator;
use barrage_edge::{Edge, Settings, State, Verdict};
use barrage_protocol::ids::Outcome;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Between the start and the first loud scene: the raid, where there is one, in milliseconds: 40 s of life make a baseline known.
const LEAD_MS: i64 = 42_000;
/// Between two looks at what is due.
const TURN: Duration = Duration::from_millis(10);

/// Plays a night through an edge until it is stopped.
///
/// # Errors
/// A configuration or passwords that cannot be read, a client that cannot be made.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(config) = setup::load(&args.config)? else { return Ok(ExitCode::from(3)) };
    let setup = Setup::new(config)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let stop = interrupted(&runtime);
    let mut sender = Sender::new(&setup.kafka).map_err(anyhow::Error::msg)?;
    let edge = runtime.block_on(async { Edge::start(settings(args, &setup)) });
    let boot = format!("{:08x}", rand::random::<u32>());
    let mut accumulator = Accumulator::new(&args.edge, &boot, wall_ms());
    let mut play = Play::new(args);
    let (mut all, mut before) = (Tally::default(), Tally::default());
    let (began, mut told, mut first) = (Instant::now(), Instant::now(), None);
    let mut text = String::new();
    loop {
        while let Some(mut event) = play.due(began.elapsed()) {
            let room = &play.night.cast().rooms()[event.room as usize].name;
            let user = format!("u_{}", event.user);
            let verdict = edge.table().admit(room, event.class, event.tier, &user, edge.now_ms());
            all.count(verdict);
            accumulator.count(room, event.class, verdict);
            event.t_ms = wall_ms();
            if let Verdict::Refuse { .. } = verdict {
                event.outcome = Outcome::Rejected;
                first.get_or_insert_with(|| began.elapsed());
            }
            text.clear();
            write_json(&event, play.night.cast(), &mut text);
            sender.send(&setup.config.kafka.events, room, text.trim_end());
        }
        if told.elapsed() >= Duration::from_secs(1) {
            told = Instant::now();
            let report = accumulator.take(wall_ms(), &edge.status());
            let report = serde_json::to_string(&report).context("a report cannot be written")?;
            sender.send(&setup.config.kafka.reports, &args.edge, &report);
            tell(&edge, began.elapsed(), &all.since(&before), play.scene(began.elapsed()));
            before = all;
        }
        let over = args.duration.is_some_and(|d| began.elapsed() >= d);
        if over || stop.recv_timeout(TURN) != Err(RecvTimeoutError::Timeout) {
            break;
        }
    }
    sender.flush(Duration::from_secs(5));
    runtime.block_on(edge.stop());
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{} offered, {} admitted, {} delayed, {} refused in {:.0} s",
        all.offered,
        all.admitted,
        all.delayed,
        all.refused,
        began.elapsed().as_secs_f64()
    )?;
    if let Some(first) = first {
        writeln!(out, "the first refusal after {:.1} s", first.as_secs_f64())?;
    }
    if sender.dropped > 0 {
        writeln!(out, "{} records found no room on their way to Kafka", sender.dropped)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn settings(args: &Args, setup: &Setup) -> Settings {
    let copy = setup.config.state.join(format!("edge-{}.copy", args.edge));
    // Without the directory there is no copy, which the edge tells.
    let _ = std::fs::create_dir_all(&setup.config.state);
    Settings {
        edge: args.edge.clone(),
        endpoints: setup.etcd.endpoints.clone(),
        user: (!setup.etcd.user.is_empty())
            .then(|| (setup.etcd.user.clone(), setup.etcd.password.clone())),
        cluster: setup.config.cluster.clone(),
        shard: setup.config.shard,
        snapshot: Some(args.snapshot.clone().unwrap_or(copy)),
        seed: rand::random(),
    }
}

fn interrupted(runtime: &tokio::runtime::Runtime) -> Receiver<()> {
    let (told, stop) = sync_channel(1);
    runtime.spawn(async move {
        let mut terminate =
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).ok();
        let terminated = async {
            match &mut terminate {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminated => {}
        }
        // Told once is enough.
        let _ = told.try_send(());
    });
    stop
}

fn tell(edge: &Edge, at: Duration, t: &Tally, scene: Option<Scene>) {
    let status = edge.status();
    let state = match status.state {
        State::Blind => "blind",
        State::Fresh => "fresh",
        State::Frozen => "frozen",
        State::Hold => "hold",
        State::Decay => "decay",
    };
    let (epoch, seq) = status.applied;
    eprintln!(
        "{:>6.0} s  {:<9} offered {:>6}  admitted {:>6}  delayed {:>5}  refused {:>5}  {state} {epoch}/{seq}  {} room(s) off their default",
        at.as_secs_f64(),
        scene.map_or("quiet", Scene::name),
        t.offered,
        t.admitted,
        t.delayed,
        t.refused,
        status.rooms,
    );
}

/// The night at its pace.
struct Play {
    night: Night,
    next: Option<Event>,
    /// Event time at the start.
    from_ms: i64,
}

impl Play {
    fn new(args: &Args) -> Self {
        let mut night = Night::new(args.seed, usize::from(args.rooms), args.scene);
        // The raid where there is one, else the first second that is neither quiet nor slow.
        let scene = |s: &u64| args.scene.at(s * 1_000).scene;
        let first = |fits: fn(Scene) -> bool| (0..args.scene.secs()).find(|s| fits(scene(s)));
        let storm = first(|s| s == Scene::Storm);
        let loud =
            storm.or_else(|| first(|s| !matches!(s, Scene::Quiet | Scene::WarmUp))).unwrap_or(0);
        let loud = i64::try_from(loud.max(PRELUDE_SECS)).unwrap_or(0) * 1_000;
        let from_ms = START_MS + loud - LEAD_MS;
        let next = night.find(|event| event.t_ms >= from_ms);
        Self { night, next, from_ms }
    }

    fn due(&mut self, elapsed: Duration) -> Option<Event> {
        let now = self.from_ms + i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX);
        let event = self.next.filter(|event| event.t_ms <= now)?;
        self.next = self.night.next();
        Some(event)
    }

    fn scene(&self, elapsed: Duration) -> Option<Scene> {
        let moment =
            self.night.moment(self.from_ms + i64::try_from(elapsed.as_millis()).unwrap_or(0));
        moment.into_ms.map(|_| moment.scene)
    }
}

fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}
