//! Executions as clients and operators see them.
//!
//! The state is the newest snapshot and the transitions after it, folded here: transitions never change,
//! so they may be read after the row that says how far they go.

use std::collections::HashMap;

use async_trait::async_trait;
use millstream_core::id::{AcceptNo, Epoch, ExecutionKey, Seq, TenantId};
use millstream_core::log::{State, Transition};
use millstream_core::machine::evolve;
use millstream_core::status::{ActionStatus, ExecutionStatus};
use millstream_store::Result;
use millstream_store::views::{
    ActionView, ExecutionFilter, ExecutionView, ExecutionViews, HistoryEntry, TimerView,
};
use sqlx::postgres::PgRow;
use sqlx::{PgPool, Row};

use crate::action_rows;
use crate::connect::PostgresStore;
use crate::decode;
use crate::errors::Attempt;
use crate::execution_store::{KeyColumns, without_gaps};

#[async_trait]
impl ExecutionViews for PostgresStore {
    async fn executions(&self, keys: &[ExecutionKey]) -> Result<Vec<Option<ExecutionView>>> {
        self.once(read_executions(&self.pool, keys)).await
    }

    async fn list_executions(
        &self,
        tenant: &TenantId,
        filter: &ExecutionFilter,
        after: Option<AcceptNo>,
        limit: usize,
    ) -> Result<Vec<ExecutionView>> {
        self.once(list(&self.pool, tenant, filter, after, limit)).await
    }

    async fn history(&self, execution: &ExecutionKey, after: Seq, limit: usize) -> Result<Vec<HistoryEntry>> {
        self.once(read_history(&self.pool, execution, after, limit)).await
    }

    async fn actions(&self, execution: &ExecutionKey) -> Result<Vec<ActionView>> {
        const READ: &str = "
SELECT a.* FROM actions a WHERE a.tenant = $1 AND a.execution_id = $2 ORDER BY a.seq, a.ordinal";
        self.once(async {
            let rows = sqlx::query(READ)
                .bind(execution.tenant.as_str())
                .bind(execution.execution.as_str())
                .fetch_all(&self.pool)
                .await?;
            rows.iter().map(action_view).collect()
        })
        .await
    }

    async fn timers(&self, execution: &ExecutionKey) -> Result<Vec<TimerView>> {
        const READ: &str = "
SELECT t.* FROM timers t WHERE t.tenant = $1 AND t.execution_id = $2
ORDER BY t.fire_at, t.armed_seq, t.ordinal";
        self.once(async {
            let rows = sqlx::query(READ)
                .bind(execution.tenant.as_str())
                .bind(execution.execution.as_str())
                .fetch_all(&self.pool)
                .await?;
            rows.iter().map(timer_view).collect()
        })
        .await
    }
}

async fn read_executions(pool: &PgPool, keys: &[ExecutionKey]) -> Attempt<Vec<Option<ExecutionView>>> {
    const READ: &str = "
SELECT x.*
FROM unnest($1::text[], $2::text[]) AS k(tenant, execution_id)
JOIN executions x ON x.tenant = k.tenant AND x.execution_id = k.execution_id";
    let columns: KeyColumns<'_> = keys.iter().collect();
    let rows = columns.bound(READ).fetch_all(pool).await?;
    let found: HashMap<_, _> =
        views(pool, &rows).await?.into_iter().map(|view| (view.execution.clone(), view)).collect();
    Ok(keys.iter().map(|key| found.get(key).cloned()).collect())
}

async fn list(
    pool: &PgPool,
    tenant: &TenantId,
    filter: &ExecutionFilter,
    after: Option<AcceptNo>,
    limit: usize,
) -> Attempt<Vec<ExecutionView>> {
    const LIST: &str = "
SELECT x.* FROM executions x
WHERE x.tenant = $1 AND x.position < $2
  AND ($3::text IS NULL OR x.definition = $3)
  AND ($4::text IS NULL OR x.state = $4)
  AND ($5::text IS NULL
       OR $5 = CASE WHEN x.phase = 'active' AND x.paused_reason IS NOT NULL THEN 'paused' ELSE x.phase END)
ORDER BY x.position DESC LIMIT $6";
    let rows = sqlx::query(LIST)
        .bind(tenant.as_str())
        .bind(after.map_or(i64::MAX, |after| after.0))
        .bind(filter.definition.as_ref().map(|name| name.as_str()))
        .bind(filter.state.as_ref().map(|name| name.as_str()))
        .bind(filter.status.map(ExecutionStatus::as_str))
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .fetch_all(pool)
        .await?;
    views(pool, &rows).await
}

async fn views(pool: &PgPool, rows: &[PgRow]) -> Attempt<Vec<ExecutionView>> {
    let mut behind = Vec::new();
    for row in rows {
        let (seq, snapshot_seq) = (decode::seq(row, "seq")?, decode::seq(row, "snapshot_seq")?);
        if snapshot_seq < seq {
            behind.push((decode::execution_key(row)?, snapshot_seq, seq));
        }
    }
    let mut logs = read_logs(pool, &behind).await?;
    rows.iter()
        .map(|row| {
            let key = decode::execution_key(row)?;
            let log = logs.remove(&key).unwrap_or_default();
            view(key, row, &log)
        })
        .collect()
}

/// Transitions in `(after, until]` of each execution, in order.
async fn read_logs(
    pool: &PgPool,
    wanted: &[(ExecutionKey, Seq, Seq)],
) -> Attempt<HashMap<ExecutionKey, Vec<Transition>>> {
    const READ: &str = "
SELECT t.*
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) AS k(tenant, execution_id, after, until)
JOIN transitions t ON t.tenant = k.tenant AND t.execution_id = k.execution_id
                  AND t.seq > k.after AND t.seq <= k.until
ORDER BY t.tenant, t.execution_id, t.seq";
    let mut logs: HashMap<ExecutionKey, Vec<Transition>> = HashMap::new();
    if wanted.is_empty() {
        return Ok(logs);
    }
    let columns: KeyColumns<'_> = wanted.iter().map(|(key, ..)| key).collect();
    let rows = columns
        .bound(READ)
        .bind(wanted.iter().map(|(_, after, _)| after.0).collect::<Vec<_>>())
        .bind(wanted.iter().map(|(.., until)| until.0).collect::<Vec<_>>())
        .fetch_all(pool)
        .await?;
    for row in &rows {
        logs.entry(decode::execution_key(row)?).or_default().push(transition(row)?);
    }
    Ok(logs)
}

fn view(key: ExecutionKey, row: &PgRow, log: &[Transition]) -> Attempt<ExecutionView> {
    let snapshot: State = decode::snapshot(row.try_get("snapshot")?)?;
    without_gaps(snapshot.seq, log.iter().map(|transition| transition.seq), decode::seq(row, "seq")?)?;
    Ok(ExecutionView {
        execution: key,
        position: AcceptNo(row.try_get("position")?),
        definition: decode::definition_ref(row)?,
        status: ExecutionStatus::of(decode::parsed(row, "phase")?, decode::pause_state(row)?),
        state: log.iter().fold(snapshot, |state, transition| evolve(Some(state), transition)),
        paused_reason: row.try_get("paused_reason")?,
        created_at: decode::time(row, "created_at")?,
        updated_at: decode::time(row, "updated_at")?,
    })
}

async fn read_history(
    pool: &PgPool,
    execution: &ExecutionKey,
    after: Seq,
    limit: usize,
) -> Attempt<Vec<HistoryEntry>> {
    const READ: &str = "
SELECT t.*, e.payload, e.created_at, e.timer_seq
FROM transitions t
JOIN events e ON e.tenant = t.tenant AND e.event_id = t.event_id
WHERE t.tenant = $1 AND t.execution_id = $2 AND t.seq > $3
ORDER BY t.seq LIMIT $4";
    let rows = sqlx::query(READ)
        .bind(execution.tenant.as_str())
        .bind(execution.execution.as_str())
        .bind(after.0)
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .fetch_all(pool)
        .await?;
    rows.iter()
        .map(|row| {
            Ok(HistoryEntry {
                transition: transition(row)?,
                payload: decode::json(row, "payload")?,
                accepted_at: decode::time(row, "created_at")?,
                origin: decode::origin(row)?,
            })
        })
        .collect()
}

fn transition(row: &PgRow) -> Attempt<Transition> {
    decode::transition(
        decode::seq(row, "seq")?,
        decode::event_id(row)?,
        decode::parsed(row, "name")?,
        decode::time(row, "at")?,
        row.try_get("decision")?,
    )
}

fn action_view(row: &PgRow) -> Attempt<ActionView> {
    let status: ActionStatus = decode::parsed(row, "status")?;
    let due_at = decode::time_option(row, "due_at")?;
    Ok(ActionView {
        key: decode::action_key(row)?,
        event_id: decode::event_id(row)?,
        ordinal: row.try_get("ordinal")?,
        needs: action_rows::needs(row)?,
        status,
        attempts: row.try_get("attempts")?,
        epoch: Epoch(row.try_get("epoch")?),
        worker_id: decode::parsed_option(row, "worker_id")?,
        lease_until: due_at.filter(|_| status == ActionStatus::Leased),
        next_attempt_at: due_at.filter(|_| status == ActionStatus::Ready),
        input: decode::json_option(row, "input")?,
        result: decode::json_option(row, "result")?,
        error: decode::json_option(row, "error")?,
        created_at: decode::time(row, "created_at")?,
        settled_at: decode::time_option(row, "settled_at")?,
    })
}

fn timer_view(row: &PgRow) -> Attempt<TimerView> {
    Ok(TimerView {
        armed_seq: decode::seq(row, "armed_seq")?,
        ordinal: row.try_get("ordinal")?,
        send: decode::parsed(row, "send")?,
        fire_at: decode::time(row, "fire_at")?,
    })
}
