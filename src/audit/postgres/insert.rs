//! Writing rows: one statement for the decisions of a batch, content compared for those that were there already.

use super::super::rows::{By, DecisionRow, Divergence, Other, Rows};
use super::Trouble;
use barrage_protocol::decision::Id;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{Connection as _, Row as _};
use std::collections::BTreeMap;

/// What became of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::audit) struct Tally {
    /// Decisions that became rows.
    pub(in crate::audit) written: u64,
    /// Decisions that were rows already.
    pub(in crate::audit) repeated: u64,
    /// Decisions that were rows with another content, not noted before.
    pub(in crate::audit) divergent: u64,
}

/// Slots have no place in SQL but as instants; an interval times a slot number is exact.
const DECISIONS: &str = "
INSERT INTO decision (slot_ts, slot, decision_id, shard, scope, subject, room, class, kind, rule, rule_version, mode,
    from_state, to_state, level_from, level_to, actor, rules_hash, prev_id, evidence, offsets, canonical,
    content_hash, trace_id, epoch, instance, revision, recorded_at)
SELECT timestamptz 'epoch' + slot * interval '100 milliseconds', slot, id::uuid, $1, scope, subject,
    CASE scope WHEN 'room' THEN subject END, class, kind, rule, rule_version, mode, from_state, to_state,
    CASE WHEN kind = 'level' AND from_state ~ '^[0-9]{1,4}$' THEN from_state::smallint END,
    CASE WHEN kind = 'level' AND to_state ~ '^[0-9]{1,4}$' THEN to_state::smallint END,
    actor, rules_hash, prev::uuid, evidence::jsonb, offsets::jsonb, canonical, hash, replace(id, '-', ''),
    epoch, instance, revision, timestamptz 'epoch' + recorded * interval '1 millisecond'
FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::bigint[],
    $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[], $16::text[], $17::text[],
    $18::text[], $19::bytea[], $20::bigint[], $21::text[], $22::bigint[], $23::bigint[])
    AS r(slot, id, scope, subject, class, kind, rule, rule_version, mode, from_state, to_state, actor, rules_hash,
        prev, evidence, offsets, canonical, hash, epoch, instance, revision, recorded)
ON CONFLICT DO NOTHING RETURNING decision_id::text, content_hash";

const THERE: &str = "
SELECT d.decision_id::text, d.content_hash, d.canonical
FROM unnest($1::bigint[], $2::text[]) AS r(slot, id)
JOIN decision d ON d.slot_ts = timestamptz 'epoch' + r.slot * interval '100 milliseconds'
    AND d.decision_id = r.id::uuid";

/// Writes all of it, or nothing.
pub(super) async fn rows(
    connection: &mut PgConnection,
    shard: i32,
    rows: &Rows,
) -> Result<Tally, Trouble> {
    let mut transaction = connection.begin().await?;
    let mut tally = Tally::default();
    if !rows.decisions.is_empty() {
        tally = decisions(&mut transaction, shard, &rows.decisions).await?;
    }
    for row in &rows.others {
        other(&mut transaction, shard, row).await?;
    }
    transaction.commit().await?;
    Ok(tally)
}

async fn decisions(
    connection: &mut PgConnection,
    shard: i32,
    rows: &[DecisionRow],
) -> Result<Tally, Trouble> {
    let mut there = BTreeMap::new();
    for row in insert(connection, shard, rows).await? {
        let (id, hash) = id_and_hash(&row)?;
        there.insert(id, (hash, None));
    }
    let mut tally = Tally { written: there.len() as u64, ..Tally::default() };
    let others: Vec<&DecisionRow> = rows.iter().filter(|r| !there.contains_key(&r.id)).collect();
    if !others.is_empty() {
        let slots: Vec<i64> = others.iter().map(|r| r.slot).collect();
        let ids: Vec<String> = others.iter().map(|r| r.id.to_string()).collect();
        for row in sqlx::query(THERE).bind(slots).bind(ids).fetch_all(&mut *connection).await? {
            let (id, hash) = id_and_hash(&row)?;
            there.insert(id, (hash, Some(row.try_get::<String, _>(2)?)));
        }
    }
    // Every row, those just written too: one batch may hold two contents under one id.
    let mut same = 0;
    for row in rows {
        let Some((hash, theirs)) = there.get(&row.id) else {
            return Err(Trouble::Outage(format!("decision {} is neither new nor there", row.id)));
        };
        if hash[..] == row.hash {
            same += 1;
            continue;
        }
        let first = || rows.iter().find(|r| hash[..] == r.hash).map(|r| r.canonical.clone());
        let row = Divergence {
            kind: "content",
            slot: row.slot,
            id: Some(row.id),
            ours: Some(row.canonical.clone()),
            theirs: theirs.clone().or_else(first),
            decisions: 0,
            detail: "one decision id with two contents".to_owned(),
            by: row.by.clone(),
        };
        tally.divergent += divergence(connection, shard, &row).await?;
    }
    tally.repeated = same - tally.written;
    Ok(tally)
}

fn id_and_hash(row: &PgRow) -> Result<(Id, Vec<u8>), Trouble> {
    let id: String = row.try_get(0)?;
    let id = id.parse().map_err(Trouble::Outage)?;
    Ok((id, row.try_get(1)?))
}

async fn insert(
    connection: &mut PgConnection,
    shard: i32,
    rows: &[DecisionRow],
) -> Result<Vec<PgRow>, sqlx::Error> {
    let text =
        |of: fn(&DecisionRow) -> &str| rows.iter().map(|r| of(r).to_owned()).collect::<Vec<_>>();
    let number = |of: fn(&DecisionRow) -> i64| rows.iter().map(of).collect::<Vec<_>>();
    sqlx::query(DECISIONS)
        .bind(shard)
        .bind(number(|r| r.slot))
        .bind(rows.iter().map(|r| r.id.to_string()).collect::<Vec<_>>())
        .bind(text(|r| &r.scope))
        .bind(text(|r| &r.subject))
        .bind(rows.iter().map(|r| r.class.clone()).collect::<Vec<_>>())
        .bind(text(|r| &r.kind))
        .bind(text(|r| &r.rule))
        .bind(number(|r| r.rule_version))
        .bind(text(|r| &r.mode))
        .bind(text(|r| &r.from))
        .bind(text(|r| &r.to))
        .bind(text(|r| &r.actor))
        .bind(text(|r| &r.rules_hash))
        .bind(rows.iter().map(|r| r.prev.map(|id| id.to_string())).collect::<Vec<_>>())
        .bind(text(|r| &r.evidence))
        .bind(text(|r| &r.offsets))
        .bind(text(|r| &r.canonical))
        .bind(rows.iter().map(|r| r.hash.to_vec()).collect::<Vec<_>>())
        .bind(number(|r| r.by.epoch))
        .bind(text(|r| &r.by.instance))
        .bind(number(|r| r.by.revision))
        .bind(number(|r| r.by.recorded_ms))
        .fetch_all(connection)
        .await
}

const EPOCH: &str = "
INSERT INTO controller_epoch (epoch, instance, recorded_at, shard, from_slot, slot_ts)
VALUES ($1, $2, timestamptz 'epoch' + $3 * interval '1 millisecond', $4, $5,
    CASE WHEN $5 > 0 THEN timestamptz 'epoch' + $5 * interval '100 milliseconds' END)
ON CONFLICT DO NOTHING";

const CONTROL: &str = "
INSERT INTO control_record (epoch, instance, recorded_at, shard, from_slot, slot_ts, seq, n, kind, body)
VALUES ($1, $2, timestamptz 'epoch' + $3 * interval '1 millisecond', $4, $5,
    timestamptz 'epoch' + $5 * interval '100 milliseconds', $6, $7, $8, $9::jsonb)
ON CONFLICT DO NOTHING";

const RULES: &str = "
INSERT INTO rule_version (epoch, instance, recorded_at, shard, from_slot, slot_ts, rules_hash, body)
VALUES ($1, $2, timestamptz 'epoch' + $3 * interval '1 millisecond', $4, $5,
    timestamptz 'epoch' + $5 * interval '100 milliseconds', $6, $7)
ON CONFLICT DO NOTHING";

const OVERRIDE: &str = "
INSERT INTO override_log (epoch, instance, recorded_at, shard, from_slot, slot_ts, key, kind, subject, actor, body)
VALUES ($1, $2, timestamptz 'epoch' + $3 * interval '1 millisecond', $4, $5,
    timestamptz 'epoch' + $5 * interval '100 milliseconds', $4 || '.' || $6, $7, $8, $9, $10::jsonb)
ON CONFLICT DO NOTHING";

const DIVERGENCE: &str = "
INSERT INTO divergence (epoch, instance, recorded_at, shard, slot, slot_ts, key, kind, decision_id, ours, theirs,
    decisions, detail)
VALUES ($1, $2, timestamptz 'epoch' + $3 * interval '1 millisecond', $4, $5,
    timestamptz 'epoch' + $5 * interval '100 milliseconds', $6, $7, $8::uuid, $9, $10, $11, $12)
ON CONFLICT DO NOTHING";

type Query = sqlx::query::Query<'static, sqlx::Postgres, sqlx::postgres::PgArguments>;

/// A statement with what all rows begin with.
fn begun(statement: &'static str, by: &By, shard: i32, slot: i64) -> Query {
    sqlx::query(statement)
        .bind(by.epoch)
        .bind(by.instance.clone())
        .bind(by.recorded_ms)
        .bind(shard)
        .bind(slot)
}

async fn other(connection: &mut PgConnection, shard: i32, row: &Other) -> Result<(), Trouble> {
    let query = match row {
        Other::Divergence(row) => return divergence(connection, shard, row).await.map(|_| ()),
        Other::Epoch { slot, by } => begun(EPOCH, by, shard, *slot),
        Other::Control { seq, n, kind, from, body, by } => begun(CONTROL, by, shard, *from)
            .bind(*seq)
            .bind(*n)
            .bind(kind.clone())
            .bind(body.clone()),
        Other::Rules { hash, body, from, by } => {
            begun(RULES, by, shard, *from).bind(hash.clone()).bind(body.clone())
        }
        Other::Override { key, kind, subject, actor, from, body, by } => {
            begun(OVERRIDE, by, shard, *from)
                .bind(key.clone())
                .bind(kind.clone())
                .bind(subject.clone())
                .bind(actor.clone())
                .bind(body.clone())
        }
    };
    query.execute(connection).await?;
    Ok(())
}

/// Notes a divergence; 0 if it is noted already.
async fn divergence(
    connection: &mut PgConnection,
    shard: i32,
    row: &Divergence,
) -> Result<u64, Trouble> {
    tracing::error!(kind = row.kind, slot = row.slot, detail = row.detail, "the audit diverges");
    let query = begun(DIVERGENCE, &row.by, shard, row.slot)
        .bind(row.key())
        .bind(row.kind)
        .bind(row.id.map(|id| id.to_string()))
        .bind(row.ours.clone())
        .bind(row.theirs.clone())
        .bind(row.decisions)
        .bind(row.detail.clone());
    Ok(query.execute(connection).await?.rows_affected())
}

/// Makes partitions for these days since 1970 where there are none.
pub(super) async fn partitions(connection: &mut PgConnection, days: &[i64]) -> Result<(), Trouble> {
    sqlx::query(
        "SELECT decision_partitions(array(SELECT date '1970-01-01' + d::integer FROM unnest($1::bigint[]) AS r(d)))",
    )
    .bind(days.to_vec())
    .execute(connection)
    .await?;
    Ok(())
}
