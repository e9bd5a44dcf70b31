//! The outbox: feed entries that have not reached every sink yet.

use async_trait::async_trait;
use millstream_model::id::{ExecutionKey, Name};
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::outbox::{
    DeliveredParcel, FeedParcel, Outbox, ParcelBackoff, ParcelLimit, SinkBacklog, SinkPosition,
};
use sqlx::postgres::PgRow;
use sqlx::{PgPool, Row};

use crate::connect::PostgresStore;
use crate::connection_cache::WarmConnections;
use crate::errors::PostgresResult;
use crate::execution_store::KeyColumns;
use crate::{decode, feed};

#[async_trait]
impl Outbox for PostgresStore {
    async fn spread_entries(&self, sinks: &[Name], limit: usize, now: Timestamp) -> StoreResult<usize> {
        self.with_retries(|| spread_unmarked(&self.pool, sinks, limit, now)).await
    }

    async fn due_parcels(
        &self,
        sink: &Name,
        limit: ParcelLimit,
        now: Timestamp,
    ) -> StoreResult<Vec<FeedParcel>> {
        const READ: &str = "
SELECT w.tenant, w.execution_id, w.told, w.part, w.upto, w.attempts, f.position, f.first_seq, f.last_seq, f.body, f.at
FROM (SELECT o.* FROM outbox o WHERE o.sink = $1 AND o.due_at <= $2 ORDER BY o.due_at LIMIT $3) w
LEFT JOIN LATERAL (
    SELECT f.* FROM graph_feed f
    WHERE f.tenant = w.tenant AND f.execution_id = w.execution_id
      AND f.position > w.told AND f.position <= w.upto
    ORDER BY f.position LIMIT $4) f ON TRUE
ORDER BY w.due_at, w.execution_id, w.tenant, f.position";
        self.without_retries(async {
            let rows = sqlx::query(READ)
                .bind(sink.as_str())
                .bind(now.as_millis())
                .bind(i64::try_from(limit.executions).unwrap_or(i64::MAX))
                .bind(i64::try_from(limit.entries).unwrap_or(i64::MAX))
                .fetch_all(&self.pool)
                .await?;
            decode_parcels(&rows)
        })
        .await
    }

    async fn advance_sinks(
        &self,
        sink: &Name,
        parcels: &[DeliveredParcel],
        now: Timestamp,
    ) -> StoreResult<()> {
        if parcels.is_empty() {
            return Ok(());
        }
        self.with_retries(|| handed_over(&self.warm, sink, parcels, now)).await
    }

    async fn postpone_parcels(&self, sink: &Name, executions: &[ParcelBackoff]) -> StoreResult<()> {
        if executions.is_empty() {
            return Ok(());
        }
        self.with_retries(|| put_off(&self.warm, sink, executions)).await
    }

    async fn count_backlogs(&self) -> StoreResult<Vec<SinkBacklog>> {
        const READ: &str = "
SELECT o.sink, count(*) AS executions, sum(o.waiting)::bigint AS entries, min(o.since) AS oldest
FROM outbox o GROUP BY o.sink ORDER BY o.sink";
        self.without_retries(async {
            let rows = sqlx::query(READ).fetch_all(&self.pool).await?;
            rows.iter().map(decode_backlog).collect()
        })
        .await
    }
}

/// Entries are locked in their order: of two concurrent spreads the second finds the entries of the first
/// marked, and notes later entries afterwards.
async fn spread_unmarked(
    pool: &PgPool,
    sinks: &[Name],
    limit: usize,
    now: Timestamp,
) -> PostgresResult<usize> {
    const SPREAD: &str = "
WITH taken AS MATERIALIZED (
    SELECT f.ctid AS place, f.position, f.tenant, f.execution_id, f.at
    FROM graph_feed f WHERE NOT f.published ORDER BY f.position LIMIT $1
    FOR NO KEY UPDATE
), marked AS (
    UPDATE graph_feed f SET published = TRUE FROM taken t WHERE f.ctid = t.place
), noted AS (
    INSERT INTO outbox (sink, tenant, execution_id, told, part, upto, waiting, since, due_at, attempts)
    SELECT s.sink, t.tenant, t.execution_id, min(t.position) - 1, 0, max(t.position), count(*), min(t.at), $3, 0
    FROM taken t CROSS JOIN unnest($2::text[]) AS s(sink)
    GROUP BY t.execution_id, t.tenant, s.sink
    ORDER BY t.execution_id, t.tenant, s.sink
    ON CONFLICT (execution_id, tenant, sink) DO UPDATE SET
        upto = greatest(outbox.upto, excluded.upto), waiting = outbox.waiting + excluded.waiting
)
SELECT count(*) AS spread FROM taken";
    let row = sqlx::query(SPREAD)
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .bind(sinks.iter().map(Name::as_str).collect::<Vec<_>>())
        .bind(now.as_millis())
        .fetch_one(pool)
        .await?;
    let spread: i64 = row.try_get("spread")?;
    Ok(usize::try_from(spread).unwrap_or_default())
}

/// In the order of their keys. A statement of its own: the next one sees concurrent notes, which a single
/// statement would treat as missing rows.
const LOCK: &str = "
SELECT o.told
FROM (SELECT * FROM unnest($1::text[], $2::text[]) AS u(tenant, execution_id)
      ORDER BY u.execution_id COLLATE \"C\", u.tenant COLLATE \"C\") k
CROSS JOIN LATERAL (
    SELECT o.told FROM outbox o
    WHERE o.tenant = k.tenant AND o.execution_id = k.execution_id AND o.sink = $3
    FOR UPDATE) o";

async fn handed_over(
    warm: &WarmConnections,
    sink: &Name,
    parcels: &[DeliveredParcel],
    now: Timestamp,
) -> PostgresResult<()> {
    const ADVANCE: &str = "
UPDATE outbox o
SET told = k.told, part = k.part, waiting = greatest(o.waiting - k.entries, 0), since = k.at, due_at = $10,
    attempts = 0
FROM unnest($1::text[], $2::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
            $9::bigint[])
    AS k(tenant, execution_id, was_told, was_part, told, part, entries, at)
WHERE o.tenant = k.tenant AND o.execution_id = k.execution_id AND o.sink = $3
  AND o.told = k.was_told AND o.part = k.was_part";
    const CLOSE: &str = "
DELETE FROM outbox o USING unnest($1::text[], $2::text[]) AS k(tenant, execution_id)
WHERE o.tenant = k.tenant AND o.execution_id = k.execution_id AND o.sink = $3 AND o.told >= o.upto";
    let keys: KeyColumns<'_> = parcels.iter().map(|parcel| &parcel.execution).collect();
    let entries = parcels.iter().map(|parcel| i64::try_from(parcel.entries).unwrap_or(i64::MAX));
    let mut held = warm.hold_pooled().await?;
    let mut transaction = held.begin().await?;
    keys.bound(LOCK).bind(sink.as_str()).execute(&mut *transaction).await?;
    keys.bound(ADVANCE)
        .bind(sink.as_str())
        .bind(parcels.iter().map(|parcel| parcel.from.position).collect::<Vec<_>>())
        .bind(parcels.iter().map(|parcel| i64::from(parcel.from.part)).collect::<Vec<_>>())
        .bind(parcels.iter().map(|parcel| parcel.to.position).collect::<Vec<_>>())
        .bind(parcels.iter().map(|parcel| i64::from(parcel.to.part)).collect::<Vec<_>>())
        .bind(entries.collect::<Vec<_>>())
        .bind(parcels.iter().map(|parcel| parcel.at.as_millis()).collect::<Vec<_>>())
        .bind(now.as_millis())
        .execute(&mut *transaction)
        .await?;
    keys.bound(CLOSE).bind(sink.as_str()).execute(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(())
}

async fn put_off(warm: &WarmConnections, sink: &Name, executions: &[ParcelBackoff]) -> PostgresResult<()> {
    const PUT_OFF: &str = "
UPDATE outbox o SET due_at = k.until, attempts = k.attempts
FROM unnest($1::text[], $2::text[], $4::bigint[], $5::bigint[]) AS k(tenant, execution_id, until, attempts)
WHERE o.tenant = k.tenant AND o.execution_id = k.execution_id AND o.sink = $3";
    let keys: KeyColumns<'_> = executions.iter().map(|one| &one.execution).collect();
    let mut held = warm.hold_pooled().await?;
    let mut transaction = held.begin().await?;
    keys.bound(LOCK).bind(sink.as_str()).execute(&mut *transaction).await?;
    keys.bound(PUT_OFF)
        .bind(sink.as_str())
        .bind(executions.iter().map(|one| one.until.as_millis()).collect::<Vec<_>>())
        .bind(executions.iter().map(|one| i64::from(one.attempts)).collect::<Vec<_>>())
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await?;
    Ok(())
}

/// One row per entry; one without an entry for an execution whose entries are gone.
fn decode_parcels(rows: &[PgRow]) -> PostgresResult<Vec<FeedParcel>> {
    let mut parcels: Vec<FeedParcel> = Vec::new();
    for row in rows {
        let execution: ExecutionKey = decode::execution_key(row)?;
        if parcels.last().is_none_or(|last| last.execution != execution) {
            parcels.push(FeedParcel {
                execution,
                heard: SinkPosition { position: row.try_get("told")?, part: decode::number(row, "part")? },
                upto: row.try_get("upto")?,
                attempts: decode::number(row, "attempts")?,
                entries: Vec::new(),
            });
        }
        let position: Option<i64> = row.try_get("position")?;
        if let (Some(parcel), Some(_)) = (parcels.last_mut(), position) {
            parcel.entries.push(feed::decode_entry(row)?);
        }
    }
    Ok(parcels)
}

fn decode_backlog(row: &PgRow) -> PostgresResult<SinkBacklog> {
    let count = |column: &str| -> PostgresResult<u64> {
        let count: i64 = row.try_get(column)?;
        Ok(u64::try_from(count).unwrap_or_default())
    };
    Ok(SinkBacklog {
        sink: decode::parsed(row, "sink")?,
        executions: count("executions")?,
        entries: count("entries")?,
        oldest: decode::time(row, "oldest")?,
    })
}
