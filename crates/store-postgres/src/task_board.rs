//! Task board: queues with open actions, missed start deadlines, actions by their keys, connected external
//! workers.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use async_trait::async_trait;
use millstream_model::action_queue::ActionQueue;
use millstream_model::id::{ActionKey, TenantId, WorkerId};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::action_store::LeasedAction;
use millstream_store::execution_store::LeaseGrant;
use millstream_store::status_text;
use millstream_store::task_board::{ExternalWorkerReport, ExternalWorkerView, TASK_WORKERS_KEPT, TaskBoard};
use millstream_store::views::ActionRecord;
use sqlx::postgres::PgRow;
use sqlx::{PgPool, Row};

use crate::action_rows::ActionColumns;
use crate::connect::PostgresStore;
use crate::errors::PostgresResult;
use crate::execution_views::action_view;
use crate::{decode, leasing};

#[async_trait]
impl TaskBoard for PostgresStore {
    async fn open_queues(&self, prefix: &str) -> StoreResult<Vec<ActionQueue>> {
        self.without_retries(read_queues(&self.pool, prefix)).await
    }

    async fn lease_overdue(
        &self,
        worker: &WorkerId,
        grant: &LeaseGrant,
        _now: Timestamp,
    ) -> StoreResult<Vec<LeasedAction>> {
        if grant.slots == 0 {
            return Ok(Vec::new());
        }
        self.with_retries(|| leasing::lease_overdue(&self.pool, worker, grant)).await
    }

    async fn find_actions(&self, keys: &[ActionKey]) -> StoreResult<Vec<Option<ActionRecord>>> {
        self.without_retries(find_actions(&self.pool, keys)).await
    }

    /// On the connections of the renewals, like the heartbeats of workers.
    async fn record_presence(&self, workers: &[ExternalWorkerReport], now: Timestamp) -> StoreResult<()> {
        if workers.is_empty() {
            return Ok(());
        }
        self.with_retries(|| write_presence(&self.leases, workers, now)).await?;
        self.with_retries(|| trim_presence(&self.leases, workers)).await
    }

    async fn list_connected(
        &self,
        tenant: &TenantId,
        since: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<ExternalWorkerView>> {
        const LIST: &str = "
SELECT tenant, name, kinds, labels, seen_at FROM task_workers
WHERE tenant = $1 AND seen_at >= $2 ORDER BY name LIMIT $3";
        self.without_retries(async {
            let query = sqlx::query(LIST).bind(tenant.as_str()).bind(since.as_millis());
            let query = query.bind(i64::try_from(limit).unwrap_or(i64::MAX));
            query.fetch_all(&self.pool).await?.iter().map(decode_connected).collect()
        })
        .await
    }
}

/// From each queue to the next one, by one probe of the index: the first entry of a queue is the action that
/// has been due longest, and has no time if all of them wait.
async fn read_queues(pool: &PgPool, prefix: &str) -> PostgresResult<Vec<ActionQueue>> {
    const READ: &str = status_text!(
        "
WITH RECURSIVE open AS (
    (SELECT a.queue, a.due_at
     FROM actions a
     WHERE a.status IN ({OPEN_ACTIONS}) AND a.queue >= $1
     ORDER BY a.queue, a.due_at LIMIT 1)
    UNION ALL
    SELECT n.queue, n.due_at
    FROM open o
    CROSS JOIN LATERAL (
        SELECT a.queue, a.due_at
        FROM actions a
        WHERE a.status IN ({OPEN_ACTIONS}) AND a.queue > o.queue
        ORDER BY a.queue, a.due_at LIMIT 1) n
    WHERE starts_with(o.queue, $1)
)
SELECT o.queue FROM open o WHERE starts_with(o.queue, $1) AND o.due_at IS NOT NULL ORDER BY o.queue"
    );
    let rows = sqlx::query(READ).bind(prefix).fetch_all(pool).await?;
    rows.iter().map(|row| decode::parsed(row, "queue")).collect()
}

async fn find_actions(pool: &PgPool, keys: &[ActionKey]) -> PostgresResult<Vec<Option<ActionRecord>>> {
    const FIND: &str = "
SELECT a.*
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[]) AS k(tenant, execution_id, seq, action)
CROSS JOIN LATERAL (
    SELECT a.* FROM actions a
    WHERE a.tenant = k.tenant AND a.execution_id = k.execution_id AND a.seq = k.seq AND a.action = k.action
    OFFSET 0) a";
    let columns: ActionColumns<'_> = keys.iter().collect();
    let rows = columns.bound(FIND).fetch_all(pool).await?;
    let found = rows
        .iter()
        .map(|row| {
            let view = action_view(row)?;
            Ok((view.key.clone(), view))
        })
        .collect::<PostgresResult<HashMap<_, _>>>()?;
    Ok(keys.iter().map(|key| found.get(key).cloned()).collect())
}

async fn write_presence(
    pool: &PgPool,
    workers: &[ExternalWorkerReport],
    now: Timestamp,
) -> PostgresResult<()> {
    const WRITE: &str = "
INSERT INTO task_workers (tenant, name, kinds, labels, seen_at)
SELECT k.tenant, k.name, k.kinds, k.labels, $5
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS k(tenant, name, kinds, labels)
ORDER BY k.tenant COLLATE \"C\", k.name COLLATE \"C\"
ON CONFLICT (tenant, name) DO UPDATE
SET kinds = excluded.kinds, labels = excluded.labels, seen_at = excluded.seen_at";
    // Each once, with its last report.
    let each: BTreeMap<(&str, &str), &ExternalWorkerReport> =
        workers.iter().map(|one| ((one.tenant.as_str(), one.name.as_str()), one)).collect();
    let texts = |text: fn(&ExternalWorkerReport) -> RawJson| -> Vec<String> {
        each.values().map(|one| text(one).as_str().to_owned()).collect()
    };
    sqlx::query(WRITE)
        .bind(each.keys().map(|(tenant, _)| *tenant).collect::<Vec<_>>())
        .bind(each.keys().map(|(_, name)| *name).collect::<Vec<_>>())
        .bind(texts(|one| RawJson::from_value(&one.kinds)))
        .bind(texts(|one| RawJson::from_value(&one.labels)))
        .bind(now.as_millis())
        .execute(pool)
        .await?;
    Ok(())
}

/// Removes the workers of these tenants with the oldest heartbeats, beyond the number that is kept.
async fn trim_presence(pool: &PgPool, workers: &[ExternalWorkerReport]) -> PostgresResult<()> {
    const TRIM: &str = "
DELETE FROM task_workers w
USING unnest($1::text[]) AS k(tenant)
CROSS JOIN LATERAL (
    SELECT o.name FROM task_workers o WHERE o.tenant = k.tenant ORDER BY o.seen_at DESC, o.name OFFSET $2) o
WHERE w.tenant = k.tenant AND w.name = o.name";
    let tenants: BTreeSet<&str> = workers.iter().map(|one| one.tenant.as_str()).collect();
    sqlx::query(TRIM)
        .bind(tenants.into_iter().collect::<Vec<_>>())
        .bind(i64::try_from(TASK_WORKERS_KEPT).unwrap_or(i64::MAX))
        .execute(pool)
        .await?;
    Ok(())
}

fn decode_connected(row: &PgRow) -> PostgresResult<ExternalWorkerView> {
    let presence = ExternalWorkerReport {
        tenant: decode::parsed(row, "tenant")?,
        name: row.try_get("name")?,
        kinds: decode::list(row, "kinds")?,
        labels: decode::list(row, "labels")?,
    };
    Ok(ExternalWorkerView { presence, seen_at: decode::time(row, "seen_at")? })
}
