//! Reading executions: state, lists, history, what is open. Nothing in here writes.

use std::collections::HashMap;

use millstream_core::id::{AcceptNo, Epoch, ExecutionKey, Name, Seq, TenantId};
use millstream_core::log::{Context, FORMAT, State, Transition};
use millstream_core::machine::evolve;
use millstream_core::status::{ActionStatus, ExecutionStatus, Phase};
use millstream_store::Result;
use millstream_store::execution_store::More;
use millstream_store::paging::cut_history;
use millstream_store::views::{
    ActionPlace, ActionView, ExecutionFilter, ExecutionView, ExecutionViews, HistoryEntry, HistoryPage,
    TimerPlace, TimerView,
};
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use crate::connect::SqliteStore;
use crate::decode::Fields;
use crate::errors::store_error;
use crate::execution_store::check_log;
use crate::param::{self, ExecutionParam};

#[async_trait::async_trait]
impl ExecutionViews for SqliteStore {
    async fn executions(&self, keys: &[ExecutionKey]) -> Result<Vec<Option<ExecutionView>>> {
        const EXECUTIONS: &str = "
            SELECT x.*
            FROM json_each(?1) AS i
            CROSS JOIN executions AS x
                ON x.tenant = i.value ->> 'tenant' AND x.execution_id = i.value ->> 'execution'";
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let mut tx = self.read().await?;
        let rows = sqlx::query(EXECUTIONS)
            .bind(param::rows(keys.iter().map(ExecutionParam::of))?)
            .fetch_all(&mut *tx)
            .await
            .map_err(store_error)?;
        let views = fold(&mut tx, &rows).await?;
        tx.commit().await.map_err(store_error)?;
        let views = views.into_iter().collect::<Result<Vec<_>>>()?;
        let views: HashMap<_, _> = views.into_iter().map(|view| (view.execution.clone(), view)).collect();
        Ok(keys.iter().map(|key| views.get(key).cloned()).collect())
    }

    async fn list_executions(
        &self,
        tenant: &TenantId,
        filter: &ExecutionFilter,
        after: Option<AcceptNo>,
        limit: usize,
    ) -> Result<Vec<ExecutionView>> {
        const LIST_EXECUTIONS: &str = "
            SELECT * FROM executions
            WHERE tenant = ?1 AND position < ?2
              AND (?3 IS NULL OR definition = ?3)
              AND (?4 IS NULL OR state = ?4)
              AND (?5 IS NULL OR ?5 = CASE WHEN phase = 'active' AND paused_reason IS NOT NULL
                                           THEN 'paused' ELSE phase END)
            ORDER BY position DESC
            LIMIT ?6";
        let mut tx = self.read().await?;
        let rows = sqlx::query(LIST_EXECUTIONS)
            .bind(tenant.as_str())
            .bind(after.map_or(i64::MAX, |after| after.0))
            .bind(filter.definition.as_ref().map(Name::as_str))
            .bind(filter.state.as_ref().map(Name::as_str))
            .bind(filter.status.map(ExecutionStatus::as_str))
            .bind(param::limit(limit))
            .fetch_all(&mut *tx)
            .await
            .map_err(store_error)?;
        let views = fold(&mut tx, &rows).await?;
        tx.commit().await.map_err(store_error)?;
        Ok(rows.iter().map(Fields).zip(views).filter_map(|(row, view)| shown(row, view)).collect())
    }

    async fn history(&self, execution: &ExecutionKey, after: Seq, limit: usize) -> Result<HistoryPage> {
        let mut tx = self.read().await?;
        let page = read_history(&mut tx, execution, after, limit).await?;
        tx.commit().await.map_err(store_error)?;
        Ok(page)
    }

    async fn actions(
        &self,
        execution: &ExecutionKey,
        after: Option<ActionPlace>,
        limit: usize,
    ) -> Result<Vec<ActionView>> {
        const ACTIONS: &str = "
            SELECT * FROM actions
            WHERE tenant = ?1 AND execution_id = ?2 AND (?3 IS NULL OR (seq, ordinal) > (?3, ?4))
            ORDER BY seq, ordinal
            LIMIT ?5";
        let rows = sqlx::query(ACTIONS)
            .bind(execution.tenant.as_str())
            .bind(execution.execution.as_str())
            .bind(after.map(|after| after.seq.0))
            .bind(after.map(|after| after.ordinal))
            .bind(param::limit(limit))
            .fetch_all(&self.readers)
            .await
            .map_err(store_error)?;
        rows.iter().map(|row| action_view(Fields(row))).collect()
    }

    async fn timers(
        &self,
        execution: &ExecutionKey,
        after: Option<TimerPlace>,
        limit: usize,
    ) -> Result<Vec<TimerView>> {
        const TIMERS: &str = "
            SELECT armed_seq, ordinal, send, fire_at FROM timers
            WHERE tenant = ?1 AND execution_id = ?2
              AND (?3 IS NULL OR (fire_at, armed_seq, ordinal) > (?3, ?4, ?5))
            ORDER BY fire_at, armed_seq, ordinal
            LIMIT ?6";
        let rows = sqlx::query(TIMERS)
            .bind(execution.tenant.as_str())
            .bind(execution.execution.as_str())
            .bind(after.map(|after| after.fire_at.as_millis()))
            .bind(after.map(|after| after.armed_seq.0))
            .bind(after.map(|after| after.ordinal))
            .bind(param::limit(limit))
            .fetch_all(&self.readers)
            .await
            .map_err(store_error)?;
        rows.iter()
            .map(Fields)
            .map(|row| {
                Ok(TimerView {
                    armed_seq: row.seq("armed_seq")?,
                    ordinal: row.small("ordinal")?,
                    send: row.id("send")?,
                    fire_at: row.time("fire_at")?,
                })
            })
            .collect()
    }
}

/// Sizes first, which the row headers answer, then only the rows that fit.
async fn read_history(
    connection: &mut SqliteConnection,
    execution: &ExecutionKey,
    after: Seq,
    limit: usize,
) -> Result<HistoryPage> {
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
    let sizes = sqlx::query(SIZES)
        .bind(execution.tenant.as_str())
        .bind(execution.execution.as_str())
        .bind(after.0)
        .bind(param::limit(limit.saturating_add(1)))
        .fetch_all(&mut *connection)
        .await
        .map_err(store_error)?;
    let sizes = sizes.iter().map(Fields).map(|row| Ok((row.seq("seq")?, row.index("bytes")?)));
    let Some((last, more)) = cut_history(sizes.collect::<Result<Vec<_>>>()?, limit) else {
        return Ok(HistoryPage { entries: Vec::new(), more: More::Nothing });
    };
    let rows = sqlx::query(HISTORY)
        .bind(execution.tenant.as_str())
        .bind(execution.execution.as_str())
        .bind(after.0)
        .bind(last.0)
        .fetch_all(connection)
        .await
        .map_err(store_error)?;
    let entry = |row: Fields<'_>| {
        Ok(HistoryEntry {
            transition: row.transition()?,
            payload: row.raw("payload")?,
            accepted_at: row.time("created_at")?,
            origin: row.origin()?,
        })
    };
    Ok(HistoryPage { entries: rows.iter().map(Fields).map(entry).collect::<Result<_>>()?, more })
}

/// Rows of `executions` into views, one each: the snapshot with the transitions after it.
async fn fold(connection: &mut SqliteConnection, rows: &[SqliteRow]) -> Result<Vec<Result<ExecutionView>>> {
    let is_behind = |row: &Fields<'_>| matches!((row.seq("snapshot_seq"), row.seq("seq")), (Ok(snapshot), Ok(seq)) if snapshot < seq);
    // What cannot be read here is found out below.
    let behind: Vec<ExecutionKey> =
        rows.iter().map(Fields).filter(is_behind).filter_map(|row| row.execution().ok()).collect();
    let mut log = read_log(connection, &behind).await?;
    let view = |row: Fields<'_>| {
        let log = log.remove(&row.execution()?).unwrap_or_default();
        execution_view(row, &log.into_iter().collect::<Result<Vec<_>>>()?)
    };
    Ok(rows.iter().map(Fields).map(view).collect())
}

/// An execution in a list: if its state cannot be decoded, what its row says; if not even that can be
/// read, a line in the log.
fn shown(row: Fields<'_>, view: Result<ExecutionView>) -> Option<ExecutionView> {
    let error = match view {
        Ok(view) => return Some(view),
        Err(error) => error,
    };
    let unreadable = unreadable_view(row, error.to_string());
    if unreadable.is_err() {
        let id = row.text("execution_id").unwrap_or_default();
        tracing::error!(execution.id = id, %error, "an execution cannot be listed");
    }
    unreadable.ok()
}

fn unreadable_view(row: Fields<'_>, why: String) -> Result<ExecutionView> {
    let (phase, seq) = (row.word("phase", Phase::parse)?, row.seq("seq")?);
    let state = State {
        format: FORMAT,
        seq,
        state: row.id("state")?,
        entered_seq: seq,
        phase,
        reason: None,
        context: Context::new(),
        at: row.time("updated_at")?,
    };
    Ok(ExecutionView {
        execution: row.execution()?,
        position: row.accept_no("position")?,
        definition: row.definition()?,
        status: ExecutionStatus::of(phase, row.pause()?),
        state,
        paused_reason: row.opt_text("paused_reason")?,
        unreadable: Some(why),
        created_at: row.time("created_at")?,
        updated_at: row.time("updated_at")?,
    })
}

async fn read_log(
    connection: &mut SqliteConnection,
    behind: &[ExecutionKey],
) -> Result<HashMap<ExecutionKey, Vec<Result<Transition>>>> {
    const READ_LOG: &str = "
        SELECT t.*
        FROM json_each(?1) AS i
        CROSS JOIN executions AS x
            ON x.tenant = i.value ->> 'tenant' AND x.execution_id = i.value ->> 'execution'
        CROSS JOIN transitions AS t
            ON t.tenant = x.tenant AND t.execution_id = x.execution_id AND t.seq > x.snapshot_seq
        ORDER BY i.key, t.seq";
    if behind.is_empty() {
        return Ok(HashMap::new());
    }
    let keys = param::rows(behind.iter().map(ExecutionParam::of))?;
    let rows = sqlx::query(READ_LOG).bind(keys).fetch_all(connection).await.map_err(store_error)?;
    let mut log: HashMap<_, Vec<_>> = HashMap::new();
    for row in rows.iter().map(Fields) {
        log.entry(row.execution()?).or_default().push(row.transition());
    }
    Ok(log)
}

fn execution_view(row: Fields<'_>, log: &[Transition]) -> Result<ExecutionView> {
    let snapshot = row.snapshot()?;
    check_log(&snapshot, log, row.seq("seq")?)?;
    Ok(ExecutionView {
        execution: row.execution()?,
        position: row.accept_no("position")?,
        definition: row.definition()?,
        status: ExecutionStatus::of(row.word("phase", Phase::parse)?, row.pause()?),
        state: log.iter().fold(snapshot, |state, transition| evolve(Some(state), transition)),
        paused_reason: row.opt_text("paused_reason")?,
        unreadable: None,
        created_at: row.time("created_at")?,
        updated_at: row.time("updated_at")?,
    })
}

fn action_view(row: Fields<'_>) -> Result<ActionView> {
    let status = row.word("status", ActionStatus::parse)?;
    let due_at = row.opt_time("due_at")?;
    let (lease_until, next_attempt_at) = match status {
        ActionStatus::Leased => (due_at, None),
        ActionStatus::Ready => (None, due_at),
        ActionStatus::Waiting
        | ActionStatus::Succeeded
        | ActionStatus::Failed
        | ActionStatus::Skipped
        | ActionStatus::Cancelled => (None, None),
    };
    Ok(ActionView {
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
    })
}
