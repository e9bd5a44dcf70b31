//! Leases on actions that are held. Taking them and settling have their own files: almost every outcome is
//! recorded by one statement ([`settle_plain`]), the remaining ones after it ([`settle`]).
//!
//! Every statement names the epoch of its lease (fencing), and locks the actions in the order of their keys.
//! Renewals use their own connections. The condition on the status is written so that plans do not use the
//! index of due actions (see [`crate`]).

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use millstream_model::id::{Epoch, WorkerId};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::action_store::{
    ActionStore, Lease, LeaseHeartbeat, LeasePulse, LeasedAction, OutcomeDemand, SettleVerdict, SettledBatch,
    Settlement,
};
use millstream_store::execution_store::LeaseGrant;
use millstream_store::status_text;
use sqlx::postgres::PgRow;
use sqlx::{PgPool, Row};

use crate::action_rows::{ActionColumns, millis, unwanted};
use crate::connect::PostgresStore;
use crate::errors::PostgresResult;
use crate::{decode, leasing, settle, settle_plain};

#[async_trait]
impl ActionStore for PostgresStore {
    async fn lease_each(
        &self,
        takers: &[WorkerId],
        grant: &LeaseGrant,
        _now: Timestamp,
    ) -> StoreResult<Vec<LeasedAction>> {
        if grant.slots == 0 || takers.is_empty() {
            return Ok(Vec::new());
        }
        self.with_retries(|| leasing::lease_due(&self.pool, takers, grant)).await
    }

    async fn renew_leases(
        &self,
        beats: &[LeaseHeartbeat],
        _worker: &WorkerId,
        grant: &LeaseGrant,
        _now: Timestamp,
    ) -> StoreResult<Vec<LeasePulse>> {
        if beats.is_empty() {
            return Ok(Vec::new());
        }
        self.with_retries(|| renew_held(&self.leases, beats, grant)).await
    }

    async fn record_inputs(&self, inputs: &[(Lease, RawJson)]) -> StoreResult<Vec<bool>> {
        if inputs.is_empty() {
            return Ok(Vec::new());
        }
        self.with_retries(|| write_inputs(&self.pool, inputs)).await
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
        let recorded = self.with_retries(|| settle_plain::settle(&self.warm, batch, now)).await?;
        let left = batch.iter().zip(&recorded).filter(|(_, recorded)| recorded.is_none());
        let rest: Vec<Settlement> = left.map(|(settlement, _)| settlement.clone()).collect();
        let mut careful = SettledBatch::default();
        if !rest.is_empty() {
            let settle = || settle::settle_carefully(&self.warm, worker, &rest, grant, now);
            careful = self.with_retries(settle).await?;
        }
        let mut others = careful.verdicts.into_iter();
        let verdicts = recorded
            .into_iter()
            .map(|recorded| recorded.or_else(|| others.next()).unwrap_or(SettleVerdict::Stale))
            .collect();
        Ok(SettledBatch { verdicts, ..careful })
    }

    async fn release_leases(&self, leases: &[Lease], _now: Timestamp) -> StoreResult<()> {
        if leases.is_empty() {
            return Ok(());
        }
        self.with_retries(|| release_held(&self.pool, leases)).await
    }
}

async fn renew_held(
    pool: &PgPool,
    beats: &[LeaseHeartbeat],
    grant: &LeaseGrant,
) -> PostgresResult<Vec<LeasePulse>> {
    const RENEW: &str = status_text!(concat!(
        "
WITH clock AS MATERIALIZED (
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now
), held AS MATERIALIZED (
    SELECT a.*, k.progress
    FROM (SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bigint[], $7::text[])
              AS u(tenant, execution_id, seq, action, epoch, progress)
          ORDER BY u.tenant COLLATE \"C\", u.execution_id COLLATE \"C\", u.seq, u.action COLLATE \"C\") k
    CROSS JOIN LATERAL (
        SELECT a.tenant, a.execution_id, a.seq, a.action FROM actions a
        WHERE a.tenant = k.tenant AND a.execution_id = k.execution_id AND a.seq = k.seq AND a.action = k.action
          AND CASE WHEN a.status IN ({FENCED_ACTIONS}) THEN a.epoch END = k.epoch
        FOR NO KEY UPDATE) a
), renewed AS (
    UPDATE actions a
    SET due_at = CASE a.status WHEN 'leased'
                 THEN least(clock.now + coalesce(a.heartbeat_ms, a.attempt_ms, $6), a.attempt_until)
                 ELSE a.due_at END,
        progress = coalesce(h.progress, a.progress)
    FROM held h, clock
    WHERE a.tenant = h.tenant AND a.execution_id = h.execution_id AND a.seq = h.seq AND a.action = h.action
    RETURNING a.tenant, a.execution_id, a.seq, a.action, a.epoch, coalesce(a.due_at, clock.now) AS due_at
)
SELECT r.*, x.unwanted
FROM renewed r
CROSS JOIN LATERAL (
    SELECT ",
        unwanted!("x"),
        " AS unwanted
    FROM executions x WHERE x.tenant = r.tenant AND x.execution_id = r.execution_id OFFSET 0) x"
    ));
    let columns: ActionColumns<'_> = beats.iter().map(|beat| &beat.lease.key).collect();
    let rows = columns
        .bound(RENEW)
        .bind(epochs(beats.iter().map(|beat| &beat.lease)))
        .bind(millis(grant.ttl))
        .bind(beats.iter().map(|beat| beat.progress.as_ref().map(RawJson::as_str)).collect::<Vec<_>>())
        .fetch_all(pool)
        .await?;
    let held = rows
        .iter()
        .map(|row| Ok((lease_of(row)?, decode_pulse(row)?)))
        .collect::<PostgresResult<BTreeMap<Lease, LeasePulse>>>()?;
    Ok(beats.iter().map(|beat| held.get(&beat.lease).copied().unwrap_or(LeasePulse::Lost)).collect())
}

fn decode_pulse(row: &PgRow) -> PostgresResult<LeasePulse> {
    let wanted = if row.try_get("unwanted")? { OutcomeDemand::Cancelled } else { OutcomeDemand::Yes };
    Ok(LeasePulse::Held { until: decode::time(row, "due_at")?, wanted })
}

async fn write_inputs(pool: &PgPool, inputs: &[(Lease, RawJson)]) -> PostgresResult<Vec<bool>> {
    const WRITE: &str = "
WITH held AS MATERIALIZED (
    SELECT a.*, k.input
    FROM (SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::text[])
              AS u(tenant, execution_id, seq, action, epoch, input)
          ORDER BY u.tenant COLLATE \"C\", u.execution_id COLLATE \"C\", u.seq, u.action COLLATE \"C\") k
    CROSS JOIN LATERAL (
        SELECT a.tenant, a.execution_id, a.seq, a.action FROM actions a
        WHERE a.tenant = k.tenant AND a.execution_id = k.execution_id AND a.seq = k.seq AND a.action = k.action
          AND CASE a.status WHEN 'leased' THEN a.epoch END = k.epoch
        FOR NO KEY UPDATE) a
)
UPDATE actions a SET input = coalesce(a.input, h.input)
FROM held h
WHERE a.tenant = h.tenant AND a.execution_id = h.execution_id AND a.seq = h.seq AND a.action = h.action
RETURNING a.tenant, a.execution_id, a.seq, a.action, a.epoch";
    let columns: ActionColumns<'_> = inputs.iter().map(|(lease, _)| &lease.key).collect();
    let rows = columns
        .bound(WRITE)
        .bind(epochs(inputs.iter().map(|(lease, _)| lease)))
        .bind(inputs.iter().map(|(_, input)| input.as_str()).collect::<Vec<_>>())
        .fetch_all(pool)
        .await?;
    let held = rows.iter().map(lease_of).collect::<PostgresResult<BTreeSet<_>>>()?;
    Ok(inputs.iter().map(|(lease, _)| held.contains(lease)).collect())
}

async fn release_held(pool: &PgPool, leases: &[Lease]) -> PostgresResult<()> {
    const RELEASE: &str = "
WITH clock AS MATERIALIZED (
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now
), held AS MATERIALIZED (
    SELECT a.*
    FROM (SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bigint[])
              AS u(tenant, execution_id, seq, action, epoch)
          ORDER BY u.tenant COLLATE \"C\", u.execution_id COLLATE \"C\", u.seq, u.action COLLATE \"C\") k
    CROSS JOIN LATERAL (
        SELECT a.tenant, a.execution_id, a.seq, a.action FROM actions a
        WHERE a.tenant = k.tenant AND a.execution_id = k.execution_id AND a.seq = k.seq AND a.action = k.action
          AND CASE a.status WHEN 'leased' THEN a.epoch END = k.epoch
        FOR NO KEY UPDATE) a
)
UPDATE actions a
SET status = 'ready', due_at = clock.now, worker_id = NULL, attempt_until = NULL,
    attempts = CASE WHEN a.closing THEN a.attempts ELSE greatest(a.attempts - 1, 0) END,
    expires_at = a.ready_at + least(CASE WHEN a.attempts <= 1 THEN a.start_ms END, a.close_ms)
FROM held h, clock
WHERE a.tenant = h.tenant AND a.execution_id = h.execution_id AND a.seq = h.seq AND a.action = h.action";
    let columns: ActionColumns<'_> = leases.iter().map(|lease| &lease.key).collect();
    columns.bound(RELEASE).bind(epochs(leases.iter())).execute(pool).await?;
    Ok(())
}

fn lease_of(row: &PgRow) -> PostgresResult<Lease> {
    Ok(Lease { key: decode::action_key(row)?, epoch: Epoch(row.try_get("epoch")?) })
}

fn epochs<'a>(leases: impl Iterator<Item = &'a Lease>) -> Vec<i64> {
    leases.map(|lease| lease.epoch.0).collect()
}
