//! Views of executions: state, lists, history, open actions and timers. Read-only.

use millstream_model::action_queue::ActionQueue;
use millstream_model::context::ExecutionContext;
use millstream_model::id::{AcceptNo, Epoch, ExecutionKey, Name, Seq, TenantId};
use millstream_model::status::{ActionStatus, ExecutionPhase, ExecutionStatus};
use millstream_store::execution_store::PageRemainder;
use millstream_store::paging::cut_history;
use millstream_store::status_text;
use millstream_store::views::{
    ActionPlace, ActionRecord, ExecutionFilter, ExecutionView, ExecutionViews, HistoryEntry, HistoryPage,
    TimerPlace, TimerView,
};
use millstream_store::{StoreError, StoreResult};
use millstream_workflow::log::{ExecutionState, FORMAT};
use millstream_workflow::machine::evolve;
use rusqlite::Connection;

use crate::connect::SqliteStore;
use crate::decode::SqliteFields;
use crate::errors::SqliteResult;
use crate::execution_store::{check_log, read_log};
use crate::param;

#[async_trait::async_trait]
impl ExecutionViews for SqliteStore {
    async fn find_executions(&self, keys: &[ExecutionKey]) -> StoreResult<Vec<Option<ExecutionView>>> {
        const EXECUTION: &str = "SELECT * FROM executions WHERE tenant = ?1 AND execution_id = ?2";
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let keys = keys.to_vec();
        self.read_transaction(move |connection| {
            let mut read = connection.prepare_cached(EXECUTION)?;
            keys.iter()
                .map(|key| {
                    let mut rows = read.query((key.tenant.as_str(), key.execution.as_str()))?;
                    rows.next()?.map(|row| execution_view(connection, SqliteFields(row))).transpose()
                })
                .collect()
        })
        .await
    }

    async fn list_executions(
        &self,
        tenant: &TenantId,
        filter: &ExecutionFilter,
        after: Option<AcceptNo>,
        limit: usize,
    ) -> StoreResult<Vec<ExecutionView>> {
        const LIST_EXECUTIONS: &str = status_text!(
            "
            SELECT * FROM (
                SELECT * FROM executions
                WHERE tenant = ?1 AND ended_at IS NULL AND position < ?2
                  AND (?3 IS NULL OR definition = ?3)
                  AND (?4 IS NULL OR state = ?4)
                  AND (?5 IS NULL OR ?5 = CASE WHEN paused_reason IS NULL THEN 'active' ELSE 'paused' END)
                ORDER BY position DESC
                LIMIT CASE WHEN ?5 IS NULL OR ?5 IN ({OPEN_EXECUTIONS}) THEN ?6 ELSE 0 END)
            UNION ALL
            SELECT * FROM (
                SELECT * FROM executions
                WHERE tenant = ?1 AND ended_at IS NOT NULL AND position < ?2
                  AND (?3 IS NULL OR definition = ?3)
                  AND (?4 IS NULL OR state = ?4)
                  AND (?5 IS NULL OR ?5 = phase)
                ORDER BY position DESC
                LIMIT CASE WHEN ?5 IS NULL OR ?5 NOT IN ({OPEN_EXECUTIONS}) THEN ?6 ELSE 0 END)
            ORDER BY position DESC
            LIMIT ?6"
        );
        let (tenant, filter) = (tenant.clone(), filter.clone());
        self.read_transaction(move |connection| {
            let mut list = connection.prepare_cached(LIST_EXECUTIONS)?;
            let mut rows = list.query((
                tenant.as_str(),
                after.map_or(i64::MAX, |after| after.0),
                filter.definition.as_ref().map(Name::as_str),
                filter.state.as_ref().map(Name::as_str),
                filter.status.map(ExecutionStatus::as_str),
                param::limit(limit),
            ))?;
            let mut views = Vec::new();
            while let Some(row) = rows.next()? {
                views.extend(readable_view(connection, SqliteFields(row))?);
            }
            Ok(views)
        })
        .await
    }

    async fn read_history(
        &self,
        execution: &ExecutionKey,
        after: Seq,
        limit: usize,
    ) -> StoreResult<HistoryPage> {
        let execution = execution.clone();
        self.read_transaction(move |connection| read_history(connection, &execution, after, limit)).await
    }

    async fn list_actions(
        &self,
        execution: &ExecutionKey,
        after: Option<ActionPlace>,
        limit: usize,
    ) -> StoreResult<Vec<ActionRecord>> {
        const ACTIONS: &str = "
            SELECT * FROM actions
            WHERE tenant = ?1 AND execution_id = ?2 AND (?3 IS NULL OR (seq, ordinal) > (?3, ?4))
            ORDER BY seq, ordinal
            LIMIT ?5";
        let execution = execution.clone();
        self.read_transaction(move |connection| {
            let mut list = connection.prepare_cached(ACTIONS)?;
            let mut rows = list.query((
                execution.tenant.as_str(),
                execution.execution.as_str(),
                after.map(|after| after.seq.0),
                after.map(|after| after.ordinal),
                param::limit(limit),
            ))?;
            let mut views = Vec::new();
            while let Some(row) = rows.next()? {
                views.push(action_view(SqliteFields(row))?);
            }
            Ok(views)
        })
        .await
    }

    async fn list_timers(
        &self,
        execution: &ExecutionKey,
        after: Option<TimerPlace>,
        limit: usize,
    ) -> StoreResult<Vec<TimerView>> {
        const TIMERS: &str = "
            SELECT armed_seq, ordinal, send, fire_at FROM timers
            WHERE tenant = ?1 AND execution_id = ?2
              AND (?3 IS NULL OR (fire_at, armed_seq, ordinal) > (?3, ?4, ?5))
            ORDER BY fire_at, armed_seq, ordinal
            LIMIT ?6";
        let execution = execution.clone();
        self.read_transaction(move |connection| {
            let mut list = connection.prepare_cached(TIMERS)?;
            let mut rows = list.query((
                execution.tenant.as_str(),
                execution.execution.as_str(),
                after.map(|after| after.fire_at.as_millis()),
                after.map(|after| after.armed_seq.0),
                after.map(|after| after.ordinal),
                param::limit(limit),
            ))?;
            let mut views = Vec::new();
            while let Some(row) = rows.next()? {
                let row = SqliteFields(row);
                views.push(TimerView {
                    armed_seq: row.seq("armed_seq")?,
                    ordinal: row.small("ordinal")?,
                    send: row.id("send")?,
                    fire_at: row.time("fire_at")?,
                });
            }
            Ok(views)
        })
        .await
    }
}

/// Sizes first, which the row headers answer, then only the rows that fit.
fn read_history(
    connection: &Connection,
    execution: &ExecutionKey,
    after: Seq,
    limit: usize,
) -> SqliteResult<HistoryPage> {
    const SIZES: &str = "
        SELECT t.seq, octet_length(t.decision) + octet_length(e.payload) AS bytes
        FROM transitions AS t
        CROSS JOIN events AS e ON e.tenant = t.tenant AND e.event_id = t.event_id
        WHERE t.tenant = ?1 AND t.execution_id = ?2 AND t.seq > ?3
        ORDER BY t.seq
        LIMIT ?4";
    const HISTORY: &str = "
        SELECT t.seq, t.event_id, t.name, t.at, t.decision, e.payload, e.created_at, e.timer_seq
        FROM transitions AS t
        CROSS JOIN events AS e ON e.tenant = t.tenant AND e.event_id = t.event_id
        WHERE t.tenant = ?1 AND t.execution_id = ?2 AND t.seq > ?3 AND t.seq <= ?4
        ORDER BY t.seq";
    let (tenant, id) = (execution.tenant.as_str(), execution.execution.as_str());
    let mut sizes = Vec::new();
    let mut read = connection.prepare_cached(SIZES)?;
    let mut rows = read.query((tenant, id, after.0, param::limit(limit.saturating_add(1))))?;
    while let Some(row) = rows.next()? {
        sizes.push((SqliteFields(row).seq(0)?, SqliteFields(row).size(1)?));
    }
    let Some((last, more)) = cut_history(sizes, limit) else {
        return Ok(HistoryPage { entries: Vec::new(), more: PageRemainder::Nothing });
    };
    let mut entries = Vec::new();
    let mut read = connection.prepare_cached(HISTORY)?;
    let mut rows = read.query((tenant, id, after.0, last.0))?;
    while let Some(row) = rows.next()? {
        let row = SqliteFields(row);
        entries.push(HistoryEntry {
            transition: row.transition()?,
            payload: row.raw("payload")?,
            accepted_at: row.time("created_at")?,
            origin: row.origin("timer_seq")?,
        });
    }
    Ok(HistoryPage { entries, more })
}

/// A row of `executions` as a view: the snapshot with the transitions after it.
fn execution_view(connection: &Connection, row: SqliteFields<'_>) -> SqliteResult<ExecutionView> {
    let (execution, seq, snapshot_seq) = (row.execution()?, row.seq("seq")?, row.seq("snapshot_seq")?);
    let snapshot = row.snapshot("snapshot", snapshot_seq)?;
    let log = if snapshot_seq == seq { Vec::new() } else { read_log(connection, &execution, snapshot_seq)? };
    check_log(&snapshot, &log, seq)?;
    Ok(ExecutionView {
        execution,
        position: row.accept_no("position")?,
        definition: row.definition()?,
        status: ExecutionStatus::of_phase(
            row.word("phase", ExecutionPhase::parse)?,
            row.pause("paused_reason")?,
        ),
        state: log.iter().fold(snapshot, |state, transition| evolve(Some(state), transition)),
        paused_reason: row.opt_text("paused_reason")?,
        unreadable: None,
        created_at: row.time("created_at")?,
        updated_at: row.time("updated_at")?,
    })
}

/// An execution in a list: if its state cannot be decoded, the columns of its row; if these cannot be decoded
/// either, a log line.
fn readable_view(connection: &Connection, row: SqliteFields<'_>) -> SqliteResult<Option<ExecutionView>> {
    let why = match execution_view(connection, row).map_err(StoreError::from) {
        Ok(view) => return Ok(Some(view)),
        Err(error @ StoreError::Corrupt(_)) => error.to_string(),
        Err(error @ (StoreError::Unavailable(_) | StoreError::Contention(_))) => return Err(error.into()),
    };
    let unreadable = unreadable_view(row, why.clone());
    if unreadable.is_err() {
        let id = row.text("execution_id").unwrap_or_default();
        tracing::error!(execution.id = id, error = why, "an execution cannot be listed");
    }
    Ok(unreadable.ok())
}

fn unreadable_view(row: SqliteFields<'_>, why: String) -> SqliteResult<ExecutionView> {
    let (phase, seq) = (row.word("phase", ExecutionPhase::parse)?, row.seq("seq")?);
    let state = ExecutionState {
        format: FORMAT,
        seq,
        state: row.id("state")?,
        entered_seq: seq,
        phase,
        reason: None,
        context: ExecutionContext::new(),
        at: row.time("updated_at")?,
        parent: None,
        correlation: row.opt_text("correlation")?,
        graph: None,
    };
    Ok(ExecutionView {
        execution: row.execution()?,
        position: row.accept_no("position")?,
        definition: row.definition()?,
        status: ExecutionStatus::of_phase(phase, row.pause("paused_reason")?),
        state,
        paused_reason: row.opt_text("paused_reason")?,
        unreadable: Some(why),
        created_at: row.time("created_at")?,
        updated_at: row.time("updated_at")?,
    })
}

pub(crate) fn action_view(row: SqliteFields<'_>) -> SqliteResult<ActionRecord> {
    let status = row.word("status", ActionStatus::parse)?;
    let due_at = row.opt_time("due_at")?;
    let (lease_until, next_attempt_at) = match status {
        ActionStatus::Leased | ActionStatus::Awaiting => (due_at, None),
        ActionStatus::Ready => (None, due_at),
        ActionStatus::Waiting
        | ActionStatus::Standby
        | ActionStatus::Succeeded
        | ActionStatus::Failed
        | ActionStatus::Skipped
        | ActionStatus::Cancelled => (None, None),
    };
    Ok(ActionRecord {
        key: row.action_key()?,
        event_id: row.event_id("event_id")?,
        ordinal: row.small("ordinal")?,
        needs: row.needs()?,
        status,
        attempts: row.small("attempts")?,
        epoch: Epoch(row.int("epoch")?),
        worker_id: row.opt_id("worker_id")?,
        lease_until,
        next_attempt_at,
        input: row.opt_raw("input")?,
        result: row.opt_raw("result")?,
        error: row.opt_raw("error")?,
        created_at: row.time("created_at")?,
        settled_at: row.opt_time("settled_at")?,
        queue: row.word("queue", ActionQueue::parse)?,
        revision: row.small("revision")?,
        progress: row.opt_raw("progress")?,
        ready_at: row.opt_time("ready_at")?,
    })
}
