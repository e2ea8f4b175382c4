//! The edge on etcd: one task that keeps the table in step by list and watch, and the copy on the disk behind it.

use crate::snapshot::{self, Snapshot};
use crate::table::{Change, Status, Table};
use crate::watch::{Heard, Machine, Order};
use barrage_protocol::policy::Keys;
use etcd_client::{
    Client, ConnectOptions, Error, EventType, GetOptions, SortOrder, SortTarget, WatchOptions,
    WatchStream,
};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::time::timeout;

/// Longest wait for one answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest wait for an event before the machine is asked what to do.
const TURN: Duration = Duration::from_millis(100);
/// Keys in one page of a list.
const PAGE: i64 = 1_000;
/// Keys that are held at most.
const KEYS_MAX: usize = 400_000;
/// The copy is written at most so often.
const SAVE: Duration = Duration::from_secs(1);

/// What an edge is told.
#[derive(Clone)]
pub struct Settings {
    /// Name of the edge.
    pub edge: String,
    /// URLs of etcd.
    pub endpoints: Vec<String>,
    /// User and password of etcd; none: none.
    pub user: Option<(String, String)>,
    /// Name of the cluster.
    pub cluster: String,
    /// Number of the shard.
    pub shard: u32,
    /// Where the copy on the disk is; none: there is none.
    pub snapshot: Option<PathBuf>,
    /// What the waits between attempts are drawn from; different for every edge.
    pub seed: u64,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("edge", &self.edge)
            .field("endpoints", &self.endpoints)
            .field("cluster", &self.cluster)
            .field("shard", &self.shard)
            .field("snapshot", &self.snapshot)
            .finish_non_exhaustive()
    }
}

/// How often what happened.
#[derive(Debug, Default)]
pub struct Counters {
    /// Listings taken in.
    pub listings: AtomicU64,
    /// Watches opened.
    pub watches: AtomicU64,
    /// Attempts that failed.
    pub failures: AtomicU64,
    /// Batches after which the copy was not the one that the heartbeat tells of.
    pub wrong: AtomicU64,
    /// Copies written to the disk.
    pub saved: AtomicU64,
}

/// A running edge. Dropped, it ends; its table stays as it was.
pub struct Edge {
    table: Arc<Table>,
    began: Instant,
    counters: Arc<Counters>,
    task: tokio::task::JoinHandle<()>,
    stop: Arc<AtomicBool>,
}

impl Edge {
    /// Starts an edge on the present tokio runtime: what lies on the disk is in force when this returns, and the task
    /// goes on from there.
    #[must_use]
    pub fn start(settings: Settings) -> Self {
        let keys = Keys::new(&settings.cluster, settings.shard);
        let table = Arc::new(Table::new(keys.clone()));
        let (began, counters, stop) =
            (Instant::now(), Arc::<Counters>::default(), Arc::<AtomicBool>::default());
        let mut copy = BTreeMap::new();
        if let Some(path) = &settings.snapshot {
            match snapshot::load(path, wall_ms()) {
                Ok(Some(found)) => {
                    let changes: Vec<Change<'_>> = found
                        .entries
                        .iter()
                        .map(|(key, value)| Change { key, value: Some(value) })
                        .collect();
                    table.restore(&changes, 0);
                    copy = found.entries.into_iter().collect();
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(%error, path = %path.display(), "the copy on the disk cannot be read")
                }
            }
        }
        let task = Task {
            machine: Machine::new(settings.seed),
            table: Arc::clone(&table),
            counters: Arc::clone(&counters),
            stop: Arc::clone(&stop),
            copy: Mutex::new(copy),
            changed: None,
            keys,
            settings,
            began,
        };
        let task = tokio::spawn(task.run());
        Self { table, began, counters, task, stop }
    }

    /// The table, to be asked for verdicts.
    #[must_use]
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The monotonic clock that the table's answers go by, in milliseconds.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        millis(self.began)
    }

    /// How the table stands.
    #[must_use]
    pub fn status(&self) -> Status {
        self.table.status(self.now_ms())
    }

    /// How often what happened.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Ends the task after its present turn, with the copy written.
    pub async fn stop(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // A task that hangs does not keep us.
        let _ = timeout(PATIENCE * 2, &mut self.task).await;
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Task {
    settings: Settings,
    keys: Keys,
    machine: Machine,
    table: Arc<Table>,
    counters: Arc<Counters>,
    stop: Arc<AtomicBool>,
    /// Keys and values as last seen, for the disk.
    copy: Mutex<BTreeMap<String, Vec<u8>>>,
    /// Since when the copy differs from the disk's.
    changed: Option<Instant>,
    began: Instant,
}

impl Task {
    async fn run(mut self) {
        let mut client = None;
        let mut watch: Option<WatchStream> = None;
        while !self.stop.load(Ordering::Relaxed) {
            let order = self.machine.next(millis(self.began));
            match order {
                Order::Listen => {
                    self.listen(&mut watch).await;
                }
                Order::Ask => {
                    if let Some(stream) = &mut watch {
                        // Whether it was sent shows by the answer.
                        let _ = timeout(PATIENCE, stream.request_progress()).await;
                    }
                }
                Order::List | Order::Watch { .. } => {
                    if client.is_none() {
                        client = self.connect().await;
                    }
                    let done = match (&mut client, order) {
                        (None, _) => false,
                        (Some(client), Order::List) => self.list(client).await,
                        (Some(client), _) => {
                            watch = self.open(client).await;
                            watch.is_some()
                        }
                    };
                    if !done {
                        self.counters.failures.fetch_add(1, Ordering::Relaxed);
                        self.machine.heard(Heard::Failed, millis(self.began));
                        client = None;
                    }
                }
            }
            self.save(SAVE);
        }
        self.save(Duration::ZERO);
    }

    async fn connect(&self) -> Option<Client> {
        let mut options = ConnectOptions::new()
            .with_connect_timeout(PATIENCE)
            .with_keep_alive(Duration::from_secs(2), Duration::from_secs(1))
            .with_keep_alive_while_idle(true)
            .with_require_leader(true);
        if let Some((user, password)) = &self.settings.user {
            options = options.with_user(user, password);
        }
        let connecting = Client::connect(&self.settings.endpoints, Some(options));
        match timeout(PATIENCE, connecting).await {
            Ok(Ok(client)) => Some(client),
            Ok(Err(error)) => {
                tracing::debug!(%error, "etcd");
                None
            }
            Err(_) => None,
        }
    }

    async fn list(&mut self, client: &mut Client) -> bool {
        let Ok(Ok((all, revision))) = timeout(PATIENCE * 5, tree(client, self.keys.tree())).await
        else {
            return false;
        };
        let changes: Vec<Change<'_>> =
            all.iter().map(|(key, value)| Change { key, value: Some(value) }).collect();
        let now = millis(self.began);
        let applied = self.table.replace(&changes, now);
        for nack in &applied.refused {
            tracing::warn!(key = nack.key, what = nack.what, "a document was refused");
        }
        *self.copy.lock().unwrap_or_else(PoisonError::into_inner) = all;
        self.changed.get_or_insert_with(Instant::now);
        self.counters.listings.fetch_add(1, Ordering::Relaxed);
        self.machine.heard(Heard::Listed { revision }, now);
        true
    }

    async fn open(&mut self, client: &mut Client) -> Option<WatchStream> {
        let from = self.machine.revision() + 1;
        let options =
            WatchOptions::new().with_prefix().with_start_revision(from).with_progress_notify();
        self.counters.watches.fetch_add(1, Ordering::Relaxed);
        match timeout(PATIENCE, client.watch(self.keys.tree(), Some(options))).await {
            Ok(Ok(stream)) => Some(stream),
            _ => None,
        }
    }

    /// Takes in what the watch brings within a turn.
    async fn listen(&mut self, watch: &mut Option<WatchStream>) {
        let Some(stream) = watch else {
            tokio::time::sleep(TURN / 4).await;
            return;
        };
        let answer = match timeout(TURN, stream.message()).await {
            Err(_) => return,
            Ok(Ok(Some(answer))) => answer,
            Ok(Ok(None) | Err(_)) => {
                *watch = None;
                self.counters.failures.fetch_add(1, Ordering::Relaxed);
                self.machine.heard(Heard::Failed, millis(self.began));
                return;
            }
        };
        let now = millis(self.began);
        let revision = answer.header().map_or(0, etcd_client::ResponseHeader::revision);
        if answer.canceled() {
            let compacted = answer.compact_revision() > 0;
            self.machine.heard(if compacted { Heard::Compacted } else { Heard::Failed }, now);
            *watch = None;
        } else if answer.created() {
            self.machine.heard(Heard::Created { revision }, now);
        } else if answer.events().is_empty() {
            self.machine.heard(Heard::Alive, now);
        } else {
            self.take(answer.events(), now);
        }
    }

    fn take(&mut self, events: &[etcd_client::Event], now: u64) {
        let mut changes = Vec::with_capacity(events.len());
        let mut last = 0;
        for event in events {
            let Some(kv) = event.kv() else { continue };
            last = last.max(kv.mod_revision());
            let Ok(key) = kv.key_str() else { continue };
            let value = (event.event_type() == EventType::Put).then(|| kv.value());
            changes.push(Change { key, value });
        }
        let applied = self.table.apply(&changes, now);
        for nack in &applied.refused {
            tracing::warn!(key = nack.key, what = nack.what, "a document was refused");
        }
        let mut copy = self.copy.lock().unwrap_or_else(PoisonError::into_inner);
        for change in &changes {
            match change.value {
                Some(value) => copy.insert(change.key.to_owned(), value.to_vec()),
                None => copy.remove(change.key),
            };
        }
        drop(copy);
        self.changed.get_or_insert_with(Instant::now);
        self.machine.heard(Heard::Events { revision: last }, now);
        if applied.complete == Some(false) {
            self.counters.wrong.fetch_add(1, Ordering::Relaxed);
            self.machine.heard(Heard::Wrong, now);
        }
    }

    /// Writes the copy to the disk, not too often.
    fn save(&mut self, after: Duration) {
        let (Some(path), Some(since)) = (&self.settings.snapshot, self.changed) else { return };
        if since.elapsed() < after {
            return;
        }
        self.changed = None;
        let copy = self.copy.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = copy.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        match snapshot::save(path, &Snapshot { saved_ms: wall_ms(), entries }) {
            Ok(()) => {
                self.counters.saved.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                tracing::warn!(%error, path = %path.display(), "the copy cannot be written")
            }
        }
    }
}

/// Everything below a prefix as of one revision, and that revision.
async fn tree(
    client: &mut Client,
    prefix: &str,
) -> Result<(BTreeMap<String, Vec<u8>>, i64), Error> {
    let mut all = BTreeMap::new();
    let mut end = prefix.as_bytes().to_vec();
    // The prefix ends with `/`.
    if let Some(last) = end.last_mut() {
        *last = last.saturating_add(1);
    }
    let (mut from, mut revision) = (prefix.as_bytes().to_vec(), 0);
    loop {
        let mut options = GetOptions::new()
            .with_range(end.clone())
            .with_limit(PAGE)
            .with_sort(SortTarget::Key, SortOrder::Ascend);
        if revision > 0 {
            options = options.with_revision(revision);
        }
        let page = client.get(from.clone(), Some(options)).await?;
        if revision == 0 {
            revision = page.header().map_or(0, etcd_client::ResponseHeader::revision);
        }
        for kv in page.kvs() {
            all.insert(String::from_utf8_lossy(kv.key()).into_owned(), kv.value().to_vec());
        }
        match page.kvs().last() {
            Some(last) if page.more() && all.len() < KEYS_MAX => {
                from = last.key().to_vec();
                from.push(0);
            }
            _ => return Ok((all, revision)),
        }
    }
}

fn millis(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}

fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}
