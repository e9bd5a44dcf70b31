//! Decisions about stuck work, each one recorded in the transaction that carries it out.

use std::collections::BTreeMap;

use millstream_core::id::{EventId, ExecutionKey, Name, TenantId};
use millstream_core::status::{ActionStatus, EventStatus};
use millstream_core::time::Timestamp;
use millstream_store::Result;
use millstream_store::intervention::{Burial, Decision, Interventions, RecordedDecision, Retried};
use millstream_store::reopening::{Settled, reopened};
use serde::Serialize;
use sqlx::{SqliteConnection, SqliteExecutor};

use crate::connect::SqliteStore;
use crate::decode::Fields;
use crate::errors::store_error;
use crate::param::{self, ExecutionParam};

#[async_trait::async_trait]
impl Interventions for SqliteStore {
    async fn bury(&self, burials: &[Burial], now: Timestamp) -> Result<()> {
        if burials.is_empty() {
            return Ok(());
        }
        let mut tx = self.write().await?;
        let mut buried = Vec::new();
        for burial in burials {
            // One statement per row: burials are rare, and each one decides whether it is recorded.
            if bury_event(&mut tx, burial, now).await? {
                buried.push(burial);
            }
        }
        let paused: Vec<_> = buried.iter().map(|one| (&one.execution, one.error.as_str())).collect();
        pause_active(&mut tx, &paused, now).await?;
        for burial in buried {
            let by = Decision { actor: None, reason: Some(burial.error.clone()) };
            record(&mut *tx, &burial.execution, Some(burial.event_id), "bury", &by, now).await?;
        }
        tx.commit().await.map_err(store_error)
    }

    async fn pause(&self, executions: &[(ExecutionKey, String)], now: Timestamp) -> Result<()> {
        const PAUSE: &str = "
            UPDATE executions SET paused_reason = ?3, updated_at = ?4
            WHERE tenant = ?1 AND execution_id = ?2 AND paused_reason IS NULL";
        if executions.is_empty() {
            return Ok(());
        }
        let mut tx = self.write().await?;
        for (key, reason) in executions {
            let done = sqlx::query(PAUSE)
                .bind(key.tenant.as_str())
                .bind(key.execution.as_str())
                .bind(reason)
                .bind(now.as_millis())
                .execute(&mut *tx)
                .await
                .map_err(store_error)?;
            if done.rows_affected() > 0 {
                let by = Decision { actor: None, reason: Some(reason.clone()) };
                record(&mut *tx, key, None, "pause", &by, now).await?;
            }
        }
        tx.commit().await.map_err(store_error)
    }

    async fn retry(
        &self,
        tenant: &TenantId,
        event: EventId,
        by: &Decision,
        now: Timestamp,
    ) -> Result<Retried> {
        let mut tx = self.write().await?;
        let Some((execution, status)) = find_event(&mut tx, tenant, event).await? else {
            return Ok(Retried::NotFound);
        };
        match status {
            EventStatus::Dead => reopen_event(&mut tx, tenant, event, EventStatus::Pending).await?,
            EventStatus::Failed => {
                reopen_event(&mut tx, tenant, event, EventStatus::Processing).await?;
                reopen_actions(&mut tx, &execution, event, now).await?;
            }
            EventStatus::Pending
            | EventStatus::Deferred
            | EventStatus::Processing
            | EventStatus::Completed
            | EventStatus::Rejected => return Ok(Retried::NotApplicable { status }),
        }
        resume(&mut tx, &execution, now).await?;
        record(&mut *tx, &execution, Some(event), "retry", by, now).await?;
        tx.commit().await.map_err(store_error)?;
        Ok(Retried::Accepted { execution })
    }

    async fn decisions(&self, execution: &ExecutionKey) -> Result<Vec<RecordedDecision>> {
        const DECISIONS: &str = "
            SELECT event_id, kind, actor, reason, at FROM decisions
            WHERE tenant = ?1 AND execution_id = ?2 ORDER BY id";
        let rows = sqlx::query(DECISIONS)
            .bind(execution.tenant.as_str())
            .bind(execution.execution.as_str())
            .fetch_all(&self.readers)
            .await
            .map_err(store_error)?;
        rows.iter()
            .map(Fields)
            .map(|row| {
                Ok(RecordedDecision {
                    event_id: row.opt_event_id("event_id")?,
                    kind: row.text("kind")?.to_owned(),
                    actor: row.opt_text("actor")?,
                    reason: row.opt_text("reason")?,
                    at: row.time("at")?,
                })
            })
            .collect()
    }
}

/// Pause executions that are active and not paused; whoever paused one first has said why.
pub(crate) async fn pause_active(
    connection: &mut SqliteConnection,
    paused: &[(&ExecutionKey, &str)],
    now: Timestamp,
) -> Result<()> {
    // The first reason of each: with several rows for one execution SQLite would take any of them.
    const PAUSE_ACTIVE: &str = "
        UPDATE executions SET paused_reason = i.reason, updated_at = ?2
        FROM (SELECT value ->> 'tenant' AS tenant, value ->> 'execution' AS execution,
                     value ->> 'reason' AS reason, min(key)
              FROM json_each(?1) GROUP BY 1, 2) AS i
        WHERE executions.tenant = i.tenant AND executions.execution_id = i.execution
          AND executions.phase = 'active' AND executions.paused_reason IS NULL";
    #[derive(Serialize)]
    struct Row<'a> {
        #[serde(flatten)]
        key: ExecutionParam<'a>,
        reason: &'a str,
    }
    if paused.is_empty() {
        return Ok(());
    }
    let rows = paused.iter().map(|(key, reason)| Row { key: ExecutionParam::of(key), reason });
    sqlx::query(PAUSE_ACTIVE)
        .bind(param::rows(rows)?)
        .bind(now.as_millis())
        .execute(connection)
        .await
        .map_err(store_error)?;
    Ok(())
}

/// Whether it was still undecided.
async fn bury_event(connection: &mut SqliteConnection, burial: &Burial, now: Timestamp) -> Result<bool> {
    const BURY_EVENT: &str = "
        UPDATE events SET status = 'dead', error = ?4, completed_at = ?5
        WHERE tenant = ?1 AND execution_id = ?2 AND event_id = ?3 AND status IN ('pending', 'deferred')";
    let done = sqlx::query(BURY_EVENT)
        .bind(burial.execution.tenant.as_str())
        .bind(burial.execution.execution.as_str())
        .bind(burial.event_id.to_string())
        .bind(&burial.error)
        .bind(now.as_millis())
        .execute(connection)
        .await
        .map_err(store_error)?;
    Ok(done.rows_affected() > 0)
}

async fn find_event(
    connection: &mut SqliteConnection,
    tenant: &TenantId,
    event: EventId,
) -> Result<Option<(ExecutionKey, EventStatus)>> {
    const FIND_EVENT: &str =
        "SELECT tenant, execution_id, status FROM events WHERE tenant = ?1 AND event_id = ?2";
    let row = sqlx::query(FIND_EVENT)
        .bind(tenant.as_str())
        .bind(event.to_string())
        .fetch_optional(connection)
        .await
        .map_err(store_error)?;
    row.map(|row| Ok((Fields(&row).execution()?, Fields(&row).word("status", EventStatus::parse)?)))
        .transpose()
}

/// Attempts count deciding, so they start anew only with an event that is to be decided again.
async fn reopen_event(
    connection: &mut SqliteConnection,
    tenant: &TenantId,
    event: EventId,
    status: EventStatus,
) -> Result<()> {
    const REOPEN_EVENT: &str = "
        UPDATE events SET status = ?3, error = NULL, completed_at = NULL,
                          attempts = CASE ?3 WHEN 'pending' THEN 0 ELSE attempts END
        WHERE tenant = ?1 AND event_id = ?2";
    sqlx::query(REOPEN_EVENT)
        .bind(tenant.as_str())
        .bind(event.to_string())
        .bind(status.as_str())
        .execute(connection)
        .await
        .map_err(store_error)?;
    Ok(())
}

async fn reopen_actions(
    connection: &mut SqliteConnection,
    execution: &ExecutionKey,
    event: EventId,
    now: Timestamp,
) -> Result<()> {
    const REOPEN_ACTIONS: &str = "
        UPDATE actions SET
            status = CASE status WHEN 'failed' THEN 'ready' ELSE 'waiting' END,
            due_at = CASE status WHEN 'failed' THEN ?5 END,
            worker_id = NULL, attempts = 0, error = NULL, settled_at = NULL
        WHERE tenant = ?1 AND execution_id = ?2 AND event_id = ?3
          AND action IN (SELECT value FROM json_each(?4))";
    let reopened = reopened(&read_settled(connection, execution, event).await?);
    sqlx::query(REOPEN_ACTIONS)
        .bind(execution.tenant.as_str())
        .bind(execution.execution.as_str())
        .bind(event.to_string())
        .bind(param::rows(reopened.ready.union(&reopened.waiting))?)
        .bind(now.as_millis())
        .execute(connection)
        .await
        .map_err(store_error)?;
    Ok(())
}

async fn read_settled(
    connection: &mut SqliteConnection,
    execution: &ExecutionKey,
    event: EventId,
) -> Result<BTreeMap<Name, Settled>> {
    const READ_SETTLED: &str = "
        SELECT action, needs, status, handled FROM actions
        WHERE tenant = ?1 AND execution_id = ?2 AND event_id = ?3";
    let rows = sqlx::query(READ_SETTLED)
        .bind(execution.tenant.as_str())
        .bind(execution.execution.as_str())
        .bind(event.to_string())
        .fetch_all(connection)
        .await
        .map_err(store_error)?;
    rows.iter()
        .map(Fields)
        .map(|row| {
            let settled = Settled {
                needs: row.needs()?,
                status: row.word("status", ActionStatus::parse)?,
                handling: row.handling()?,
            };
            Ok((row.id("action")?, settled))
        })
        .collect()
}

/// Resume unless another event of the execution is dead or failed.
async fn resume(connection: &mut SqliteConnection, execution: &ExecutionKey, now: Timestamp) -> Result<()> {
    const RESUME: &str = "
        UPDATE executions SET paused_reason = NULL, updated_at = ?3
        WHERE tenant = ?1 AND execution_id = ?2 AND NOT EXISTS (
            SELECT 1 FROM events AS e
            WHERE e.tenant = ?1 AND e.execution_id = ?2 AND e.status IN ('failed', 'dead'))";
    sqlx::query(RESUME)
        .bind(execution.tenant.as_str())
        .bind(execution.execution.as_str())
        .bind(now.as_millis())
        .execute(connection)
        .await
        .map_err(store_error)?;
    Ok(())
}

async fn record(
    executor: impl SqliteExecutor<'_>,
    execution: &ExecutionKey,
    event: Option<EventId>,
    kind: &str,
    by: &Decision,
    now: Timestamp,
) -> Result<()> {
    const RECORD: &str = "
        INSERT INTO decisions (tenant, execution_id, event_id, kind, actor, reason, at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    sqlx::query(RECORD)
        .bind(execution.tenant.as_str())
        .bind(execution.execution.as_str())
        .bind(event.map(|event| event.to_string()))
        .bind(kind)
        .bind(&by.actor)
        .bind(&by.reason)
        .bind(now.as_millis())
        .execute(executor)
        .await
        .map_err(store_error)?;
    Ok(())
}
