//! The one fenced writer on etcd: it stands for election, keeps its lease, writes the plan in fenced transactions, and
//! finds out what became of those whose answer was lost.
//!
//! * [`spawn`] starts it; [`Handle`] is its door; [`client`]: how to reach etcd, lists, levels.
//! * `term`: from the campaign to the end of a term; `write`: transactions and their outcomes.

pub mod client;
mod term;
mod write;

pub use client::{Settings, epoch, leader, levels, list};

use super::plan::Plan;
use barrage_engine::rules::RuleSet;
use barrage_protocol::decision::Decision;
use barrage_protocol::ids::{Level, Slot};
use barrage_protocol::policy::Heartbeat;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;

/// Commands that may wait: a slot's decisions are one.
const COMMANDS: usize = 65_536;
/// Events that may wait.
const EVENTS: usize = 65_536;

/// What it is told.
#[derive(Debug)]
pub enum Command {
    /// The levels known, of rooms above normal. Nothing is written before they are told.
    Levels(BTreeMap<String, Level>),
    /// Decisions of a slot, which are final and recorded.
    Decisions(Slot, Vec<Decision>),
    /// Slots up to this one are decided.
    Slot(Slot),
    /// A rule set comes into force.
    Rules(Arc<RuleSet>, Slot),
    /// Nothing new can be decided at present; edges keep what they have.
    Frozen(bool),
    /// Leads under this epoch from now on: the `lead` of the control log was read back.
    Begin {
        /// The epoch.
        epoch: u64,
    },
    /// The dataflow stands still: the lease is not renewed.
    Stalled(bool),
    /// Gives the leadership up and ends.
    Resign,
}

/// What it tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The election is won; [`Command::Begin`] is awaited.
    Leading {
        /// Create revision of the leader's key.
        create_revision: u64,
        /// The last heartbeat that anybody wrote.
        published: Option<Heartbeat>,
    },
    /// The leadership is lost: the lease ran out, or the key is gone. It stands for election again.
    Lost,
    /// Everything decided up to this slot stands in etcd.
    Published(Slot),
    /// Somebody of a higher epoch has written: this controller must end.
    Fenced,
    /// Something that a person should see.
    Alarm(String),
}

/// How it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Whether it holds the leader's key, as far as it knows.
    pub leads: bool,
    /// The epoch it writes under; 0: none.
    pub epoch: u64,
    /// Revision of etcd last seen.
    pub revision: u64,
    /// Keys that wait to be written.
    pub waiting: usize,
    /// Rooms off their default in etcd.
    pub keys: usize,
    /// Transactions that were taken.
    pub taken: u64,
    /// Transactions refused because somebody else leads or wrote.
    pub fenced: u64,
    /// Transactions whose answer was lost.
    pub unknown: u64,
    /// Other failures.
    pub failed: u64,
    /// Events that nobody fetched in time.
    pub unheard: u64,
}

/// The running publisher. Dropped, it ends without a word: the lease runs out by itself.
pub struct Handle {
    commands: mpsc::Sender<Command>,
    events: mpsc::Receiver<Event>,
    status: Arc<Mutex<Status>>,
    stalled: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<()>,
}

/// Starts the publisher on a runtime. It stands for election at once.
#[must_use]
pub fn spawn(
    runtime: &tokio::runtime::Handle,
    settings: Settings,
    rules: Arc<RuleSet>,
    slot: Slot,
) -> Handle {
    let (commands, taken) = mpsc::channel(COMMANDS);
    let (told, events) = mpsc::channel(EVENTS);
    let status = Arc::<Mutex<Status>>::default();
    let stalled = Arc::<AtomicBool>::default();
    let plan = Plan::new(settings.keys(), 0, rules, slot);
    let task =
        term::Task::new(settings, plan, taken, told, Arc::clone(&status), Arc::clone(&stalled));
    let task = runtime.spawn(task.run());
    Handle { commands, events, status, stalled, task }
}

impl Handle {
    /// Tells it something. False if it has ended, or does not keep up.
    pub fn send(&self, command: Command) -> bool {
        if let Command::Stalled(stalled) = command {
            // Beside the queue: whoever stands still may have filled it.
            self.stalled.store(stalled, Ordering::Relaxed);
            return true;
        }
        self.commands.try_send(command).is_ok()
    }

    /// Whether the dataflow stands still, to be told by who watches it.
    #[must_use]
    pub fn stalled(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stalled)
    }

    /// The next event, if there is one.
    pub fn event(&mut self) -> Option<Event> {
        self.events.try_recv().ok()
    }

    /// The next event; none when the publisher has ended.
    pub async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// How it stands.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.task.is_finished()
    }

    /// Ends it at once, as a crash would.
    pub fn abort(&self) {
        self.task.abort();
    }
}
