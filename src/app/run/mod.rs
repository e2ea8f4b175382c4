//! `barrage run`: a controller on real services. It follows the control log until it is elected, and leads until it is
//! fenced or told to stop.

mod cycle;
mod effects;
mod keep;
mod look;
pub(crate) mod setup;

use self::cycle::{Cycle, End, Parts, Turn};
use self::effects::Effects;
use self::keep::Keeper;
use self::setup::Setup;
use crate::api::{Board, server};
use crate::app::{Checkpoint, Follow, Settings};
use crate::audit::{self, Store};
use crate::control;
use crate::ingest::kafka as events;
use crate::ops::{self, Health, Meters};
use crate::publish::etcd;
use anyhow::Context as _;
use barrage_engine::rules::RuleSet;
use barrage_protocol::ids::Slot;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

/// How long an idle round waits: what is appended meanwhile is seen this late at most.
const REST: Duration = Duration::from_millis(2);
/// Between two looks that readers of the page get.
const TICK_MS: i64 = 250;
/// A loop that has not turned for so long does not keep its leadership.
const STILL: Duration = Duration::from_secs(3);

/// Arguments of `barrage run`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Example: barrage init -c barrage.toml && barrage run -c barrage.toml\n\
    Exit codes: 3 the configuration is wrong, 4 something is missing or does not answer, 5 another controller leads.")]
pub struct Args {
    /// The configuration
    #[arg(short, long, value_name = "FILE")]
    pub config: PathBuf,
    /// Decide and audit, publish nothing: on a control log of its own, beside whoever leads; with a configuration whose
    /// state, ports and database are its own
    #[arg(long)]
    pub shadow: bool,
}

/// Runs a controller until it is stopped.
///
/// # Errors
/// Services that fall, a state directory that cannot be used, a fault of this program.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(mut config) = setup::load(&args.config)? else { return Ok(ExitCode::from(3)) };
    setup::log(&config.log)?;
    let Some(rules) = crate::rules::load(config.rules.as_deref())? else {
        return Ok(ExitCode::from(3));
    };
    if args.shadow {
        config.cluster.push_str("-shadow");
    }
    let setup = Setup::new(config)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("services")
        .enable_all()
        .build()
        .context("cannot start the threads of the services")?;
    if args.shadow {
        let log = setup.topics().pop().into_iter().collect::<Vec<_>>();
        runtime
            .block_on(control::topics::ensure(&setup.kafka, &log))
            .map_err(anyhow::Error::msg)?;
    }
    let stop = signals(&runtime)?;
    match runtime.block_on(setup.missing()) {
        Ok(missing) if missing.is_empty() => {}
        Ok(missing) => {
            missing.iter().for_each(|what| eprintln!("{what}"));
            eprintln!("hint: barrage init -c {}", args.config.display());
            return Ok(ExitCode::from(4));
        }
        Err(error) => {
            eprintln!("error: {error}");
            return Ok(ExitCode::from(4));
        }
    }
    let (health, meters) = (Arc::<Health>::default(), meters(&rules)?);
    let board = Arc::new(Board::new(&setup.config.kafka.events, 1.0));
    serve(&runtime, &setup, &board, &health, &meters)?;
    let cycle = begin(&runtime, setup, rules, args.shadow, &board, &health, &meters)?;
    board.phase(crate::api::board::Phase::Live);
    rounds(cycle, &stop, &board)
}

fn meters(rules: &RuleSet) -> anyhow::Result<Arc<Meters>> {
    let meters = Meters::new(env!("CARGO_PKG_VERSION"), &rules.hash);
    Ok(Arc::new(meters.context("the metrics")?))
}

/// Ends on Ctrl-C or when it is told to terminate.
fn signals(runtime: &tokio::runtime::Runtime) -> anyhow::Result<Receiver<()>> {
    let (told, stop) = sync_channel(1);
    let _guard = runtime.enter();
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
        .context("cannot listen for signals")?;
    runtime.spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        // Told once is enough.
        let _ = told.try_send(());
    });
    Ok(stop)
}

/// Listeners of probes, metrics and `/v1`.
fn serve(
    runtime: &tokio::runtime::Runtime,
    setup: &Setup,
    board: &Arc<Board>,
    health: &Arc<Health>,
    meters: &Arc<Meters>,
) -> anyhow::Result<()> {
    let bind = |at: std::net::SocketAddr, what: &str| {
        runtime.block_on(tokio::net::TcpListener::bind(at)).with_context(|| {
            format!("cannot listen on {at}, the address of `http.{what}`; port 0 takes a free one")
        })
    };
    let (ops, api) = (bind(setup.config.http.ops, "ops")?, bind(setup.config.http.api, "api")?);
    let at =
        |l: &tokio::net::TcpListener| l.local_addr().map(|a| a.to_string()).unwrap_or_default();
    tracing::info!(ops = at(&ops), api = at(&api), instance = setup.instance, "listens");
    runtime.spawn(ops::server::serve(
        ops,
        Arc::clone(health),
        Arc::clone(meters),
        std::future::pending(),
    ));
    runtime.spawn(server::serve(api, Arc::clone(board), std::future::pending()));
    Ok(())
}

/// Takes up the newest checkpoint and connects everything.
fn begin(
    runtime: &tokio::runtime::Runtime,
    setup: Setup,
    rules: RuleSet,
    shadow: bool,
    board: &Arc<Board>,
    health: &Arc<Health>,
    meters: &Arc<Meters>,
) -> anyhow::Result<Cycle> {
    let state = &setup.config.state;
    let mut store = Store::open(&state.join("checkpoints"))
        .with_context(|| format!("cannot use the state directory {}", state.display()))?;
    let spool = audit::spawn(setup.audit())
        .with_context(|| format!("cannot use the spool in {}", state.display()))?;
    let checkpoint =
        runtime.block_on(keep::newest(&mut store, &setup.postgres.0, setup.config.shard))?;
    let topic = events::open(setup.events()).map_err(anyhow::Error::msg)?;
    let (follow, log) = line(&setup, &rules, checkpoint.as_ref(), &topic)?;
    let reports = events::Reports::open(&setup.kafka, &setup.config.kafka.reports);
    let reports = reports.map_err(anyhow::Error::msg)?;
    let publish = (!shadow).then(|| {
        let rules = Arc::new(rules.clone());
        etcd::spawn(runtime.handle(), setup.etcd.clone(), rules, Slot(0))
    });
    if let Some(publish) = &publish {
        watch(runtime, health, publish);
    }
    let effects = Effects::new(
        &setup.instance,
        spool,
        Arc::clone(board),
        Arc::clone(meters),
        publish.is_some(),
    );
    let keeper =
        Keeper::new(store, Arc::clone(meters)).context("cannot start the thread of checkpoints")?;
    let (health, meters, runtime) =
        (Arc::clone(health), Arc::clone(meters), runtime.handle().clone());
    Ok(Cycle::new(Parts {
        setup,
        rules,
        follow,
        log,
        topic,
        reports,
        effects,
        publish,
        keeper,
        health,
        meters,
        runtime,
    }))
}

/// A follower from the checkpoint on, or from the first entry of the control log.
fn line(
    setup: &Setup,
    rules: &RuleSet,
    checkpoint: Option<&Checkpoint>,
    topic: &events::Topic,
) -> anyhow::Result<(Follow, control::Log)> {
    let settings = Settings {
        control: setup.config.time.clone(),
        workers: setup.config.workers,
        ..Settings::default()
    };
    let opened = match checkpoint {
        Some(checkpoint) => {
            match control::open(&setup.control(), Some(checkpoint.control.position())) {
                Ok(log) => {
                    let slot = checkpoint.control.slot.0;
                    tracing::info!(slot, "goes on from a checkpoint");
                    let follow =
                        Follow::restore_with(settings.clone(), checkpoint, topic.sources())?;
                    Some((follow, log))
                }
                Err(error @ control::Error::Gone { .. }) => {
                    tracing::error!(%error, "the checkpoint is of no use");
                    None
                }
                Err(error) => return Err(error.into()),
            }
        }
        None => None,
    };
    if let Some(opened) = opened {
        return Ok(opened);
    }
    let log = control::open(&setup.control(), None)?;
    let follow = Follow::at(settings, rules.clone(), log.position(), topic.sources())?;
    Ok((follow, log))
}

/// Tells the publisher when the loop stands still: a lease is not renewed for somebody who decides nothing.
fn watch(runtime: &tokio::runtime::Runtime, health: &Arc<Health>, publish: &etcd::Handle) {
    let (health, stalled) = (Arc::clone(health), publish.stalled());
    runtime.spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(250)).await;
            stalled.store(health.still_for() >= STILL, std::sync::atomic::Ordering::Relaxed);
        }
    });
}

fn rounds(mut cycle: Cycle, stop: &Receiver<()>, board: &Board) -> anyhow::Result<ExitCode> {
    let began = Instant::now();
    let mut ticked = 0;
    loop {
        let now_ms = i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX);
        match cycle.turn(now_ms)? {
            Turn::Busy if stop.try_recv().is_err() => {}
            Turn::Idle if stop.recv_timeout(REST).is_err() => {}
            Turn::Busy | Turn::Idle => {
                tracing::info!("stops");
                cycle.stop()?;
                return Ok(ExitCode::SUCCESS);
            }
            Turn::Ended(End::Fenced) => {
                tracing::warn!(
                    "another controller leads: this one ends, and starts anew from its checkpoint when it is started again"
                );
                cycle.stop()?;
                return Ok(ExitCode::from(5));
            }
            Turn::Ended(End::Expired(what)) => {
                tracing::error!(what, "records are gone");
                eprintln!("error: {what}");
                cycle.stop()?;
                return Ok(ExitCode::from(4));
            }
        }
        if now_ms - ticked >= TICK_MS {
            ticked = now_ms;
            board.tick();
        }
    }
}
