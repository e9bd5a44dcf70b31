//! Task board: queues with open actions, missed schedules, connected external workers.

use std::collections::BTreeSet;

use millstream_model::action_queue::ActionQueue;
use millstream_model::id::{ActionKey, TenantId, WorkerId};
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::action_store::LeasedAction;
use millstream_store::execution_store::LeaseGrant;
use millstream_store::task_board::{ExternalWorkerReport, ExternalWorkerView, TASK_WORKERS_KEPT, TaskBoard};
use millstream_store::views::ActionRecord;
use rusqlite::Connection;

use crate::connect::SqliteStore;
use crate::decode::SqliteFields;
use crate::errors::{SqliteResult, corrupt_row};
use crate::execution_views::action_view;
use crate::leasing::{is_any_overdue, lease_overdue};
use crate::param::{self, FreeText, action_columns};

#[async_trait::async_trait]
impl TaskBoard for SqliteStore {
    async fn open_queues(&self, prefix: &str) -> StoreResult<Vec<ActionQueue>> {
        let prefix = prefix.to_owned();
        self.read_transaction(move |connection| read_open_queues(connection, &prefix)).await
    }

    async fn lease_overdue(
        &self,
        worker: &WorkerId,
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> StoreResult<Vec<LeasedAction>> {
        if grant.slots == 0
            || !self.read_transaction(move |connection| is_any_overdue(connection, now)).await?
        {
            return Ok(Vec::new());
        }
        let (worker, grant) = (worker.clone(), grant.clone());
        self.write_transaction(move |connection| lease_overdue(connection, &worker, &grant, now)).await
    }

    async fn find_actions(&self, keys: &[ActionKey]) -> StoreResult<Vec<Option<ActionRecord>>> {
        const FIND: &str = "
            SELECT * FROM actions WHERE tenant = ?1 AND execution_id = ?2 AND seq = ?3 AND action = ?4";
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let keys = keys.to_vec();
        self.read_transaction(move |connection| {
            let mut find = connection.prepare_cached(FIND)?;
            keys.iter()
                .map(|key| {
                    let mut rows = find.query(action_columns(key))?;
                    rows.next()?.map(|row| action_view(SqliteFields(row))).transpose()
                })
                .collect()
        })
        .await
    }

    async fn record_presence(&self, workers: &[ExternalWorkerReport], now: Timestamp) -> StoreResult<()> {
        const PRESENT: &str = "
            INSERT INTO task_workers (tenant, name, kinds, labels, seen_at) VALUES (?1, ?2, ?3, ?4, ?5)
            ON CONFLICT (tenant, name) DO UPDATE SET
                kinds = excluded.kinds, labels = excluded.labels, seen_at = excluded.seen_at";
        const TRIM: &str = "
            DELETE FROM task_workers WHERE tenant = ?1 AND name IN (
                SELECT name FROM task_workers WHERE tenant = ?1 ORDER BY seen_at DESC, name LIMIT -1 OFFSET ?2)";
        if workers.is_empty() {
            return Ok(());
        }
        let workers = workers.to_vec();
        self.write_transaction(move |connection| {
            let mut present = connection.prepare_cached(PRESENT)?;
            for worker in &workers {
                present.execute((
                    worker.tenant.as_str(),
                    FreeText(&worker.name),
                    serde_json::to_string(&worker.kinds).map_err(corrupt_row)?,
                    serde_json::to_string(&worker.labels).map_err(corrupt_row)?,
                    now.as_millis(),
                ))?;
            }
            let tenants: BTreeSet<&TenantId> = workers.iter().map(|worker| &worker.tenant).collect();
            let mut trim = connection.prepare_cached(TRIM)?;
            for tenant in tenants {
                trim.execute((tenant.as_str(), param::limit(TASK_WORKERS_KEPT)))?;
            }
            Ok(())
        })
        .await
    }

    async fn list_connected(
        &self,
        tenant: &TenantId,
        since: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<ExternalWorkerView>> {
        const CONNECTED: &str =
            "SELECT * FROM task_workers WHERE tenant = ?1 AND seen_at >= ?2 ORDER BY name LIMIT ?3";
        let tenant = tenant.clone();
        self.read_transaction(move |connection| {
            let mut read = connection.prepare_cached(CONNECTED)?;
            let mut rows = read.query((tenant.as_str(), since.as_millis(), param::limit(limit)))?;
            let mut connected = Vec::new();
            while let Some(row) = rows.next()? {
                let row = SqliteFields(row);
                let presence = ExternalWorkerReport {
                    tenant: tenant.clone(),
                    name: row.text("name")?.to_owned(),
                    kinds: row.json("kinds")?,
                    labels: row.json("labels")?,
                };
                connected.push(ExternalWorkerView { presence, seen_at: row.time("seen_at")? });
            }
            Ok(connected)
        })
        .await
    }
}

/// From queue to queue through the index, two probes for each: the next name, and whether any action in it
/// has a time (actions that wait for others have none, and come first).
fn read_open_queues(connection: &Connection, prefix: &str) -> SqliteResult<Vec<ActionQueue>> {
    const OPEN_QUEUES: &str = "
        WITH RECURSIVE queues (queue) AS (
            SELECT min(queue) FROM actions WHERE settled_at IS NULL AND queue >= ?1
            UNION ALL
            SELECT (SELECT min(a.queue) FROM actions AS a
                    WHERE a.settled_at IS NULL AND a.queue > queues.queue)
            FROM queues WHERE substr(queues.queue, 1, length(?1)) = ?1
        )
        SELECT queue FROM queues
        WHERE substr(queue, 1, length(?1)) = ?1 AND EXISTS (
            SELECT 1 FROM actions AS a
            WHERE a.settled_at IS NULL AND a.queue = queues.queue AND a.due_at >= 0)";
    let mut read = connection.prepare_cached(OPEN_QUEUES)?;
    let mut rows = read.query([prefix])?;
    let mut queues = Vec::new();
    while let Some(row) = rows.next()? {
        let name = SqliteFields(row).text(0)?;
        match ActionQueue::parse(name) {
            Some(queue) => queues.push(queue),
            None => tracing::error!(queue = name, "a queue cannot be decoded"),
        }
    }
    Ok(queues)
}
