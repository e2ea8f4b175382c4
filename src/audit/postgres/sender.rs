//! The sender: spool to Postgres, batch by batch, for as long as it takes; a row that will never do is set aside.

use super::super::ledger::{Checkpoint, Ledger};
use super::super::reader::{Place, Reader};
use super::super::rows::{DecisionRow, Rows, day};
use super::super::{Settings, aside, item};
use super::{Trouble, as_writer, checkpoint, connect, insert};
use rand::Rng as _;
use sqlx::Connection as _;
use sqlx::postgres::PgConnection;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Most bytes of spooled records in a batch.
const BATCH_BYTES: usize = 4 << 20;

/// How often an idle connection is tried.
const IDLE: Duration = Duration::from_secs(10);

/// How often partitions are made ahead, and for how many days.
const AHEAD: (Duration, i64) = (Duration::from_secs(3_600), 3);

/// Days known to have a partition; past this, they are asked for again.
const DAYS_MAX: usize = 4_096;

/// Attempts at a checkpoint, with a connection that works.
const TRIES_MAX: u32 = 5;

/// If that many rows are refused and no other is taken, it is not the rows.
const REFUSED_MIN: usize = 8;

/// The sender's state.
pub(in crate::audit) struct Sender {
    settings: Settings,
    shard: i32,
    reader: Reader,
    ledger: Arc<Ledger>,
    connection: Option<PgConnection>,
    /// Kept until it is committed, also by a turn that is cut short.
    batch: Option<Arc<Batch>>,
    /// Everything before is in Postgres.
    sent: Place,
    days: BTreeSet<i64>,
    ahead: Option<Instant>,
    failures: u32,
    /// Attempts at the checkpoint at hand.
    tries: u32,
}

struct Batch {
    rows: Rows,
    /// After its last record.
    upto: Place,
    oldest_ms: Option<i64>,
}

/// Tells when the sender has fallen: nobody else would.
struct Ending(Arc<Ledger>);

impl Drop for Ending {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.stats.connected = false;
        if std::thread::panicking() {
            state.stats.trouble = Some("the sender's thread has fallen".to_owned());
        }
    }
}

impl Sender {
    pub(in crate::audit) fn new(settings: Settings, reader: Reader, ledger: Arc<Ledger>) -> Self {
        Self {
            shard: i32::try_from(settings.shard).unwrap_or(i32::MAX),
            settings,
            reader,
            ledger,
            connection: None,
            batch: None,
            sent: Place::default(),
            days: BTreeSet::new(),
            ahead: None,
            failures: 0,
            tries: 0,
        }
    }

    /// Runs until told to stop.
    pub(in crate::audit) async fn run(mut self) {
        let _ending = Ending(Arc::clone(&self.ledger));
        loop {
            let (ended, stop_at) = {
                let state = self.ledger.lock();
                (state.ended, state.stop_at)
            };
            self.fill();
            let idle = self.batch.is_none() && self.ledger.lock().checkpoint.is_none();
            if stop_at.is_some_and(|at| Instant::now() >= at || (ended && idle)) {
                break;
            }
            if idle && self.connection.is_some() {
                let _woken = tokio::time::timeout(IDLE, self.ledger.wake.notified()).await;
                let woken = !self.is_idle();
                if woken {
                    continue;
                }
            }
            match self.turn_in_time(stop_at).await {
                Ok(()) => self.well(),
                Err(why) => self.trouble(why).await,
            }
        }
        if let Some(connection) = self.connection.take() {
            let _closed = tokio::time::timeout(Duration::from_secs(1), connection.close()).await;
        }
        self.reader.clear(self.sent);
    }

    /// Whether there is nothing to send and nobody waits for the end.
    fn is_idle(&mut self) -> bool {
        self.fill();
        let state = self.ledger.lock();
        self.batch.is_none() && state.checkpoint.is_none() && state.stop_at.is_none()
    }

    /// Reads the next batch from the spool, if none is at hand.
    fn fill(&mut self) {
        if self.batch.is_some() {
            return;
        }
        let mut rows = Rows::default();
        let mut bytes = 0;
        let mut oldest_ms = None;
        while rows.len() < self.settings.batch_rows && bytes < BATCH_BYTES {
            let payload = match self.reader.next() {
                Ok(Some(payload)) => payload,
                Ok(None) => break,
                Err(e) => {
                    tracing::error!(error = %e, "the audit spool cannot be read");
                    break;
                }
            };
            bytes += payload.len();
            match item::decode(&payload) {
                Ok(item) => {
                    oldest_ms = oldest_ms.or(Some(item.envelope().recorded_ms));
                    rows.add(&item);
                }
                Err(why) => rows.refused.push(super::super::rows::Refused {
                    why,
                    what: String::from_utf8_lossy(&payload).into_owned(),
                    envelope: None,
                }),
            }
        }
        if bytes > 0 {
            self.batch = Some(Arc::new(Batch { rows, upto: self.reader.place(), oldest_ms }));
        }
        self.ledger.lock().stats.oldest_ms = oldest_ms;
    }

    async fn turn_in_time(&mut self, stop_at: Option<Instant>) -> Result<(), String> {
        let mut patience = self.settings.patience;
        if let Some(at) = stop_at {
            patience = patience.min(at.saturating_duration_since(Instant::now()));
        }
        match tokio::time::timeout(patience, self.turn()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(Trouble::Outage(why) | Trouble::Rows(why))) => Err(why),
            Ok(Err(Trouble::Partition)) => Err("a day has no partition".to_owned()),
            Err(_) => Err(format!("Postgres gave no answer within {} s", patience.as_secs_f32())),
        }
    }

    /// Does what there is to do, once.
    async fn turn(&mut self) -> Result<(), Trouble> {
        let fresh = self.connection.is_none();
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        // Only a turn that ends well gives its connection back: one that was cut short is in no known state.
        if self.ahead.is_none_or(|at| at.elapsed() >= AHEAD.0) {
            self.make_ahead(&mut connection).await?;
        } else if !fresh && self.batch.is_none() {
            connection.ping().await?;
        }
        if let Some(batch) = self.batch.clone() {
            let refused = self.write(&mut connection, &batch.rows).await?;
            self.done(&batch, &refused);
            self.batch = None;
        }
        let checkpoint = self.ledger.lock().checkpoint.clone();
        if let Some(checkpoint) = checkpoint {
            self.save(&mut connection, &checkpoint).await?;
        }
        self.connection = Some(connection);
        Ok(())
    }

    async fn connect(&mut self) -> Result<PgConnection, Trouble> {
        let outage = |e: super::Error| Trouble::Outage(e.to_string());
        let mut connection =
            connect(&self.settings.url, self.settings.patience).await.map_err(outage)?;
        as_writer(&mut connection).await.map_err(outage)?;
        self.days.clear();
        self.ahead = None;
        Ok(connection)
    }

    async fn make_ahead(&mut self, connection: &mut PgConnection) -> Result<(), Trouble> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let today = i64::try_from(now.as_secs() / 86_400).unwrap_or_default();
        let days: Vec<i64> = (today - 1..=today + AHEAD.1).collect();
        insert::partitions(connection, &days).await?;
        self.days.extend(days);
        self.ahead = Some(Instant::now());
        Ok(())
    }

    async fn save(
        &mut self,
        connection: &mut PgConnection,
        checkpoint: &Checkpoint,
    ) -> Result<(), Trouble> {
        self.tries += 1;
        // One that Postgres cannot take within its time must not hold up the decisions behind it for ever.
        let taken = if self.tries > TRIES_MAX {
            tracing::error!(slot = checkpoint.slot.0, "gave up a checkpoint for Postgres");
            false
        } else {
            match checkpoint::save(connection, self.shard, checkpoint).await {
                Err(Trouble::Rows(why)) => {
                    tracing::error!(
                        why,
                        slot = checkpoint.slot.0,
                        "Postgres cannot hold a checkpoint"
                    );
                    false
                }
                other => other?,
            }
        };
        self.tries = 0;
        let mut state = self.ledger.lock();
        // A newer one may have come meanwhile.
        let same = |c: &Checkpoint| (c.epoch, c.slot) == (checkpoint.epoch, checkpoint.slot);
        if state.checkpoint.as_ref().is_some_and(same) {
            state.checkpoint = None;
        }
        if taken {
            state.stats.checkpoint = Some(checkpoint.slot);
        } else {
            state.stats.checkpoints_fenced += 1;
        }
        Ok(())
    }

    /// Writes rows; returns those that will never do, with the reason.
    async fn write(
        &mut self,
        connection: &mut PgConnection,
        rows: &Rows,
    ) -> Result<Vec<(usize, String)>, Trouble> {
        let mut refused = self.make_partitions(connection, &rows.decisions).await?;
        if refused.is_empty() {
            match insert::rows(connection, self.shard, rows).await {
                Ok(tally) => {
                    self.count(tally);
                    return Ok(refused);
                }
                Err(Trouble::Rows(_)) => {}
                Err(other) => {
                    // A partition may have been dropped since: ask again.
                    self.days.clear();
                    return Err(other);
                }
            }
        }
        let taken = self.piecewise(connection, rows, &mut refused).await?;
        if taken == 0 && refused.len() >= REFUSED_MIN {
            let why = refused.pop().map(|(_, why)| why).unwrap_or_default();
            return Err(Trouble::Outage(format!("every row is refused, the last one: {why}")));
        }
        Ok(refused)
    }

    /// Writes what can be written, by halves down to single rows. Returns how many rows were taken.
    async fn piecewise(
        &mut self,
        connection: &mut PgConnection,
        rows: &Rows,
        refused: &mut Vec<(usize, String)>,
    ) -> Result<usize, Trouble> {
        let gone: BTreeSet<usize> = refused.iter().map(|(i, _)| *i).collect();
        let indices: Vec<usize> = (0..rows.len()).filter(|i| !gone.contains(i)).collect();
        let mut taken = 0;
        let mut left = vec![indices];
        while let Some(part) = left.pop() {
            match insert::rows(connection, self.shard, &some(rows, &part)).await {
                Ok(tally) => {
                    self.count(tally);
                    taken += part.len();
                }
                Err(Trouble::Rows(why)) => match part.as_slice() {
                    [] => {}
                    [one] => refused.push((*one, why)),
                    more => {
                        let (a, b) = more.split_at(more.len() / 2);
                        left.push(b.to_vec());
                        left.push(a.to_vec());
                    }
                },
                Err(other) => return Err(other),
            }
        }
        Ok(taken)
    }

    /// Makes the partitions that these rows need; returns the rows whose day can have none.
    async fn make_partitions(
        &mut self,
        connection: &mut PgConnection,
        rows: &[DecisionRow],
    ) -> Result<Vec<(usize, String)>, Trouble> {
        if self.days.len() > DAYS_MAX {
            self.days.clear();
        }
        let needed: BTreeSet<i64> = rows.iter().map(|r| day(r.slot)).collect();
        let mut refused = Vec::new();
        for day_needed in needed.difference(&self.days.clone()) {
            match insert::partitions(connection, &[*day_needed]).await {
                Ok(()) => {
                    self.days.insert(*day_needed);
                }
                Err(Trouble::Rows(why)) => {
                    let here = rows.iter().enumerate().filter(|(_, r)| day(r.slot) == *day_needed);
                    refused.extend(here.map(|(i, _)| (i, why.clone())));
                }
                Err(other) => return Err(other),
            }
        }
        Ok(refused)
    }

    fn count(&self, tally: insert::Tally) {
        let mut state = self.ledger.lock();
        state.stats.written += tally.written;
        state.stats.repeated += tally.repeated;
        state.stats.divergent += tally.divergent;
    }

    /// A batch is in Postgres, or set aside: its records can go.
    fn done(&mut self, batch: &Batch, refused: &[(usize, String)]) {
        let mut all = batch.rows.refused.clone();
        for (index, why) in refused {
            let what = match batch.rows.decisions.get(*index) {
                Some(row) => row.canonical.clone(),
                None => {
                    let other =
                        batch.rows.others.get(index.saturating_sub(batch.rows.decisions.len()));
                    format!("{other:?}")
                }
            };
            all.push(super::super::rows::Refused { why: why.clone(), what, envelope: None });
        }
        let kept = aside::keep(&self.settings.folder, &all).unwrap_or_else(|e| {
            tracing::error!(error = %e, "rows cannot be set aside");
            0
        });
        self.sent = batch.upto;
        self.reader.sent(batch.upto);
        let mut state = self.ledger.lock();
        state.stats.repaired += batch.rows.repaired;
        state.stats.aside += kept;
        state.stats.aside_lost += all.len() as u64 - kept;
        state.stats.batches += 1;
        state.stats.oldest_ms = None;
    }

    fn well(&mut self) {
        self.failures = 0;
        let mut state = self.ledger.lock();
        if !std::mem::replace(&mut state.stats.connected, true) {
            tracing::info!("the audit database answers");
        }
        state.stats.trouble = None;
    }

    /// Notes what is wrong and waits before the next attempt, not past the time to stop.
    async fn trouble(&mut self, why: String) {
        self.connection = None;
        self.failures += 1;
        let (first, most) = self.settings.backoff;
        let bound = first.saturating_mul(1 << self.failures.min(16)).min(most);
        let wait = rand::rng().random_range(first.min(most)..=bound.max(first.min(most)));
        let stop_at = {
            let mut state = self.ledger.lock();
            state.stats.outages += 1;
            if std::mem::replace(&mut state.stats.connected, false) || self.failures == 1 {
                tracing::warn!(why, "the audit database is away; decisions are spooled");
            }
            state.stats.oldest_ms = self.batch.as_ref().and_then(|b| b.oldest_ms);
            state.stats.trouble = Some(why);
            state.stop_at
        };
        let until = Instant::now() + wait;
        let until = stop_at.map_or(until, |at| until.min(at));
        // Woken by new records too, which change nothing; only the end is worth waking for.
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let woken = tokio::time::timeout(left, self.ledger.wake.notified()).await.is_ok();
            if woken && stop_at.is_none() && self.ledger.lock().stop_at.is_some() {
                return;
            }
        }
    }
}

/// Some rows, by their place: decisions first, then the others.
fn some(rows: &Rows, places: &[usize]) -> Rows {
    let split = rows.decisions.len();
    let mut part = Rows::default();
    for place in places {
        match place.checked_sub(split) {
            None => part.decisions.extend(rows.decisions.get(*place).cloned()),
            Some(other) => part.others.extend(rows.others.get(other).cloned()),
        }
    }
    part
}
