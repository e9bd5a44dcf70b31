//! Views of events for clients and operators.

use std::collections::HashMap;

use async_trait::async_trait;
use millstream_model::id::{AcceptNo, EventId, Seq, TenantId};
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::status_text;
use millstream_store::views::{EventBacklog, EventFilter, EventView, EventViews};
use sqlx::postgres::PgRow;
use sqlx::{PgPool, Row};
use uuid::Uuid;

use crate::connect::PostgresStore;
use crate::connection_cache::WarmConnections;
use crate::decode;
use crate::errors::PostgresResult;

#[async_trait]
impl EventViews for PostgresStore {
    async fn find_events(&self, keys: &[(TenantId, EventId)]) -> StoreResult<Vec<Option<EventView>>> {
        self.without_retries(read_events(&self.warm, keys)).await
    }

    async fn list_events(
        &self,
        tenant: &TenantId,
        filter: &EventFilter,
        after: Option<AcceptNo>,
        limit: usize,
    ) -> StoreResult<Vec<EventView>> {
        self.without_retries(read_event_list(&self.pool, tenant, filter, after, limit)).await
    }

    async fn count_backlog(&self) -> StoreResult<EventBacklog> {
        self.without_retries(read_backlog(&self.pool)).await
    }
}

async fn read_events(
    warm: &WarmConnections,
    keys: &[(TenantId, EventId)],
) -> PostgresResult<Vec<Option<EventView>>> {
    const READ: &str = "
SELECT e.*
FROM unnest($1::text[], $2::uuid[]) AS k(tenant, event_id)
CROSS JOIN LATERAL (
    SELECT e.* FROM event_records e WHERE e.tenant = k.tenant AND e.event_id = k.event_id OFFSET 0) e";
    let tenants: Vec<&str> = keys.iter().map(|(tenant, _)| tenant.as_str()).collect();
    let ids: Vec<Uuid> = keys.iter().map(|(_, event)| event.0).collect();
    let rows = warm.fetch_rows(sqlx::query(READ).bind(&tenants).bind(&ids)).await?;
    let found = rows
        .iter()
        .map(|row| {
            let view = decode_event(row)?;
            Ok(((view.execution.tenant.clone(), view.event_id), view))
        })
        .collect::<PostgresResult<HashMap<_, _>>>()?;
    Ok(keys.iter().map(|key| found.get(key).cloned()).collect())
}

async fn read_event_list(
    pool: &PgPool,
    tenant: &TenantId,
    filter: &EventFilter,
    after: Option<AcceptNo>,
    limit: usize,
) -> PostgresResult<Vec<EventView>> {
    // As the index has it; a status is a filter, a page of a rare one reads far (stuck events are few).
    const OF_TENANT: &str = "
SELECT e.* FROM event_records e
WHERE e.tenant || '' = $1 AND e.accept_no + 0 > $2 AND ($3::text IS NULL OR e.status = $3)
ORDER BY e.accept_no + 0 LIMIT $4";
    const OF_EXECUTION: &str = "
SELECT e.* FROM event_records e
WHERE e.tenant || '' = $1 AND e.accept_no > $2 AND ($3::text IS NULL OR e.status = $3) AND e.execution_id = $5
ORDER BY e.accept_no LIMIT $4";
    let after = after.map_or(0, |after| after.0);
    let status = filter.status.map(|status| status.as_str());
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let sql = if filter.execution.is_some() { OF_EXECUTION } else { OF_TENANT };
    let mut query = sqlx::query(sql).bind(tenant.as_str()).bind(after).bind(status).bind(limit);
    if let Some(execution) = &filter.execution {
        query = query.bind(execution.as_str());
    }
    query.fetch_all(pool).await?.iter().map(decode_event).collect()
}

async fn read_backlog(pool: &PgPool) -> PostgresResult<EventBacklog> {
    const READ: &str = status_text!(
        "
SELECT (SELECT count(*) FROM mailbox WHERE NOT deferred) AS undecided,
       (SELECT min(created_at) FROM mailbox WHERE NOT deferred) AS oldest,
       (SELECT count(*) FROM events WHERE verdict IN ({STUCK_EVENTS}) AND verdict = 'dead') AS dead,
       (SELECT count(*) FROM executions WHERE paused_reason IS NOT NULL AND phase = 'active') AS paused,
       (SELECT count(*) FROM incidents WHERE resolution IS NULL) AS incidents,
       (SELECT count(*) FROM actions WHERE status IN ({OPEN_ACTIONS})) AS open_actions"
    );
    let row = sqlx::query(READ).fetch_one(pool).await?;
    let count = |column: &str| -> PostgresResult<u64> { Ok(row.try_get::<i64, _>(column)?.unsigned_abs()) };
    Ok(EventBacklog {
        undecided: count("undecided")?,
        oldest: row.try_get::<Option<i64>, _>("oldest")?.map(Timestamp::from_millis),
        dead: count("dead")?,
        paused: count("paused")?,
        incidents: count("incidents")?,
        open_actions: count("open_actions")?,
    })
}

fn decode_event(row: &PgRow) -> PostgresResult<EventView> {
    let (from_state, to_state) = match row.try_get::<Option<&str>, _>("decision")? {
        Some(decision) => {
            let decision = decode::decision(decode::seq(row, "seq")?, decision)?;
            (decision.from, Some(decision.to))
        }
        None => (decode::parsed_option(row, "rejected_in")?, None),
    };
    Ok(EventView {
        event_id: decode::event_id(row)?,
        execution: decode::execution_key(row)?,
        accept_no: decode::accept_no(row)?,
        name: decode::parsed(row, "name")?,
        payload: decode::json(row, "payload")?,
        status: decode::parsed(row, "status")?,
        from_state,
        to_state,
        seq: row.try_get::<Option<i64>, _>("seq")?.map(Seq),
        attempts: row.try_get("attempts")?,
        error: row.try_get("error")?,
        actor: row.try_get("actor")?,
        worker_id: decode::parsed_option(row, "worker_id")?,
        created_at: decode::time(row, "created_at")?,
        started_at: decode::time_option(row, "started_at")?,
        completed_at: decode::time_option(row, "completed_at")?,
    })
}
