//! Readiness, time and retention.

use std::time::{SystemTime, UNIX_EPOCH};

use millstream_model::id::{ExecutionKey, RunKey};
use millstream_model::time::Timestamp;
use millstream_store::housekeeping::{Housekeeping, RetentionCutoffs};
use millstream_store::{StoreError, StoreResult};
use rusqlite::Connection;

use crate::connect::SqliteStore;
use crate::decode::SqliteFields;
use crate::errors::SqliteResult;
use crate::param;

#[async_trait::async_trait]
impl Housekeeping for SqliteStore {
    async fn ping(&self) -> StoreResult<Timestamp> {
        // A real commit of a new value: in WAL mode nothing reaches the disk before a commit, and an update
        // that changes nothing does not even reach a page.
        const PING: &str = "
            INSERT INTO settings (key, value) VALUES ('pinged_at', ?1)
            ON CONFLICT (key) DO UPDATE SET value = excluded.value";
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_err(|error| StoreError::Unavailable(format!("the clock is before 1970: {error}")))?;
        let now = Timestamp::EPOCH.plus(since);
        self.write_transaction(move |connection| {
            connection.prepare_cached(PING)?.execute([now.as_millis().to_string()])?;
            Ok(now)
        })
        .await
    }

    async fn purge_executions(&self, outlived: RetentionCutoffs, limit: usize) -> StoreResult<u64> {
        self.write_transaction(move |connection| {
            let ended = find_ended(connection, outlived, limit)?;
            let removed = ended.iter().map(|key| remove_execution(connection, key));
            Ok(removed.sum::<SqliteResult<usize>>()? as u64)
        })
        .await
    }

    async fn purge_keys(&self, before: Timestamp, limit: usize) -> StoreResult<u64> {
        const PURGE_KEYS: &str = "
            DELETE FROM idempotency_keys WHERE (tenant, key) IN (
                SELECT k.tenant, k.key FROM idempotency_keys AS k
                WHERE k.created_at < ?1 AND NOT EXISTS (
                    SELECT 1 FROM events AS e WHERE e.tenant = k.tenant AND e.event_id = k.event_id)
                  AND NOT EXISTS (
                    SELECT 1 FROM signals AS s WHERE s.tenant = k.tenant AND s.event_id = k.event_id)
                ORDER BY k.created_at LIMIT ?2)";
        self.write_transaction(move |connection| {
            let purged =
                connection.prepare_cached(PURGE_KEYS)?.execute((before.as_millis(), param::limit(limit)))?;
            Ok(purged as u64)
        })
        .await
    }

    async fn purge_runs(&self, outlived: RetentionCutoffs, limit: usize) -> StoreResult<u64> {
        self.write_transaction(move |connection| {
            let ended = find_ended_runs(connection, outlived, limit)?;
            let removed = ended.iter().map(|key| remove_run(connection, key));
            Ok(removed.sum::<SqliteResult<usize>>()? as u64)
        })
        .await
    }

    async fn purge_workers(&self, before: Timestamp) -> StoreResult<u64> {
        const PURGE_WORKERS: &str = "DELETE FROM workers WHERE seen_at < ?1";
        const PURGE_TASK_WORKERS: &str = "DELETE FROM task_workers WHERE seen_at < ?1";
        const PURGE_SIGNALS: &str = "DELETE FROM signals WHERE expires_at < ?1";
        self.write_transaction(move |connection| {
            let purge = |statement| connection.prepare_cached(statement)?.execute([before.as_millis()]);
            let purged = purge(PURGE_WORKERS)?;
            purge(PURGE_TASK_WORKERS)?;
            purge(PURGE_SIGNALS)?;
            Ok(purged as u64)
        })
        .await
    }
}

fn find_ended(
    connection: &Connection,
    outlived: RetentionCutoffs,
    limit: usize,
) -> SqliteResult<Vec<ExecutionKey>> {
    const FIND_ENDED: &str = "
        SELECT x.tenant, x.execution_id FROM executions AS x
        WHERE x.ended_at < max(?1, ?2, ?3) AND x.ended_at IS NOT NULL
          AND max(x.ended_at, x.updated_at)
              < CASE x.phase WHEN 'completed' THEN ?1 WHEN 'failed' THEN ?2 ELSE ?3 END
          AND NOT EXISTS (
              SELECT 1 FROM actions AS a
              WHERE a.tenant = x.tenant AND a.execution_id = x.execution_id
                AND a.settled_at IS NULL)
          AND NOT EXISTS (
              SELECT 1 FROM mailbox AS m
              WHERE m.tenant = x.tenant AND m.execution_id = x.execution_id AND m.deferred = 0)
        ORDER BY x.ended_at
        LIMIT ?4";
    let mut find = connection.prepare_cached(FIND_ENDED)?;
    let mut rows = find.query((
        outlived.completed.as_millis(),
        outlived.failed.as_millis(),
        outlived.cancelled.as_millis(),
        param::limit(limit),
    ))?;
    let mut ended = Vec::new();
    while let Some(row) = rows.next()? {
        ended.push(SqliteFields(row).execution()?);
    }
    Ok(ended)
}

fn find_ended_runs(
    connection: &Connection,
    outlived: RetentionCutoffs,
    limit: usize,
) -> SqliteResult<Vec<RunKey>> {
    const FIND_ENDED: &str = "
        SELECT tenant, run_id FROM runs
        WHERE ended_at < max(?1, ?2) AND ended_at IS NOT NULL
          AND ended_at < CASE status WHEN 'completed' THEN ?1 ELSE ?2 END
        ORDER BY ended_at
        LIMIT ?3";
    let mut find = connection.prepare_cached(FIND_ENDED)?;
    let (completed, failed) = (outlived.completed.as_millis(), outlived.failed.as_millis());
    let mut rows = find.query((completed, failed, param::limit(limit)))?;
    let mut ended = Vec::new();
    while let Some(row) = rows.next()? {
        ended.push(SqliteFields(row).run_key()?);
    }
    Ok(ended)
}

/// Removes a run with its seats and its log. Returns how many runs there were.
fn remove_run(connection: &Connection, key: &RunKey) -> SqliteResult<usize> {
    const REMOVE: [&str; 3] = [
        "DELETE FROM run_seats WHERE tenant = ?1 AND run_id = ?2",
        "DELETE FROM run_log WHERE tenant = ?1 AND run_id = ?2",
        "DELETE FROM runs WHERE tenant = ?1 AND run_id = ?2",
    ];
    let mut removed = 0;
    for statement in REMOVE {
        removed = connection.prepare_cached(statement)?.execute((key.tenant.as_str(), key.run.as_str()))?;
    }
    Ok(removed)
}

/// Removes all rows of an execution. Returns how many executions there were.
fn remove_execution(connection: &Connection, key: &ExecutionKey) -> SqliteResult<usize> {
    const REMOVE: [&str; 13] = [
        "DELETE FROM events WHERE tenant = ?1 AND execution_id = ?2",
        "DELETE FROM mailbox WHERE tenant = ?1 AND execution_id = ?2",
        "DELETE FROM transitions WHERE tenant = ?1 AND execution_id = ?2",
        "DELETE FROM actions WHERE tenant = ?1 AND execution_id = ?2",
        "DELETE FROM timers WHERE tenant = ?1 AND execution_id = ?2",
        "DELETE FROM decisions WHERE tenant = ?1 AND execution_id = ?2",
        "DELETE FROM incidents WHERE tenant = ?1 AND execution_id = ?2",
        "DELETE FROM graphs WHERE tenant = ?1 AND execution_id = ?2",
        "DELETE FROM graph_nodes WHERE tenant = ?1 AND execution_id = ?2",
        "DELETE FROM graph_logs WHERE tenant = ?1 AND execution_id = ?2",
        "DELETE FROM graph_feed WHERE tenant = ?1 AND execution_id = ?2",
        "DELETE FROM outbox WHERE tenant = ?1 AND execution_id = ?2",
        "DELETE FROM executions WHERE tenant = ?1 AND execution_id = ?2",
    ];
    let mut removed = 0;
    for statement in REMOVE {
        removed =
            connection.prepare_cached(statement)?.execute((key.tenant.as_str(), key.execution.as_str()))?;
    }
    Ok(removed)
}
