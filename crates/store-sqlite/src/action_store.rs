//! Leases on actions: take, renew, give back, and writes under a lease. The epoch is the fence in every
//! statement; a lease that expired without another lease on the action is still held.

use millstream_model::id::WorkerId;
use millstream_model::raw::RawJson;
use millstream_model::status::ExecutionPhase;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::action_store::{
    ActionStore, Lease, LeaseHeartbeat, LeasePulse, LeasedAction, OutcomeDemand, SettledBatch, Settlement,
};
use millstream_store::execution_store::LeaseGrant;
use millstream_store::status_text;
use rusqlite::Connection;

use crate::connect::SqliteStore;
use crate::decode::SqliteFields;
use crate::errors::SqliteResult;
use crate::leasing::{is_any_due, lease_due};
use crate::param::{self, lease_columns};
use crate::settle::settle_batch;

#[async_trait::async_trait]
impl ActionStore for SqliteStore {
    async fn lease_each(
        &self,
        takers: &[WorkerId],
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> StoreResult<Vec<LeasedAction>> {
        let queues = grant.queues.clone();
        if grant.slots == 0
            || !self.read_transaction(move |connection| is_any_due(connection, &queues, now)).await?
        {
            return Ok(Vec::new());
        }
        let (takers, grant) = (takers.to_vec(), grant.clone());
        self.write_transaction(move |connection| lease_due(connection, &takers, &grant, now)).await
    }

    async fn renew_leases(
        &self,
        beats: &[LeaseHeartbeat],
        worker: &WorkerId,
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> StoreResult<Vec<LeasePulse>> {
        if beats.is_empty() {
            return Ok(Vec::new());
        }
        let (beats, worker, ttl) = (beats.to_vec(), worker.clone(), param::millis(grant.ttl));
        self.write_transaction(move |connection| {
            beats.iter().map(|beat| renew_lease(connection, beat, &worker, ttl, now)).collect()
        })
        .await
    }

    async fn record_inputs(&self, inputs: &[(Lease, RawJson)]) -> StoreResult<Vec<bool>> {
        const RECORD_INPUT: &str = "
            UPDATE actions SET input = coalesce(input, ?6)
            WHERE tenant = ?1 AND execution_id = ?2 AND seq = ?3 AND action = ?4 AND epoch = ?5
              AND status = 'leased'";
        if inputs.is_empty() {
            return Ok(Vec::new());
        }
        let inputs = inputs.to_vec();
        self.write_transaction(move |connection| {
            let mut record = connection.prepare_cached(RECORD_INPUT)?;
            inputs
                .iter()
                .map(|(lease, input)| {
                    let (tenant, execution, seq, action, epoch) = lease_columns(lease);
                    Ok(record.execute((tenant, execution, seq, action, epoch, input.as_str()))? > 0)
                })
                .collect()
        })
        .await
    }

    async fn settle_actions(
        &self,
        worker: &WorkerId,
        batch: &[Settlement],
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> StoreResult<SettledBatch> {
        if batch.is_empty() {
            return Ok(SettledBatch::default());
        }
        let (worker, batch, grant) = (worker.clone(), batch.to_vec(), grant.clone());
        self.write_transaction(move |connection| settle_batch(connection, &worker, &batch, &grant, now)).await
    }

    async fn release_leases(&self, leases: &[Lease], now: Timestamp) -> StoreResult<()> {
        // An action that only this attempt has begun must again begin in time.
        const RELEASE: &str = "
            UPDATE actions SET
                status = 'ready', due_at = ?6, worker_id = NULL, attempts = max(attempts - (NOT closing), 0),
                attempt_until = NULL,
                expires_at = ready_at + CASE WHEN attempts > 1 THEN close_ms
                    ELSE coalesce(min(start_ms, close_ms), start_ms, close_ms) END
            WHERE tenant = ?1 AND execution_id = ?2 AND seq = ?3 AND action = ?4 AND epoch = ?5
              AND status = 'leased'";
        if leases.is_empty() {
            return Ok(());
        }
        let leases = leases.to_vec();
        self.write_transaction(move |connection| {
            let mut release = connection.prepare_cached(RELEASE)?;
            for lease in &leases {
                let (tenant, execution, seq, action, epoch) = lease_columns(lease);
                release.execute((tenant, execution, seq, action, epoch, now.as_millis()))?;
            }
            Ok(())
        })
        .await
    }
}

fn renew_lease(
    connection: &Connection,
    beat: &LeaseHeartbeat,
    worker: &WorkerId,
    ttl: i64,
    now: Timestamp,
) -> SqliteResult<LeasePulse> {
    const RENEW: &str = status_text!(
        "
        UPDATE actions SET
            due_at = CASE status WHEN 'leased'
                     THEN min(?6 + coalesce(heartbeat_ms, attempt_ms, ?7),
                              coalesce(attempt_until, ?6 + coalesce(heartbeat_ms, attempt_ms, ?7)))
                     ELSE due_at END,
            worker_id = CASE status WHEN 'leased' THEN ?8 ELSE worker_id END,
            progress = coalesce(?9, progress)
        WHERE tenant = ?1 AND execution_id = ?2 AND seq = ?3 AND action = ?4 AND epoch = ?5
          AND status IN ({FENCED_ACTIONS})
        RETURNING coalesce(due_at, ?6),
            (SELECT phase FROM executions AS x
             WHERE x.tenant = actions.tenant AND x.execution_id = actions.execution_id),
            (SELECT t.name FROM executions AS x
             CROSS JOIN transitions AS t
                 ON t.tenant = x.tenant AND t.execution_id = x.execution_id AND t.seq = x.seq
             WHERE x.tenant = actions.tenant AND x.execution_id = actions.execution_id),
            (SELECT definition FROM executions AS x
             WHERE x.tenant = actions.tenant AND x.execution_id = actions.execution_id)"
    );
    let (tenant, execution, seq, action, epoch) = lease_columns(&beat.lease);
    let mut renew = connection.prepare_cached(RENEW)?;
    let mut rows = renew.query((
        tenant,
        execution,
        seq,
        action,
        epoch,
        now.as_millis(),
        ttl,
        worker.as_str(),
        beat.progress.as_ref().map(RawJson::as_str),
    ))?;
    let Some(row) = rows.next()? else { return Ok(LeasePulse::Lost) };
    let row = SqliteFields(row);
    let wanted = OutcomeDemand::of_execution(
        row.word(1, ExecutionPhase::parse)?,
        &row.id(3)?,
        row.opt_id(2)?.as_ref(),
    );
    Ok(LeasePulse::Held { until: row.time(0)?, wanted })
}
