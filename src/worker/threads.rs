//! Timely's threads: started, woken, told to end; joined by a thread of their own.

use super::{Fault, LOOK};
use barrage_dataflows::command::Command;
use barrage_dataflows::report::{Outlet, Report};
use barrage_dataflows::view::Latest;
use barrage_dataflows::{Setup, build};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use timely::scheduling::SyncActivator;
use timely::worker::Worker;

/// Commands that may wait at one worker.
const COMMANDS: usize = 1_024;

/// Reports that may wait at the host.
const REPORTS: usize = 4_096;

/// The threads, and both ends of their channels that are ours.
#[derive(Debug)]
pub(super) struct Threads {
    commands: Vec<SyncSender<Command>>,
    wakes: Vec<SyncActivator>,
    pub(super) reports: Receiver<Report>,
    /// A worker panicked.
    fallen: Arc<AtomicBool>,
    /// The workers are to drop everything and end.
    cancelled: Arc<AtomicBool>,
    supervisor: Option<JoinHandle<bool>>,
}

/// What each worker's closure takes its part from.
struct Parts {
    setup: Setup,
    commands: Mutex<Vec<Option<Receiver<Command>>>>,
    wakes: Mutex<SyncSender<(usize, SyncActivator)>>,
    reports: SyncSender<Report>,
    latest: Latest,
    fallen: Arc<AtomicBool>,
    cancelled: Arc<AtomicBool>,
}

impl Threads {
    pub(super) fn start(workers: usize, setup: Setup, latest: Latest) -> Result<Self, Fault> {
        let (commands, receivers): (Vec<_>, Vec<_>) =
            (0..workers).map(|_| sync_channel(COMMANDS)).unzip();
        let (reports, received) = sync_channel(REPORTS);
        let (wake, wakes) = sync_channel(workers);
        let fallen = Arc::new(AtomicBool::new(false));
        let cancelled = Arc::new(AtomicBool::new(false));
        let parts = Parts {
            setup,
            commands: Mutex::new(receivers.into_iter().map(Some).collect()),
            wakes: Mutex::new(wake),
            reports,
            latest,
            fallen: Arc::clone(&fallen),
            cancelled: Arc::clone(&cancelled),
        };
        // Guards join when dropped, so a thread of its own holds them: no caller ever waits by accident.
        let supervisor = std::thread::Builder::new()
            .name("dataflow".to_owned())
            .spawn(move || supervise(workers, parts))
            .map_err(|e| Fault::Start(e.to_string()))?;
        let mut started: Vec<(usize, SyncActivator)> = Vec::with_capacity(workers);
        while started.len() < workers {
            match wakes.recv_timeout(LOOK) {
                Ok(wake) => started.push(wake),
                Err(RecvTimeoutError::Timeout) if !fallen.load(Ordering::Acquire) => {}
                Err(_) => {
                    let why = "a worker ended before its graph stood";
                    return Err(Fault::Start(why.to_owned()));
                }
            }
        }
        started.sort_by_key(|(worker, _)| *worker);
        let wakes = started.into_iter().map(|(_, wake)| wake).collect();
        let supervisor = Some(supervisor);
        Ok(Self { commands, wakes, reports: received, fallen, cancelled, supervisor })
    }

    pub(super) fn workers(&self) -> usize {
        self.commands.len()
    }

    /// Sends a command and wakes the worker, or hands it back (and wakes the worker all the same).
    pub(super) fn try_send(
        &self,
        worker: usize,
        command: Command,
    ) -> Result<(), TrySendError<Command>> {
        let sent = self.commands[worker].try_send(command);
        // Fails only when the worker is gone, which the channels tell.
        let _ = self.wakes[worker].activate();
        sent
    }

    /// Whether a worker panicked.
    pub(super) fn fallen(&self) -> bool {
        self.fallen.load(Ordering::Acquire)
    }

    /// Tells all workers to drop everything and end, without waiting for them.
    pub(super) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        for wake in &self.wakes {
            let _ = wake.activate();
        }
    }

    /// Waits for the end of all threads; call it only when they are ending.
    pub(super) fn join(&mut self) -> Result<(), Fault> {
        let clean = self.supervisor.take().is_none_or(|s| s.join().unwrap_or(false));
        if clean { Ok(()) } else { Err(Fault::Panicked) }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // Not joined: dropping a host must never wait.
        self.cancel();
    }
}

/// Runs the workers to their end; true: none panicked.
fn supervise(workers: usize, parts: Parts) -> bool {
    let config = match workers {
        1 => timely::Config::thread(),
        n => timely::Config::process(n),
    };
    let run = timely::execute(config, move |worker| work(worker, &parts));
    match run {
        Ok(guards) => guards.join().into_iter().all(|end| end.is_ok()),
        Err(_) => false,
    }
}

/// One worker: builds its graph and steps it until it has ended or is told to.
fn work(worker: &mut Worker, parts: &Parts) {
    let index = worker.index();
    let outlet = Outlet::new(index, parts.reports.clone(), Arc::clone(&parts.fallen));
    let taken = parts.commands.lock().unwrap_or_else(PoisonError::into_inner)[index].take();
    let Some(commands) = taken else { return };
    let wake = build(worker, &parts.setup, commands, &outlet, &parts.latest);
    let sender = parts.wakes.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let _ = sender.send((index, wake));
    while worker.has_dataflows() {
        if parts.cancelled.load(Ordering::Acquire) {
            for dataflow in worker.installed_dataflows() {
                worker.drop_dataflow(dataflow);
            }
            return;
        }
        worker.step_or_park(None);
    }
}
