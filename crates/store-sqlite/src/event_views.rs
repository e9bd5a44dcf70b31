//! Reading events: single ones, lists, and the backlog. Nothing in here writes.

use std::collections::HashMap;

use millstream_core::id::{AcceptNo, EventId, TenantId};
use millstream_core::status::EventStatus;
use millstream_store::Result;
use millstream_store::views::{Backlog, EventFilter, EventView, EventViews};

use crate::connect::SqliteStore;
use crate::decode::Fields;
use crate::errors::store_error;
use crate::param::{self, EventParam};

#[async_trait::async_trait]
impl EventViews for SqliteStore {
    async fn events(&self, keys: &[(TenantId, EventId)]) -> Result<Vec<Option<EventView>>> {
        const EVENTS: &str = "
            SELECT e.*
            FROM json_each(?1) AS i
            CROSS JOIN events AS e ON e.tenant = i.value ->> 'tenant' AND e.event_id = i.value ->> 'event'";
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let rows = sqlx::query(EVENTS)
            .bind(param::rows(keys.iter().map(|(tenant, event)| EventParam::of(tenant, *event)))?)
            .fetch_all(&self.readers)
            .await
            .map_err(store_error)?;
        let mut views = HashMap::new();
        for row in rows.iter().map(Fields) {
            let view = event_view(row)?;
            views.insert((view.execution.tenant.clone(), view.event_id), view);
        }
        Ok(keys.iter().map(|key| views.get(key).cloned()).collect())
    }

    async fn list_events(
        &self,
        tenant: &TenantId,
        filter: &EventFilter,
        after: Option<AcceptNo>,
        limit: usize,
    ) -> Result<Vec<EventView>> {
        // Three texts for three indexes: a condition behind `?n IS NULL OR` finds none.
        const LIST_OF_EXECUTION: &str = "
            SELECT * FROM events
            WHERE tenant = ?1 AND execution_id = ?2 AND accept_no > ?3 AND (?4 IS NULL OR status = ?4)
            ORDER BY accept_no LIMIT ?5";
        const LIST_STUCK: &str = "
            SELECT * FROM events
            WHERE tenant = ?1 AND ?2 IS NULL AND accept_no > ?3
              AND status IN ('failed', 'dead') AND status = ?4
            ORDER BY accept_no LIMIT ?5";
        const LIST_ALL: &str = "
            SELECT * FROM events
            WHERE tenant = ?1 AND ?2 IS NULL AND accept_no > ?3 AND (?4 IS NULL OR status = ?4)
            ORDER BY accept_no LIMIT ?5";
        let statement = match (&filter.execution, filter.status) {
            (Some(_), _) => LIST_OF_EXECUTION,
            (None, Some(EventStatus::Failed | EventStatus::Dead)) => LIST_STUCK,
            (None, _) => LIST_ALL,
        };
        let rows = sqlx::query(statement)
            .bind(tenant.as_str())
            .bind(filter.execution.as_ref().map(|execution| execution.as_str()))
            .bind(after.map_or(0, |after| after.0))
            .bind(filter.status.map(EventStatus::as_str))
            .bind(param::limit(limit))
            .fetch_all(&self.readers)
            .await
            .map_err(store_error)?;
        rows.iter().map(|row| event_view(Fields(row))).collect()
    }

    async fn backlog(&self) -> Result<Backlog> {
        const BACKLOG: &str = "
            SELECT undecided, oldest,
                   (SELECT count(*) FROM events WHERE status IN ('failed', 'dead') AND status = 'dead') AS dead,
                   (SELECT count(*) FROM executions
                    WHERE paused_reason IS NOT NULL AND phase = 'active') AS paused,
                   (SELECT count(*) FROM actions WHERE status IN ('ready', 'leased'))
                       + (SELECT count(*) FROM actions WHERE status = 'waiting') AS open_actions
            FROM (SELECT count(*) AS undecided, min(created_at) AS oldest FROM events
                  WHERE status IN ('pending', 'deferred') AND status = 'pending')";
        let row = sqlx::query(BACKLOG).fetch_one(&self.readers).await.map_err(store_error)?;
        let row = Fields(&row);
        Ok(Backlog {
            undecided: row.count("undecided")?,
            oldest: row.opt_time("oldest")?,
            dead: row.count("dead")?,
            paused: row.count("paused")?,
            open_actions: row.count("open_actions")?,
        })
    }
}

fn event_view(row: Fields<'_>) -> Result<EventView> {
    Ok(EventView {
        event_id: row.event_id("event_id")?,
        execution: row.execution()?,
        accept_no: row.accept_no("accept_no")?,
        name: row.id("name")?,
        payload: row.raw("payload")?,
        status: row.word("status", EventStatus::parse)?,
        from_state: row.opt_id("from_state")?,
        to_state: row.opt_id("to_state")?,
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
