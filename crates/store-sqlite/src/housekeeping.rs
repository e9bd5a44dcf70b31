//! Readiness, time and retention.

use std::time::{SystemTime, UNIX_EPOCH};

use millstream_core::id::ExecutionKey;
use millstream_core::time::Timestamp;
use millstream_store::housekeeping::{Housekeeping, Outlived};
use millstream_store::{Result, StoreError};
use sqlx::SqliteConnection;

use crate::connect::SqliteStore;
use crate::decode::Fields;
use crate::errors::store_error;
use crate::param::{self, ExecutionParam};

#[async_trait::async_trait]
impl Housekeeping for SqliteStore {
    async fn ping(&self) -> Result<Timestamp> {
        // A real commit of a new value: in WAL mode nothing reaches the disk before a commit, and an
        // update that changes nothing does not even reach a page.
        const PING: &str = "
            INSERT INTO settings (key, value) VALUES ('pinged_at', ?1)
            ON CONFLICT (key) DO UPDATE SET value = excluded.value";
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_err(|error| StoreError::Unavailable(format!("the clock is before 1970: {error}")))?;
        let now = Timestamp::EPOCH.plus(since);
        let mut tx = self.write().await?;
        sqlx::query(PING).bind(now.as_millis().to_string()).execute(&mut *tx).await.map_err(store_error)?;
        tx.commit().await.map_err(store_error)?;
        Ok(now)
    }

    async fn purge_executions(&self, outlived: Outlived, limit: usize) -> Result<u64> {
        let mut tx = self.write().await?;
        let ended = find_ended(&mut tx, outlived, limit).await?;
        if ended.is_empty() {
            return Ok(0);
        }
        let keys = param::rows(ended.iter().map(ExecutionParam::of))?;
        let removed = remove_executions(&mut tx, &keys).await?;
        tx.commit().await.map_err(store_error)?;
        Ok(removed)
    }

    async fn purge_keys(&self, before: Timestamp, limit: usize) -> Result<u64> {
        const PURGE_KEYS: &str = "
            DELETE FROM idempotency_keys WHERE (tenant, key) IN (
                SELECT k.tenant, k.key FROM idempotency_keys AS k
                WHERE k.created_at < ?1 AND NOT EXISTS (
                    SELECT 1 FROM events AS e WHERE e.tenant = k.tenant AND e.event_id = k.event_id)
                ORDER BY k.created_at LIMIT ?2)";
        let mut tx = self.write().await?;
        let purged = sqlx::query(PURGE_KEYS)
            .bind(before.as_millis())
            .bind(param::limit(limit))
            .execute(&mut *tx)
            .await
            .map_err(store_error)?;
        tx.commit().await.map_err(store_error)?;
        Ok(purged.rows_affected())
    }

    async fn purge_workers(&self, before: Timestamp) -> Result<u64> {
        const PURGE_WORKERS: &str = "DELETE FROM workers WHERE seen_at < ?1";
        let mut tx = self.write().await?;
        let purged = sqlx::query(PURGE_WORKERS)
            .bind(before.as_millis())
            .execute(&mut *tx)
            .await
            .map_err(store_error)?;
        tx.commit().await.map_err(store_error)?;
        Ok(purged.rows_affected())
    }
}

async fn find_ended(
    connection: &mut SqliteConnection,
    outlived: Outlived,
    limit: usize,
) -> Result<Vec<ExecutionKey>> {
    const FIND_ENDED: &str = "
        SELECT x.tenant, x.execution_id FROM executions AS x
        WHERE x.ended_at < max(?1, ?2, ?3) AND x.ended_at IS NOT NULL
          AND max(x.ended_at, x.updated_at)
              < CASE x.phase WHEN 'completed' THEN ?1 WHEN 'failed' THEN ?2 ELSE ?3 END
          AND NOT EXISTS (
              SELECT 1 FROM actions AS a
              WHERE a.tenant = x.tenant AND a.execution_id = x.execution_id
                AND a.status IN ('waiting', 'ready', 'leased'))
          AND NOT EXISTS (
              SELECT 1 FROM events AS e INDEXED BY events_mailbox
              WHERE e.tenant = x.tenant AND e.execution_id = x.execution_id
                AND e.status IN ('pending', 'deferred') AND e.status = 'pending')
        ORDER BY x.ended_at
        LIMIT ?4";
    let rows = sqlx::query(FIND_ENDED)
        .bind(outlived.completed.as_millis())
        .bind(outlived.failed.as_millis())
        .bind(outlived.cancelled.as_millis())
        .bind(param::limit(limit))
        .fetch_all(connection)
        .await
        .map_err(store_error)?;
    rows.iter().map(|row| Fields(row).execution()).collect()
}

/// Everything that belongs to these executions, together. Returns how many there were.
async fn remove_executions(connection: &mut SqliteConnection, keys: &str) -> Result<u64> {
    const REMOVE: [&str; 6] = [
        "DELETE FROM events WHERE (tenant, execution_id) IN
             (SELECT value ->> 'tenant', value ->> 'execution' FROM json_each(?1))",
        "DELETE FROM transitions WHERE (tenant, execution_id) IN
             (SELECT value ->> 'tenant', value ->> 'execution' FROM json_each(?1))",
        "DELETE FROM actions WHERE (tenant, execution_id) IN
             (SELECT value ->> 'tenant', value ->> 'execution' FROM json_each(?1))",
        "DELETE FROM timers WHERE (tenant, execution_id) IN
             (SELECT value ->> 'tenant', value ->> 'execution' FROM json_each(?1))",
        "DELETE FROM decisions WHERE (tenant, execution_id) IN
             (SELECT value ->> 'tenant', value ->> 'execution' FROM json_each(?1))",
        "DELETE FROM executions WHERE (tenant, execution_id) IN
             (SELECT value ->> 'tenant', value ->> 'execution' FROM json_each(?1))",
    ];
    let mut removed = 0;
    for statement in REMOVE {
        let done = sqlx::query(statement).bind(keys).execute(&mut *connection).await.map_err(store_error)?;
        removed = done.rows_affected();
    }
    Ok(removed)
}
