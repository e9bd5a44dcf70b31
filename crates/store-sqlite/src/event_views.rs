//! Views of events: single ones, lists, and the backlog. Read-only.

use millstream_model::id::{AcceptNo, EventId, TenantId};
use millstream_model::status::EventStatus;
use millstream_store::StoreResult;
use millstream_store::status_text;
use millstream_store::views::{EventBacklog, EventFilter, EventView, EventViews};

use crate::connect::SqliteStore;
use crate::decode::SqliteFields;
use crate::errors::SqliteResult;
use crate::param;

#[async_trait::async_trait]
impl EventViews for SqliteStore {
    async fn find_events(&self, keys: &[(TenantId, EventId)]) -> StoreResult<Vec<Option<EventView>>> {
        const EVENT: &str = "SELECT * FROM event_records WHERE tenant = ?1 AND event_id = ?2";
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let keys = keys.to_vec();
        self.read_transaction(move |connection| {
            let mut read = connection.prepare_cached(EVENT)?;
            keys.iter()
                .map(|(tenant, event)| {
                    let mut rows = read.query((tenant.as_str(), event.0.as_bytes()))?;
                    rows.next()?.map(|row| event_view(SqliteFields(row))).transpose()
                })
                .collect()
        })
        .await
    }

    async fn list_events(
        &self,
        tenant: &TenantId,
        filter: &EventFilter,
        after: Option<AcceptNo>,
        limit: usize,
    ) -> StoreResult<Vec<EventView>> {
        let (tenant, filter) = (tenant.clone(), filter.clone());
        self.read_transaction(move |connection| {
            let mut list = connection.prepare_cached(list_statement(&filter))?;
            let mut rows = list.query((
                tenant.as_str(),
                filter.execution.as_ref().map(|execution| execution.as_str()),
                after.map_or(0, |after| after.0),
                filter.status.map(EventStatus::as_str),
                param::limit(limit),
            ))?;
            let mut views = Vec::new();
            while let Some(row) = rows.next()? {
                views.push(event_view(SqliteFields(row))?);
            }
            Ok(views)
        })
        .await
    }

    async fn count_backlog(&self) -> StoreResult<EventBacklog> {
        const BACKLOG: &str = status_text!(
            "
            SELECT undecided, oldest,
                   (SELECT count(*) FROM events
                    WHERE verdict IN ({STUCK_EVENTS}) AND verdict = 'dead') AS dead,
                   (SELECT count(*) FROM executions
                    WHERE paused_reason IS NOT NULL AND phase = 'active') AS paused,
                   (SELECT count(*) FROM incidents WHERE resolution IS NULL) AS incidents,
                   (SELECT count(*) FROM actions WHERE settled_at IS NULL) AS open_actions
            FROM (SELECT count(*) AS undecided, min(created_at) AS oldest FROM mailbox WHERE deferred = 0)"
        );
        self.read_transaction(|connection| {
            let mut read = connection.prepare_cached(BACKLOG)?;
            let mut rows = read.query(())?;
            let Some(row) = rows.next()? else { return Ok(EventBacklog::default()) };
            let row = SqliteFields(row);
            Ok(EventBacklog {
                undecided: row.count("undecided")?,
                oldest: row.opt_time("oldest")?,
                dead: row.count("dead")?,
                paused: row.count("paused")?,
                incidents: row.count("incidents")?,
                open_actions: row.count("open_actions")?,
            })
        })
        .await
    }
}

/// A statement per index: a condition behind `?n IS NULL OR` uses no index.
fn list_statement(filter: &EventFilter) -> &'static str {
    const OF_EXECUTION: &str = "
        SELECT * FROM event_records
        WHERE tenant = ?1 AND execution_id = ?2 AND accept_no > ?3 AND (?4 IS NULL OR status = ?4)
        ORDER BY accept_no LIMIT ?5";
    const STUCK: &str = status_text!(
        "
        SELECT * FROM event_records
        WHERE ?2 IS NULL AND accept_no IN (
            SELECT accept_no FROM events
            WHERE tenant = ?1 AND verdict IN ({STUCK_EVENTS}) AND verdict = ?4 AND accept_no > ?3
            ORDER BY accept_no LIMIT ?5)
        ORDER BY accept_no"
    );
    const WAITING: &str = "
        SELECT * FROM event_records
        WHERE ?2 IS NULL AND accept_no IN (
            SELECT accept_no FROM mailbox
            WHERE tenant = ?1 AND accept_no > ?3 AND deferred = (?4 = 'deferred')
            ORDER BY accept_no LIMIT ?5)
        ORDER BY accept_no";
    const ALL: &str = "
        SELECT * FROM event_records
        WHERE tenant = ?1 AND ?2 IS NULL AND accept_no > ?3 AND (?4 IS NULL OR status = ?4)
        ORDER BY accept_no LIMIT ?5";
    match (&filter.execution, filter.status) {
        (Some(_), _) => OF_EXECUTION,
        (None, Some(EventStatus::Failed | EventStatus::Dead)) => STUCK,
        (None, Some(EventStatus::Pending | EventStatus::Deferred)) => WAITING,
        (None, Some(EventStatus::Processing | EventStatus::Completed | EventStatus::Rejected) | None) => ALL,
    }
}

fn event_view(row: SqliteFields<'_>) -> SqliteResult<EventView> {
    let decision = match row.opt_str("decision")? {
        Some(_) => Some(row.decision()?),
        None => None,
    };
    let (from_state, to_state) = match decision {
        Some(decision) => (decision.from, Some(decision.to)),
        None => (row.opt_id("rejected_in")?, None),
    };
    Ok(EventView {
        event_id: row.event_id("event_id")?,
        execution: row.execution()?,
        accept_no: row.accept_no("accept_no")?,
        name: row.id("name")?,
        payload: row.raw("payload")?,
        status: row.word("status", EventStatus::parse)?,
        from_state,
        to_state,
        seq: row.opt_seq("seq")?,
        attempts: row.small("attempts")?,
        error: row.opt_text("error")?,
        actor: row.opt_text("actor")?,
        worker_id: row.opt_id("worker_id")?,
        created_at: row.time("created_at")?,
        started_at: row.opt_time("started_at")?,
        completed_at: row.opt_time("completed_at")?,
    })
}
