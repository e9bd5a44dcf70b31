//! Views of executions for clients and operators.
//!
//! The state is the newest snapshot and the transitions after it, folded here: transitions never change, so
//! they may be read after the row that has the last seq.

use std::collections::HashMap;

use async_trait::async_trait;
use millstream_model::context::ExecutionContext;
use millstream_model::id::{AcceptNo, Epoch, ExecutionKey, Seq, TenantId};
use millstream_model::status::{ActionStatus, ExecutionStatus};
use millstream_store::StoreResult;
use millstream_store::execution_store::PageRemainder;
use millstream_store::paging::cut_history;
use millstream_store::status_text;
use millstream_store::views::{
    ActionPlace, ActionRecord, ExecutionFilter, ExecutionView, ExecutionViews, HistoryEntry, HistoryPage,
    TimerPlace, TimerView,
};
use millstream_workflow::log::{ExecutionState, FORMAT, Transition};
use millstream_workflow::machine::evolve;
use sqlx::postgres::PgRow;
use sqlx::{PgPool, Row};

use crate::action_rows;
use crate::connect::PostgresStore;
use crate::decode;
use crate::errors::PostgresResult;
use crate::execution_store::KeyColumns;
use crate::loading::without_gaps;

#[async_trait]
impl ExecutionViews for PostgresStore {
    async fn find_executions(&self, keys: &[ExecutionKey]) -> StoreResult<Vec<Option<ExecutionView>>> {
        self.without_retries(read_executions(&self.pool, keys)).await
    }

    async fn list_executions(
        &self,
        tenant: &TenantId,
        filter: &ExecutionFilter,
        after: Option<AcceptNo>,
        limit: usize,
    ) -> StoreResult<Vec<ExecutionView>> {
        self.without_retries(read_execution_list(&self.pool, tenant, filter, after, limit)).await
    }

    async fn read_history(
        &self,
        execution: &ExecutionKey,
        after: Seq,
        limit: usize,
    ) -> StoreResult<HistoryPage> {
        self.without_retries(read_history(&self.pool, execution, after, limit)).await
    }

    async fn list_actions(
        &self,
        execution: &ExecutionKey,
        after: Option<ActionPlace>,
        limit: usize,
    ) -> StoreResult<Vec<ActionRecord>> {
        const READ: &str = "
SELECT a.* FROM actions a
WHERE a.tenant = $1 AND a.execution_id = $2 AND ($3::bigint IS NULL OR (a.seq, a.ordinal) > ($3, $4::integer))
ORDER BY a.seq, a.ordinal LIMIT $5";
        self.without_retries(async {
            let rows = sqlx::query(READ)
                .bind(execution.tenant.as_str())
                .bind(execution.execution.as_str())
                .bind(after.map(|after| after.seq.0))
                .bind(after.map(|after| after.ordinal))
                .bind(rows_at_most(limit))
                .fetch_all(&self.pool)
                .await?;
            rows.iter().map(action_view).collect()
        })
        .await
    }

    async fn list_timers(
        &self,
        execution: &ExecutionKey,
        after: Option<TimerPlace>,
        limit: usize,
    ) -> StoreResult<Vec<TimerView>> {
        const READ: &str = "
SELECT t.* FROM timers t
WHERE t.tenant = $1 AND t.execution_id = $2
  AND ($3::bigint IS NULL OR (t.fire_at, t.armed_seq, t.ordinal) > ($3, $4::bigint, $5::integer))
ORDER BY t.fire_at, t.armed_seq, t.ordinal LIMIT $6";
        self.without_retries(async {
            let rows = sqlx::query(READ)
                .bind(execution.tenant.as_str())
                .bind(execution.execution.as_str())
                .bind(after.map(|after| after.fire_at.as_millis()))
                .bind(after.map(|after| after.armed_seq.0))
                .bind(after.map(|after| after.ordinal))
                .bind(rows_at_most(limit))
                .fetch_all(&self.pool)
                .await?;
            rows.iter().map(timer_view).collect()
        })
        .await
    }
}

async fn read_executions(pool: &PgPool, keys: &[ExecutionKey]) -> PostgresResult<Vec<Option<ExecutionView>>> {
    const READ: &str = "
SELECT x.*
FROM unnest($1::text[], $2::text[]) AS k(tenant, execution_id)
JOIN executions x ON x.tenant = k.tenant AND x.execution_id = k.execution_id";
    let columns: KeyColumns<'_> = keys.iter().collect();
    let rows = columns.bound(READ).fetch_all(pool).await?;
    let found = read_views(pool, &rows).await?.into_iter().collect::<PostgresResult<Vec<_>>>()?;
    let found: HashMap<_, _> = found.into_iter().map(|view| (view.execution.clone(), view)).collect();
    Ok(keys.iter().map(|key| found.get(key).cloned()).collect())
}

async fn read_execution_list(
    pool: &PgPool,
    tenant: &TenantId,
    filter: &ExecutionFilter,
    after: Option<AcceptNo>,
    limit: usize,
) -> PostgresResult<Vec<ExecutionView>> {
    // The tenant expression and the conditions of the two indexes. A status of one kind leaves out the other's index.
    const LIST: &str = status_text!(
        "
(SELECT x.* FROM executions x
 WHERE x.tenant || '' = $1 AND x.ended_at IS NULL AND x.position < $2
   AND ($3::text IS NULL OR x.definition = $3)
   AND ($4::text IS NULL OR x.state = $4)
   AND ($5::text IS NULL OR $5 IN ({OPEN_EXECUTIONS}))
   AND ($5::text IS NULL OR $5 = CASE WHEN x.paused_reason IS NULL THEN 'active' ELSE 'paused' END)
 ORDER BY x.position DESC LIMIT $6)
UNION ALL
(SELECT x.* FROM executions x
 WHERE x.tenant || '' = $1 AND x.ended_at IS NOT NULL AND x.position < $2
   AND ($3::text IS NULL OR x.definition = $3)
   AND ($4::text IS NULL OR x.state = $4)
   AND ($5::text IS NULL OR $5 NOT IN ({OPEN_EXECUTIONS}))
   AND ($5::text IS NULL OR x.phase = $5)
 ORDER BY x.position DESC LIMIT $6)
ORDER BY position DESC LIMIT $6"
    );
    let rows = sqlx::query(LIST)
        .bind(tenant.as_str())
        .bind(after.map_or(i64::MAX, |after| after.0))
        .bind(filter.definition.as_ref().map(|name| name.as_str()))
        .bind(filter.state.as_ref().map(|name| name.as_str()))
        .bind(filter.status.map(ExecutionStatus::as_str))
        .bind(rows_at_most(limit))
        .fetch_all(pool)
        .await?;
    let views = read_views(pool, &rows).await?;
    Ok(rows.iter().zip(views).filter_map(|(row, view)| readable_view(row, view)).collect())
}

fn rows_at_most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// One view per row, or the error.
async fn read_views(pool: &PgPool, rows: &[PgRow]) -> PostgresResult<Vec<PostgresResult<ExecutionView>>> {
    let mut behind = Vec::new();
    for row in rows {
        let (seq, snapshot_seq) = (decode::seq(row, "seq")?, decode::seq(row, "snapshot_seq")?);
        // An undecodable key is reported below.
        if snapshot_seq < seq
            && let Ok(key) = decode::execution_key(row)
        {
            behind.push((key, snapshot_seq, seq));
        }
    }
    let mut logs = read_logs(pool, &behind).await?;
    let view_of = |row| {
        let key = decode::execution_key(row)?;
        let log = logs.remove(&key).unwrap_or_default();
        fold_view(key, row, &log.into_iter().collect::<PostgresResult<Vec<_>>>()?)
    };
    Ok(rows.iter().map(view_of).collect())
}

/// An execution in a list: if its state cannot be decoded, the columns of its row; if these cannot be decoded
/// either, a log line.
fn readable_view(row: &PgRow, view: PostgresResult<ExecutionView>) -> Option<ExecutionView> {
    let error = match view {
        Ok(view) => return Some(view),
        Err(failure) => failure.into_store_error(),
    };
    let unreadable = unreadable_view(row, error.to_string());
    if unreadable.is_err() {
        let id: &str = row.try_get("execution_id").unwrap_or_default();
        tracing::error!(execution.id = id, %error, "an execution cannot be listed");
    }
    unreadable.ok()
}

fn unreadable_view(row: &PgRow, why: String) -> PostgresResult<ExecutionView> {
    let (phase, seq) = (decode::parsed(row, "phase")?, decode::seq(row, "seq")?);
    let state = ExecutionState {
        format: FORMAT,
        seq,
        state: decode::parsed(row, "state")?,
        entered_seq: seq,
        phase,
        reason: None,
        context: ExecutionContext::new(),
        at: decode::time(row, "updated_at")?,
        parent: None,
        correlation: row.try_get("correlation")?,
        graph: None,
    };
    Ok(ExecutionView {
        execution: decode::execution_key(row)?,
        position: AcceptNo(row.try_get("position")?),
        definition: decode::definition_ref(row)?,
        status: ExecutionStatus::of_phase(phase, decode::pause_state(row)?),
        state,
        paused_reason: row.try_get("paused_reason")?,
        unreadable: Some(why),
        created_at: decode::time(row, "created_at")?,
        updated_at: decode::time(row, "updated_at")?,
    })
}

/// Transitions in `(after, until]` of each execution, in order.
async fn read_logs(
    pool: &PgPool,
    wanted: &[(ExecutionKey, Seq, Seq)],
) -> PostgresResult<HashMap<ExecutionKey, Vec<PostgresResult<Transition>>>> {
    const READ: &str = "
SELECT t.*
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) AS k(tenant, execution_id, after, until)
JOIN transitions t ON t.tenant = k.tenant AND t.execution_id = k.execution_id
                  AND t.seq > k.after AND t.seq <= k.until
ORDER BY t.tenant, t.execution_id, t.seq";
    let mut logs: HashMap<ExecutionKey, Vec<PostgresResult<Transition>>> = HashMap::new();
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
        logs.entry(decode::execution_key(row)?).or_default().push(decode_transition(row));
    }
    Ok(logs)
}

fn fold_view(key: ExecutionKey, row: &PgRow, log: &[Transition]) -> PostgresResult<ExecutionView> {
    let snapshot: ExecutionState = decode::snapshot(row.try_get("snapshot")?)?;
    without_gaps(snapshot.seq, log.iter().map(|transition| transition.seq), decode::seq(row, "seq")?)?;
    Ok(ExecutionView {
        execution: key,
        position: AcceptNo(row.try_get("position")?),
        definition: decode::definition_ref(row)?,
        status: ExecutionStatus::of_phase(decode::parsed(row, "phase")?, decode::pause_state(row)?),
        state: log.iter().fold(snapshot, |state, transition| evolve(Some(state), transition)),
        paused_reason: row.try_get("paused_reason")?,
        unreadable: None,
        created_at: decode::time(row, "created_at")?,
        updated_at: decode::time(row, "updated_at")?,
    })
}

/// Sizes first, which the row headers answer, then only the rows that fit. Transitions never change.
async fn read_history(
    pool: &PgPool,
    execution: &ExecutionKey,
    after: Seq,
    limit: usize,
) -> PostgresResult<HistoryPage> {
    const SIZES: &str = "
SELECT t.seq, (octet_length(t.decision) + octet_length(e.payload))::bigint AS bytes
FROM transitions t
JOIN events e ON e.tenant = t.tenant AND e.event_id = t.event_id
WHERE t.tenant = $1 AND t.execution_id = $2 AND t.seq > $3
ORDER BY t.seq LIMIT $4";
    const READ: &str = "
SELECT t.*, e.payload, e.created_at, e.timer_seq
FROM transitions t
JOIN events e ON e.tenant = t.tenant AND e.event_id = t.event_id
WHERE t.tenant = $1 AND t.execution_id = $2 AND t.seq > $3 AND t.seq <= $4
ORDER BY t.seq";
    let bound = |sql| sqlx::query(sql).bind(execution.tenant.as_str()).bind(execution.execution.as_str());
    let rows = bound(SIZES).bind(after.0).bind(rows_at_most(limit.saturating_add(1))).fetch_all(pool).await?;
    let size = |row: &PgRow| {
        let bytes: i64 = row.try_get("bytes")?;
        Ok((decode::seq(row, "seq")?, usize::try_from(bytes).unwrap_or(usize::MAX)))
    };
    let sizes = rows.iter().map(size).collect::<PostgresResult<Vec<_>>>()?;
    let Some((last, more)) = cut_history(sizes, limit) else {
        return Ok(HistoryPage { entries: Vec::new(), more: PageRemainder::Nothing });
    };
    let rows = bound(READ).bind(after.0).bind(last.0).fetch_all(pool).await?;
    let entry = |row: &PgRow| {
        Ok(HistoryEntry {
            transition: decode_transition(row)?,
            payload: decode::json(row, "payload")?,
            accepted_at: decode::time(row, "created_at")?,
            origin: decode::origin(row)?,
        })
    };
    Ok(HistoryPage { entries: rows.iter().map(entry).collect::<PostgresResult<_>>()?, more })
}

fn decode_transition(row: &PgRow) -> PostgresResult<Transition> {
    decode::transition(
        decode::seq(row, "seq")?,
        decode::event_id(row)?,
        decode::parsed(row, "name")?,
        decode::time(row, "at")?,
        row.try_get("decision")?,
    )
}

pub(crate) fn action_view(row: &PgRow) -> PostgresResult<ActionRecord> {
    let status: ActionStatus = decode::parsed(row, "status")?;
    let due_at = decode::time_option(row, "due_at")?;
    Ok(ActionRecord {
        key: decode::action_key(row)?,
        event_id: decode::event_id(row)?,
        ordinal: row.try_get("ordinal")?,
        needs: action_rows::decode_needs(row)?,
        status,
        attempts: row.try_get("attempts")?,
        epoch: Epoch(row.try_get("epoch")?),
        worker_id: decode::parsed_option(row, "worker_id")?,
        lease_until: due_at.filter(|_| matches!(status, ActionStatus::Leased | ActionStatus::Awaiting)),
        next_attempt_at: due_at.filter(|_| status == ActionStatus::Ready),
        input: decode::json_option(row, "input")?,
        result: decode::json_option(row, "result")?,
        error: decode::json_option(row, "error")?,
        created_at: decode::time(row, "created_at")?,
        settled_at: decode::time_option(row, "settled_at")?,
        queue: decode::parsed(row, "queue")?,
        revision: row.try_get("revision")?,
        progress: decode::json_option(row, "progress")?,
        ready_at: decode::time_option(row, "ready_at")?,
    })
}

fn timer_view(row: &PgRow) -> PostgresResult<TimerView> {
    Ok(TimerView {
        armed_seq: decode::seq(row, "armed_seq")?,
        ordinal: row.try_get("ordinal")?,
        send: decode::parsed(row, "send")?,
        fire_at: decode::time(row, "fire_at")?,
    })
}
