//! Readiness, time, retention.

use async_trait::async_trait;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::housekeeping::{Housekeeping, RetentionCutoffs};
use millstream_store::status_text;
use sqlx::PgPool;

use crate::connect::PostgresStore;
use crate::connection_cache::WarmConnections;
use crate::errors::PostgresResult;
use crate::execution_store::KeyColumns;

#[async_trait]
impl Housekeeping for PostgresStore {
    async fn ping(&self) -> StoreResult<Timestamp> {
        self.without_retries(write_time(&self.pool)).await
    }

    async fn purge_executions(&self, outlived: RetentionCutoffs, limit: usize) -> StoreResult<u64> {
        self.with_retries(|| purge_ended(&self.warm, outlived, limit)).await
    }

    async fn purge_keys(&self, before: Timestamp, limit: usize) -> StoreResult<u64> {
        const PURGE: &str = "
DELETE FROM idempotency_keys k
USING (
    SELECT i.tenant, i.key FROM idempotency_keys i
    WHERE i.created_at < $1
      AND NOT EXISTS (SELECT FROM events e WHERE e.tenant = i.tenant AND e.event_id = i.event_id)
      AND NOT EXISTS (SELECT FROM signals s WHERE s.tenant = i.tenant AND s.event_id = i.event_id)
    LIMIT $2
    FOR UPDATE SKIP LOCKED
) g
WHERE k.tenant = g.tenant AND k.key = g.key";
        self.with_retries(|| async {
            let query = sqlx::query(PURGE).bind(before.as_millis()).bind(rows(limit));
            Ok(query.execute(&self.pool).await?.rows_affected())
        })
        .await
    }

    async fn purge_runs(&self, outlived: RetentionCutoffs, limit: usize) -> StoreResult<u64> {
        // An ended run changes only by a retry, which locks its row.
        const PURGE: &str = "
WITH gone AS (
    SELECT r.tenant, r.run_id FROM runs r
    WHERE r.ended_at < greatest($1::bigint, $2)
      AND r.ended_at < CASE r.status WHEN 'completed' THEN $1 ELSE $2 END
    ORDER BY r.ended_at
    LIMIT $3
    FOR UPDATE SKIP LOCKED
), seats AS (
    DELETE FROM run_seats s USING gone g WHERE s.tenant = g.tenant AND s.run_id = g.run_id
), log AS (
    DELETE FROM run_log l USING gone g WHERE l.tenant = g.tenant AND l.run_id = g.run_id
)
DELETE FROM runs r USING gone g WHERE r.tenant = g.tenant AND r.run_id = g.run_id";
        self.with_retries(|| async {
            let query = sqlx::query(PURGE)
                .bind(outlived.completed.as_millis())
                .bind(outlived.failed.as_millis())
                .bind(rows(limit));
            Ok(query.execute(&self.pool).await?.rows_affected())
        })
        .await
    }

    async fn purge_workers(&self, before: Timestamp) -> StoreResult<u64> {
        const PURGE: &str = "
WITH external AS (
    DELETE FROM task_workers WHERE seen_at < $1
), expired AS (
    DELETE FROM signals WHERE expires_at < $1
)
DELETE FROM workers WHERE seen_at < $1";
        self.without_retries(async {
            Ok(sqlx::query(PURGE).bind(before.as_millis()).execute(&self.pool).await?.rows_affected())
        })
        .await
    }
}

fn rows(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Proves a primary that is not read-only: after a failover the old one must not count as ready. A real
/// commit of a new value: a server that is read-only, or whose disk takes no WAL, fails it.
async fn write_time(pool: &PgPool) -> PostgresResult<Timestamp> {
    const WRITE: &str = "
INSERT INTO settings (key, value)
VALUES ('pinged_at', floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint::text)
ON CONFLICT (key) DO UPDATE SET value = excluded.value
RETURNING floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    let now: i64 = sqlx::query_scalar(WRITE).fetch_one(pool).await?;
    Ok(Timestamp::from_millis(now))
}

/// An ended execution is removed with all of its rows. While an event for it is being accepted its row is
/// locked ([`crate::event_log`]), and it is skipped. An acceptance that committed after the snapshot of the
/// choice and before its lock is not visible to that snapshot: so the conditions are checked once more under
/// the locks, and only executions that still meet them are removed.
///
/// `OFFSET 0` keeps each condition a lookup per execution: as a join, a planner without statistics would read
/// all mailboxes.
async fn purge_ended(
    warm: &WarmConnections,
    outlived: RetentionCutoffs,
    limit: usize,
) -> PostgresResult<u64> {
    const CHOOSE: &str = status_text!(
        "
SELECT x.tenant, x.execution_id
FROM executions x
CROSS JOIN LATERAL (
    SELECT CASE x.phase WHEN 'completed' THEN $1::bigint WHEN 'failed' THEN $2 ELSE $3 END AS time
) kept
WHERE x.ended_at < greatest($1, $2, $3) AND x.ended_at < kept.time AND x.updated_at < kept.time
  AND NOT EXISTS (
    SELECT FROM actions a
    WHERE a.tenant = x.tenant AND a.execution_id = x.execution_id
      AND a.status NOT IN ({SETTLED_ACTIONS})
    OFFSET 0)
  AND NOT EXISTS (
    SELECT FROM mailbox m
    WHERE m.tenant = x.tenant AND m.execution_id = x.execution_id AND NOT m.deferred
    OFFSET 0)
ORDER BY x.ended_at
LIMIT $4
FOR UPDATE OF x SKIP LOCKED"
    );
    const RECHECK: &str = status_text!(
        "
SELECT k.tenant, k.execution_id
FROM unnest($1::text[], $2::text[]) AS k(tenant, execution_id)
WHERE NOT EXISTS (
    SELECT FROM actions a
    WHERE a.tenant = k.tenant AND a.execution_id = k.execution_id
      AND a.status NOT IN ({SETTLED_ACTIONS})
    OFFSET 0)
  AND NOT EXISTS (
    SELECT FROM mailbox m
    WHERE m.tenant = k.tenant AND m.execution_id = k.execution_id AND NOT m.deferred
    OFFSET 0)"
    );
    const DELETE: [&str; 13] = [
        "DELETE FROM executions r USING unnest($1::text[], $2::text[]) AS k(tenant, execution_id)
         WHERE r.tenant = k.tenant AND r.execution_id = k.execution_id",
        "DELETE FROM mailbox r USING unnest($1::text[], $2::text[]) AS k(tenant, execution_id)
         WHERE r.tenant = k.tenant AND r.execution_id = k.execution_id",
        "DELETE FROM events r USING unnest($1::text[], $2::text[]) AS k(tenant, execution_id)
         WHERE r.tenant || '' = k.tenant AND r.execution_id = k.execution_id",
        "DELETE FROM actions r USING unnest($1::text[], $2::text[]) AS k(tenant, execution_id)
         WHERE r.tenant = k.tenant AND r.execution_id = k.execution_id",
        "DELETE FROM timers r USING unnest($1::text[], $2::text[]) AS k(tenant, execution_id)
         WHERE r.tenant = k.tenant AND r.execution_id = k.execution_id",
        "DELETE FROM transitions r USING unnest($1::text[], $2::text[]) AS k(tenant, execution_id)
         WHERE r.tenant = k.tenant AND r.execution_id = k.execution_id",
        "DELETE FROM incidents r USING unnest($1::text[], $2::text[]) AS k(tenant, execution_id)
         WHERE r.tenant = k.tenant AND r.execution_id = k.execution_id",
        "DELETE FROM graphs r USING unnest($1::text[], $2::text[]) AS k(tenant, execution_id)
         WHERE r.tenant = k.tenant AND r.execution_id = k.execution_id",
        "DELETE FROM graph_nodes r USING unnest($1::text[], $2::text[]) AS k(tenant, execution_id)
         WHERE r.tenant = k.tenant AND r.execution_id = k.execution_id",
        "DELETE FROM graph_logs r USING unnest($1::text[], $2::text[]) AS k(tenant, execution_id)
         WHERE r.tenant = k.tenant AND r.execution_id = k.execution_id",
        "DELETE FROM graph_feed r USING unnest($1::text[], $2::text[]) AS k(tenant, execution_id)
         WHERE r.tenant = k.tenant AND r.execution_id = k.execution_id",
        "DELETE FROM outbox r USING unnest($1::text[], $2::text[]) AS k(tenant, execution_id)
         WHERE r.tenant = k.tenant AND r.execution_id = k.execution_id",
        "DELETE FROM decisions r USING unnest($1::text[], $2::text[]) AS k(tenant, execution_id)
         WHERE r.tenant = k.tenant AND r.execution_id = k.execution_id",
    ];
    let mut held = warm.hold_pooled().await?;
    let mut transaction = held.begin().await?;
    let choice = sqlx::query(CHOOSE)
        .bind(outlived.completed.as_millis())
        .bind(outlived.failed.as_millis())
        .bind(outlived.cancelled.as_millis())
        .bind(rows(limit));
    let rows = choice.fetch_all(&mut *transaction).await?;
    let locked = rows.iter().map(crate::decode::execution_key).collect::<PostgresResult<Vec<_>>>()?;
    let keys: KeyColumns<'_> = locked.iter().collect();
    let rows = keys.bound(RECHECK).fetch_all(&mut *transaction).await?;
    let executions = rows.iter().map(crate::decode::execution_key).collect::<PostgresResult<Vec<_>>>()?;
    if executions.is_empty() {
        transaction.rollback().await?;
        return Ok(0);
    }
    let keys: KeyColumns<'_> = executions.iter().collect();
    for statement in DELETE {
        keys.bound(statement).execute(&mut *transaction).await?;
    }
    transaction.commit().await?;
    Ok(u64::try_from(executions.len()).unwrap_or(u64::MAX))
}
