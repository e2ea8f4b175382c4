//! Reading the audit log: the newest decisions, one by its id, checkpoints; and letting old days go.

use super::super::store::Kept;
use super::{Error, connect, within};
use barrage_protocol::decision::{Decision, Id};
use barrage_protocol::ids::Slot;
use sqlx::postgres::PgRow;
use sqlx::{Connection as _, Row as _};
use std::time::Duration;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(15);

/// Most rows of one answer.
const ROWS_MAX: u32 = 10_000;

/// A place in the log, after which to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// Slot of the last decision seen.
    pub slot: Slot,
    /// Its id.
    pub id: Id,
}

impl Cursor {
    /// Before the first decision of a slot.
    #[must_use]
    pub fn before(slot: Slot) -> Self {
        Self { slot, id: Id([0; 16]) }
    }
}

/// A decision as it was recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The decision.
    pub decision: Decision,
    /// The same byte for byte as it was hashed.
    pub canonical: String,
    /// Leader term.
    pub epoch: u64,
    /// Who wrote it.
    pub instance: String,
    /// Revision of etcd when it was recorded.
    pub revision: u64,
    /// Wall clock of the controller, milliseconds since 1970.
    pub recorded_ms: i64,
    /// Wall clock of Postgres, milliseconds since 1970.
    pub written_ms: i64,
}

/// A row that this version cannot read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Its id.
    pub id: String,
    /// Why.
    pub why: String,
}

/// Instants come as milliseconds, and as nothing where they are infinite.
const COLUMNS: &str = "
SELECT decision_id::text, canonical, epoch, instance, revision,
    CASE WHEN isfinite(recorded_at) THEN (extract(epoch FROM recorded_at) * 1000)::bigint END,
    CASE WHEN isfinite(written_at) THEN (extract(epoch FROM written_at) * 1000)::bigint END, content_hash
FROM decision ";

/// Decisions after `since`, oldest first; without it the newest ones, also oldest first. At most `limit`, at most
/// 10,000. A row that cannot be read is an error of its own and stops nothing.
///
/// # Errors
/// When Postgres cannot be reached or refuses.
pub async fn tail(
    url: &str,
    since: Option<Cursor>,
    limit: u32,
) -> Result<Vec<Result<Row, Unreadable>>, Error> {
    let limit = i64::from(limit.min(ROWS_MAX));
    within(PATIENCE, async {
        let mut connection = connect(url, PATIENCE).await?;
        let rows = match since {
            Some(Cursor { slot, id }) => {
                let slot = i64::try_from(slot.0.min(1_000_000_000_000)).unwrap_or(i64::MAX);
                let after = "WHERE slot_ts >= timestamptz 'epoch' + $1 * interval '100 milliseconds'
                    AND (slot, decision_id) > ($1, $2::uuid) ORDER BY slot_ts, decision_id LIMIT $3";
                let query = sqlx::query(sqlx::AssertSqlSafe(format!("{COLUMNS}{after}")));
                let query = query.bind(slot).bind(id.to_string()).bind(limit);
                query.fetch_all(&mut connection).await?
            }
            None => {
                let newest = "ORDER BY slot_ts DESC, decision_id DESC LIMIT $1";
                let query = sqlx::query(sqlx::AssertSqlSafe(format!("{COLUMNS}{newest}")));
                let mut rows = query.bind(limit).fetch_all(&mut connection).await?;
                rows.reverse();
                rows
            }
        };
        let _closed = connection.close().await;
        Ok(rows.iter().map(read).collect())
    })
    .await
}

/// One decision by its id; none if it was never recorded or its day is gone.
///
/// # Errors
/// When Postgres cannot be reached or refuses.
pub async fn get(url: &str, id: Id) -> Result<Option<Result<Row, Unreadable>>, Error> {
    within(PATIENCE, async {
        let mut connection = connect(url, PATIENCE).await?;
        let query = format!("{COLUMNS} WHERE decision_id = $1::uuid");
        let query = sqlx::query(sqlx::AssertSqlSafe(query)).bind(id.to_string());
        let row = query.fetch_optional(&mut connection).await?;
        let _closed = connection.close().await;
        Ok(row.as_ref().map(read))
    })
    .await
}

fn read(row: &PgRow) -> Result<Row, Unreadable> {
    let id: String = row.try_get(0).unwrap_or_default();
    columns(row).map_err(|why| Unreadable { id, why })
}

fn columns(row: &PgRow) -> Result<Row, String> {
    let told = |e: sqlx::Error| e.to_string();
    let canonical: String = row.try_get(1).map_err(told)?;
    let hash: Vec<u8> = row.try_get(7).map_err(told)?;
    if *blake3::hash(canonical.as_bytes()).as_bytes() != *hash {
        return Err("its content is not what was hashed".to_owned());
    }
    let time = |at: usize, name: &str| match row.try_get::<Option<i64>, _>(at) {
        Ok(ms) => ms.ok_or_else(|| format!("{name} is no finite time")),
        Err(e) => Err(e.to_string()),
    };
    let number = |at: usize| row.try_get::<i64, _>(at).map(|n| u64::try_from(n).unwrap_or(0));
    Ok(Row {
        decision: serde_json::from_str(&canonical)
            .map_err(|e| format!("a decision of another version: {e}"))?,
        epoch: number(2).map_err(told)?,
        instance: row.try_get(3).map_err(told)?,
        revision: number(4).map_err(told)?,
        recorded_ms: time(5, "recorded_at")?,
        written_ms: time(6, "written_at")?,
        canonical,
    })
}

/// The newest whole checkpoint of a shard.
///
/// # Errors
/// When Postgres cannot be reached or refuses.
pub async fn newest_checkpoint(url: &str, shard: u32) -> Result<Option<Kept>, Error> {
    within(PATIENCE, async {
        let mut connection = connect(url, PATIENCE).await?;
        let mut found = None;
        // One at a time: they are large, and the newest will do unless it is damaged.
        for nth in 0..3_i64 {
            let row = sqlx::query(
                "SELECT epoch, slot, body, body_hash FROM checkpoint WHERE shard = $1
                 ORDER BY epoch DESC, slot DESC OFFSET $2 LIMIT 1",
            )
            .bind(i32::try_from(shard).unwrap_or(i32::MAX))
            .bind(nth)
            .fetch_optional(&mut connection)
            .await?;
            let Some(row) = row else { break };
            let number =
                |at: usize| row.try_get::<i64, _>(at).map(|n| u64::try_from(n).unwrap_or(0));
            let (epoch, slot) = (number(0)?, Slot(number(1)?));
            let (bytes, hash): (Vec<u8>, Vec<u8>) = (row.try_get(2)?, row.try_get(3)?);
            if *blake3::hash(&bytes).as_bytes() == *hash {
                found = Some(Kept { epoch, slot, bytes });
                break;
            }
            tracing::warn!(
                epoch,
                slot = slot.0,
                "a checkpoint in Postgres is damaged and is not used"
            );
        }
        let _closed = connection.close().await;
        Ok(found)
    })
    .await
}

/// Drops the whole days (UTC) that ended more than `days` days ago, by the login that owns the tables. Returns how many.
///
/// # Errors
/// When Postgres cannot be reached or refuses.
pub async fn retain(url: &str, days: u32) -> Result<u32, Error> {
    within(PATIENCE, async {
        let mut connection = connect(url, PATIENCE).await?;
        let days = i32::try_from(days.min(100_000)).unwrap_or(i32::MAX);
        // Writers wait behind this lock, so that it must not wait long itself.
        sqlx::query("SELECT set_config('lock_timeout', '5s', false)")
            .execute(&mut connection)
            .await?;
        let row = sqlx::query("SELECT decision_retain((now() AT TIME ZONE 'UTC')::date - $1)")
            .bind(days)
            .fetch_one(&mut connection)
            .await?;
        let dropped: i32 = row.try_get(0)?;
        let _closed = connection.close().await;
        Ok(u32::try_from(dropped).unwrap_or(0))
    })
    .await
}
