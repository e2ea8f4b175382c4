//! Checkpoints in Postgres, for standbys that come later: three a shard, none from a term that is over.

use super::super::ledger::Checkpoint;
use super::Trouble;
use sqlx::postgres::PgConnection;
use sqlx::{Connection as _, Row as _};

/// Writes a checkpoint, unless a later term writes already. Returns whether it was taken.
pub(super) async fn save(
    connection: &mut PgConnection,
    shard: i32,
    checkpoint: &Checkpoint,
) -> Result<bool, Trouble> {
    let number = |n: u64| i64::try_from(n).map_err(|_| Trouble::Rows(format!("{n} is too large")));
    let (epoch, slot) = (number(checkpoint.epoch)?, number(checkpoint.slot.0)?);
    let mut transaction = connection.begin().await?;
    let taken = sqlx::query(
        "INSERT INTO checkpoint (shard, epoch, slot, body, body_hash, instance, recorded_at)
         SELECT $1, $2, $3, $4, $5, $6, timestamptz 'epoch' + $7 * interval '1 millisecond'
         WHERE NOT EXISTS (SELECT FROM controller_epoch WHERE shard = $1 AND epoch > $2)
           AND NOT EXISTS (SELECT FROM checkpoint WHERE shard = $1 AND epoch > $2)
         ON CONFLICT DO NOTHING RETURNING 1",
    )
    .bind(shard)
    .bind(epoch)
    .bind(slot)
    .bind(&checkpoint.bytes[..])
    .bind(&blake3::hash(&checkpoint.bytes).as_bytes()[..])
    .bind(&*checkpoint.instance)
    .bind(checkpoint.recorded_ms)
    .fetch_optional(&mut *transaction)
    .await?;
    // The same one, sent again, is there.
    let there = sqlx::query(
        "SELECT EXISTS (SELECT FROM checkpoint WHERE shard = $1 AND epoch = $2 AND slot = $3)",
    )
    .bind(shard)
    .bind(epoch)
    .bind(slot)
    .fetch_one(&mut *transaction)
    .await?;
    sqlx::query(
        "DELETE FROM checkpoint WHERE shard = $1 AND (epoch, slot) NOT IN
         (SELECT epoch, slot FROM checkpoint WHERE shard = $1 ORDER BY epoch DESC, slot DESC LIMIT 3)",
    )
    .bind(shard)
    .execute(&mut *transaction)
    .await?;
    transaction.commit().await?;
    Ok(taken.is_some() || there.try_get(0)?)
}
