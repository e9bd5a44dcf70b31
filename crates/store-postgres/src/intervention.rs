//! Decisions about stuck work. Locks: executions, then events, then actions.

use std::collections::{BTreeSet, HashMap};

use async_trait::async_trait;
use millstream_model::id::{DefinitionRef, EventId, ExecutionKey, TenantId};
use millstream_model::status::EventStatus;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::incidents::opens_incident;
use millstream_store::intervention::{
    DecisionRecord, EventBurial, ExecutionPause, Interventions, RecordedDecision, RetryVerdict,
};
use millstream_store::reopening::{ReopenCandidate, choose_reopened};
use millstream_store::status_text;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use crate::connect::PostgresStore;
use crate::decode;
use crate::errors::PostgresResult;
use crate::execution_store::{KeyColumns, LOCK_EXECUTIONS};
use crate::incident_rows::{self, OpenedIncident};
use crate::{action_groups, action_rows};

#[async_trait]
impl Interventions for PostgresStore {
    async fn bury_events(&self, burials: &[EventBurial], now: Timestamp) -> StoreResult<()> {
        if burials.is_empty() {
            return Ok(());
        }
        self.with_retries(|| self.bury_once(burials, now)).await
    }

    async fn pause_executions(&self, pauses: &[ExecutionPause], now: Timestamp) -> StoreResult<()> {
        if pauses.is_empty() {
            return Ok(());
        }
        self.with_retries(|| self.pause_once(pauses, now)).await
    }

    async fn retry_event(
        &self,
        tenant: &TenantId,
        event: EventId,
        by: &DecisionRecord,
        now: Timestamp,
    ) -> StoreResult<RetryVerdict> {
        self.with_retries(|| self.retry_once(tenant, event, by, now)).await
    }

    async fn list_decisions(&self, execution: &ExecutionKey) -> StoreResult<Vec<RecordedDecision>> {
        const READ: &str = "
SELECT event_id, kind, actor, reason, at FROM decisions
WHERE tenant = $1 AND execution_id = $2 ORDER BY id";
        self.without_retries(async {
            let rows = sqlx::query(READ)
                .bind(execution.tenant.as_str())
                .bind(execution.execution.as_str())
                .fetch_all(&self.pool)
                .await?;
            rows.iter()
                .map(|row| {
                    Ok(RecordedDecision {
                        event_id: row.try_get::<Option<Uuid>, _>("event_id")?.map(EventId),
                        kind: row.try_get("kind")?,
                        actor: row.try_get("actor")?,
                        reason: row.try_get("reason")?,
                        at: decode::time(row, "at")?,
                    })
                })
                .collect()
        })
        .await
    }
}

impl PostgresStore {
    async fn bury_once(&self, burials: &[EventBurial], now: Timestamp) -> PostgresResult<()> {
        const BURY: &str = "
WITH taken AS (
    DELETE FROM mailbox m
    USING unnest($1::text[], $2::text[], $3::uuid[], $4::text[]) AS k(tenant, execution_id, event_id, error)
    JOIN events e ON e.tenant = k.tenant AND e.event_id = k.event_id AND e.execution_id = k.execution_id
    WHERE m.tenant = e.tenant AND m.execution_id = e.execution_id AND m.accept_no = e.accept_no
    RETURNING e.tenant, e.event_id, k.error
), buried AS (
    UPDATE events e
    SET verdict = 'dead', error = t.error, closed_at = $5
    FROM taken t
    WHERE e.tenant = t.tenant AND e.event_id = t.event_id
    RETURNING e.tenant, e.execution_id, e.event_id, e.accept_no, e.error
), paused AS (
    UPDATE executions x
    SET paused_reason = b.error, updated_at = $5
    FROM (SELECT DISTINCT ON (tenant, execution_id) * FROM buried
          ORDER BY tenant, execution_id, accept_no) b
    WHERE x.tenant = b.tenant AND x.execution_id = b.execution_id
      AND x.phase = 'active' AND x.paused_reason IS NULL
)
INSERT INTO decisions (tenant, execution_id, event_id, kind, reason, at)
SELECT b.tenant, b.execution_id, b.event_id, 'bury', b.error, $5 FROM buried b ORDER BY b.accept_no
RETURNING tenant, event_id";
        let keys: KeyColumns<'_> = burials.iter().map(|burial| &burial.execution).collect();
        let mut held = self.warm.hold_pooled().await?;
        let mut transaction = held.begin().await?;
        let locked = keys.bound(LOCK_EXECUTIONS).fetch_all(&mut *transaction).await?;
        let rows = keys
            .bound(BURY)
            .bind(burials.iter().map(|burial| burial.event_id.0).collect::<Vec<Uuid>>())
            .bind(burials.iter().map(|burial| decode::strip_nul(&burial.error)).collect::<Vec<_>>())
            .bind(now.as_millis())
            .fetch_all(&mut *transaction)
            .await?;
        let buried = rows
            .iter()
            .map(|row| Ok((decode::parsed(row, "tenant")?, decode::event_id(row)?)))
            .collect::<PostgresResult<BTreeSet<(TenantId, EventId)>>>()?;
        open_incidents(&mut transaction, burials, &locked, buried, now).await?;
        transaction.commit().await?;
        Ok(())
    }

    async fn pause_once(&self, pauses: &[ExecutionPause], now: Timestamp) -> PostgresResult<()> {
        const PAUSE: &str = "
WITH paused AS (
    UPDATE executions x
    SET paused_reason = k.reason, updated_at = $4
    FROM unnest($1::text[], $2::text[], $3::text[]) AS k(tenant, execution_id, reason)
    WHERE x.tenant = k.tenant AND x.execution_id = k.execution_id AND x.paused_reason IS NULL
    RETURNING x.tenant, x.execution_id, x.paused_reason
)
INSERT INTO decisions (tenant, execution_id, kind, reason, at)
SELECT p.tenant, p.execution_id, 'pause', p.paused_reason, $4 FROM paused p";
        let keys: KeyColumns<'_> = pauses.iter().map(|pause| &pause.execution).collect();
        let mut held = self.warm.hold_pooled().await?;
        let mut transaction = held.begin().await?;
        keys.bound(LOCK_EXECUTIONS).execute(&mut *transaction).await?;
        keys.bound(PAUSE)
            .bind(pauses.iter().map(|pause| decode::strip_nul(&pause.incident.reason)).collect::<Vec<_>>())
            .bind(now.as_millis())
            .execute(&mut *transaction)
            .await?;
        open_unreadable(&mut transaction, pauses, now).await?;
        transaction.commit().await?;
        Ok(())
    }

    async fn retry_once(
        &self,
        tenant: &TenantId,
        event: EventId,
        by: &DecisionRecord,
        now: Timestamp,
    ) -> PostgresResult<RetryVerdict> {
        const FIND: &str = "SELECT tenant, execution_id FROM events WHERE tenant = $1 AND event_id = $2";
        const LOCK: &str = "SELECT FROM events WHERE tenant = $1 AND event_id = $2 FOR NO KEY UPDATE";
        const READ: &str = "SELECT status FROM event_records WHERE tenant = $1 AND event_id = $2";
        let mut held = self.warm.hold_pooled().await?;
        let mut transaction = held.begin().await?;
        let found = sqlx::query(FIND).bind(tenant.as_str()).bind(event.0);
        let Some(row) = found.fetch_optional(&mut *transaction).await? else {
            return Ok(RetryVerdict::NotFound);
        };
        let execution = decode::execution_key(&row)?;
        let keys: KeyColumns<'_> = std::iter::once(&execution).collect();
        keys.bound(LOCK_EXECUTIONS).execute(&mut *transaction).await?;
        sqlx::query(LOCK).bind(tenant.as_str()).bind(event.0).execute(&mut *transaction).await?;
        // In a statement of its own: its snapshot includes the commits that the locks waited for.
        let read = sqlx::query(READ).bind(tenant.as_str()).bind(event.0);
        let Some(row) = read.fetch_optional(&mut *transaction).await? else {
            return Ok(RetryVerdict::NotFound);
        };
        let status: EventStatus = decode::parsed(&row, "status")?;
        match status {
            EventStatus::Dead => reopen_dead(&mut transaction, tenant, &[event].into()).await?,
            EventStatus::Failed => reopen_actions(&mut transaction, &execution, event).await?,
            EventStatus::Pending
            | EventStatus::Deferred
            | EventStatus::Processing
            | EventStatus::Completed
            | EventStatus::Rejected => return Ok(RetryVerdict::NotApplicable { status }),
        }
        resume_execution(&mut transaction, &execution, event, by, now).await?;
        incident_rows::resolve_of_retried(&mut transaction, &execution, event, by, now).await?;
        transaction.commit().await?;
        Ok(RetryVerdict::Accepted { execution })
    }
}

/// For the events that were just buried, each once.
async fn open_incidents(
    connection: &mut PgConnection,
    burials: &[EventBurial],
    locked: &[PgRow],
    mut buried: BTreeSet<(TenantId, EventId)>,
    now: Timestamp,
) -> PostgresResult<()> {
    let mut executions = HashMap::new();
    for row in locked {
        if opens_incident(decode::parsed(row, "phase")?, None) {
            executions.insert(decode::execution_key(row)?, decode::definition_ref(row)?);
        }
    }
    let mut incidents = Vec::with_capacity(buried.len());
    for EventBurial { execution, event_id, incident, .. } in burials {
        let Some(definition) = executions.get(execution) else { continue };
        if buried.remove(&(execution.tenant.clone(), *event_id)) {
            incidents.push(OpenedIncident {
                execution,
                definition,
                event_id: *event_id,
                action: None,
                incident,
            });
        }
    }
    incident_rows::open(connection, &incidents, now).await
}

/// For undecodable executions, of the event that waits first, or of the last one if none waits. An execution
/// with an open incident gets no second one.
async fn open_unreadable(
    connection: &mut PgConnection,
    pauses: &[ExecutionPause],
    now: Timestamp,
) -> PostgresResult<()> {
    const READ: &str = "
SELECT x.tenant, x.execution_id, x.definition, x.version, coalesce(first.event_id, last.event_id) AS event_id
FROM unnest($1::text[], $2::text[]) AS k(tenant, execution_id)
JOIN executions x ON x.tenant = k.tenant AND x.execution_id = k.execution_id
LEFT JOIN LATERAL (
    SELECT m.event_id FROM mailbox m
    WHERE m.tenant = x.tenant AND m.execution_id = x.execution_id
    ORDER BY m.accept_no LIMIT 1) first ON TRUE
LEFT JOIN LATERAL (
    SELECT e.event_id FROM events e
    WHERE e.tenant || '' = x.tenant AND e.execution_id = x.execution_id
    ORDER BY e.accept_no DESC LIMIT 1) last ON TRUE
WHERE coalesce(first.event_id, last.event_id) IS NOT NULL
  AND NOT EXISTS (
    SELECT FROM incidents i
    WHERE i.tenant = x.tenant AND i.execution_id = x.execution_id AND i.resolution IS NULL)";
    let keys: KeyColumns<'_> = pauses.iter().map(|pause| &pause.execution).collect();
    let rows = keys.bound(READ).fetch_all(&mut *connection).await?;
    let mut found: HashMap<ExecutionKey, (DefinitionRef, EventId)> = HashMap::new();
    for row in &rows {
        found.insert(decode::execution_key(row)?, (decode::definition_ref(row)?, decode::event_id(row)?));
    }
    let mut incidents = Vec::with_capacity(found.len());
    for ExecutionPause { execution, incident } in pauses {
        // Each once, even if it is named twice.
        let Some((execution, (definition, event_id))) = found.remove_entry(execution) else { continue };
        incidents.push((execution, definition, event_id, incident));
    }
    let opened: Vec<OpenedIncident<'_>> = incidents
        .iter()
        .map(|(execution, definition, event_id, incident)| OpenedIncident {
            execution,
            definition,
            event_id: *event_id,
            action: None,
            incident,
        })
        .collect();
    incident_rows::open(connection, &opened, now).await
}

/// Dead events become undecided, at their old places. Their executions are locked.
pub(crate) async fn reopen_dead(
    connection: &mut PgConnection,
    tenant: &TenantId,
    events: &BTreeSet<EventId>,
) -> PostgresResult<()> {
    const REOPEN: &str = "
WITH reopened AS (
    UPDATE events e SET verdict = NULL, attempts = 0, error = NULL, closed_at = NULL
    FROM unnest($2::uuid[]) AS k(event_id)
    WHERE e.tenant = $1 AND e.event_id = k.event_id
    RETURNING e.*
)
INSERT INTO mailbox (tenant, execution_id, accept_no, event_id, bytes, cancels, created_at)
SELECT r.tenant, r.execution_id, r.accept_no, r.event_id, octet_length(r.payload),
       r.name IN ('millstream.cancel', 'millstream.fail'), r.created_at
FROM reopened r";
    if events.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = events.iter().map(|event| event.0).collect();
    sqlx::query(REOPEN).bind(tenant.as_str()).bind(&ids).execute(connection).await?;
    Ok(())
}

/// The event's row is locked, so no settlement changes these actions meanwhile.
async fn reopen_actions(
    connection: &mut PgConnection,
    execution: &ExecutionKey,
    event: EventId,
) -> PostgresResult<()> {
    const READ: &str = "
SELECT a.action, a.needs, a.status, a.handled
FROM transitions t
JOIN actions a ON a.tenant = t.tenant AND a.execution_id = t.execution_id AND a.seq = t.seq
WHERE t.tenant || '' = $1 AND t.event_id = $2";
    const REOPEN: &str = "
WITH clock AS MATERIALIZED (
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now
), event AS (
    UPDATE events SET verdict = NULL, error = NULL, closed_at = NULL
    WHERE tenant = $1 AND event_id = $3
), transition AS (
    SELECT seq FROM transitions WHERE tenant || '' = $1 AND event_id = $3
)
UPDATE actions a
SET status = CASE WHEN a.status = 'failed' THEN 'ready' ELSE 'waiting' END,
    due_at = CASE WHEN a.status = 'failed' THEN clock.now END,
    ready_at = CASE WHEN a.status = 'failed' THEN clock.now ELSE a.ready_at END,
    expires_at = CASE WHEN a.status = 'failed' THEN clock.now + least(a.start_ms, a.close_ms) END,
    worker_id = CASE WHEN a.status = 'failed' THEN NULL ELSE a.worker_id END,
    attempts = 0, error = NULL, settled_at = NULL
FROM clock, transition t
WHERE a.tenant = $1 AND a.execution_id = $2 AND a.seq = t.seq AND a.action = ANY($4)";
    let rows =
        sqlx::query(READ).bind(execution.tenant.as_str()).bind(event.0).fetch_all(&mut *connection).await?;
    let settled = |row: &PgRow| {
        let settled = ReopenCandidate {
            needs: action_rows::decode_needs(row)?,
            status: decode::parsed(row, "status")?,
            handling: action_groups::decode_handling(row)?,
        };
        Ok((decode::parsed(row, "action")?, settled))
    };
    let reopened = choose_reopened(&rows.iter().map(settled).collect::<PostgresResult<_>>()?);
    let names: Vec<&str> = reopened.ready.union(&reopened.waiting).map(|name| name.as_str()).collect();
    sqlx::query(REOPEN)
        .bind(execution.tenant.as_str())
        .bind(execution.execution.as_str())
        .bind(event.0)
        .bind(&names)
        .execute(connection)
        .await?;
    Ok(())
}

/// Resumes the execution unless it has another dead or failed event. Every retry is recorded.
async fn resume_execution(
    connection: &mut PgConnection,
    execution: &ExecutionKey,
    event: EventId,
    by: &DecisionRecord,
    now: Timestamp,
) -> PostgresResult<()> {
    const RESUME: &str = status_text!("
WITH resumed AS (
    UPDATE executions x SET paused_reason = NULL, updated_at = $6
    WHERE x.tenant = $1 AND x.execution_id = $2
      AND NOT EXISTS (
        SELECT FROM events e
        WHERE e.tenant || '' = $1 AND e.execution_id = $2 AND e.event_id <> $3 AND e.verdict IN ({STUCK_EVENTS}))
)
INSERT INTO decisions (tenant, execution_id, event_id, kind, actor, reason, at)
VALUES ($1, $2, $3, 'retry', $4, $5, $6)");
    sqlx::query(RESUME)
        .bind(execution.tenant.as_str())
        .bind(execution.execution.as_str())
        .bind(event.0)
        .bind(by.actor.as_deref().map(decode::strip_nul))
        .bind(by.reason.as_deref().map(decode::strip_nul))
        .bind(now.as_millis())
        .execute(connection)
        .await?;
    Ok(())
}
