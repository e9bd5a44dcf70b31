//! Leases on actions. Settling has its own file.
//!
//! Whoever leases skips what is locked and waits for nobody. Everything else names the epoch of its
//! lease, and locks the actions in the order of their keys. Renewals use their own connections. The status
//! is asked for in a way that keeps plans away from the index of due actions (see [`crate`]).

use std::collections::BTreeSet;

use async_trait::async_trait;
use millstream_core::id::{ActionKey, Epoch, WorkerId};
use millstream_core::raw::RawJson;
use millstream_core::time::Timestamp;
use millstream_store::Result;
use millstream_store::action_store::{ActionStore, Lease, LeasedAction, Settled, Settlement};
use millstream_store::execution_store::LeaseGrant;
use sqlx::postgres::PgRow;
use sqlx::{PgPool, Row};

use crate::action_rows::{self, ActionColumns, millis};
use crate::connect::PostgresStore;
use crate::decode;
use crate::errors::Attempt;

#[async_trait]
impl ActionStore for PostgresStore {
    async fn lease(
        &self,
        worker: &WorkerId,
        grant: LeaseGrant,
        _now: Timestamp,
    ) -> Result<Vec<LeasedAction>> {
        if grant.slots == 0 {
            return Ok(Vec::new());
        }
        self.patiently(|| lease_due(&self.pool, worker, grant)).await
    }

    async fn renew(
        &self,
        leases: &[Lease],
        worker: &WorkerId,
        grant: LeaseGrant,
        _now: Timestamp,
    ) -> Result<Vec<bool>> {
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        self.patiently(|| renew_held(&self.leases, leases, worker, grant)).await
    }

    async fn record_inputs(&self, inputs: &[(Lease, RawJson)]) -> Result<Vec<bool>> {
        if inputs.is_empty() {
            return Ok(Vec::new());
        }
        self.patiently(|| write_inputs(&self.pool, inputs)).await
    }

    async fn settle(
        &self,
        worker: &WorkerId,
        batch: &[Settlement],
        grant: LeaseGrant,
        now: Timestamp,
    ) -> Result<Settled> {
        if batch.is_empty() {
            return Ok(Settled::default());
        }
        self.settle_all(worker, batch, grant, now).await
    }

    async fn release(&self, leases: &[Lease], _now: Timestamp) -> Result<()> {
        if leases.is_empty() {
            return Ok(());
        }
        self.patiently(|| release_held(&self.pool, leases)).await
    }
}

async fn lease_due(pool: &PgPool, worker: &WorkerId, grant: LeaseGrant) -> Attempt<Vec<LeasedAction>> {
    const LEASE: &str = "
WITH clock AS MATERIALIZED (
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now
), due AS MATERIALIZED (
    SELECT a.ctid AS place, a.due_at
    FROM actions a
    WHERE a.status IN ('ready', 'leased') AND a.due_at <= (SELECT now FROM clock)
    ORDER BY a.due_at
    LIMIT $1
    FOR NO KEY UPDATE SKIP LOCKED
), taken AS (
    UPDATE actions a
    SET status = 'leased', epoch = a.epoch + 1, attempts = a.attempts + 1, worker_id = $2,
        due_at = clock.now + $3
    FROM due d, clock
    WHERE a.ctid = d.place
    RETURNING a.*, d.due_at AS waited_since
)
SELECT t.*, x.definition, x.version, e.traceparent
FROM taken t
CROSS JOIN LATERAL (
    SELECT x.definition, x.version FROM executions x
    WHERE x.tenant = t.tenant AND x.execution_id = t.execution_id OFFSET 0) x
LEFT JOIN LATERAL (
    SELECT e.traceparent FROM events e WHERE e.tenant = t.tenant AND e.event_id = t.event_id OFFSET 0) e ON TRUE
ORDER BY t.waited_since, t.tenant, t.execution_id, t.seq, t.ordinal";
    let rows = sqlx::query(LEASE)
        .bind(i64::try_from(grant.slots).unwrap_or(i64::MAX))
        .bind(worker.as_str())
        .bind(millis(grant.ttl))
        .fetch_all(pool)
        .await?;
    let mut leased = Vec::with_capacity(rows.len());
    for row in &rows {
        leased.push((action_rows::leased(row)?, action_rows::needs(row)?));
    }
    // Results of settled actions do not change: they may be read after the lease.
    let needed: Vec<ActionKey> =
        leased.iter().flat_map(|(action, needs)| action_rows::needed(&action.lease.key, needs)).collect();
    let results = action_rows::read_results(pool, &needed).await?;
    Ok(leased
        .into_iter()
        .map(|(mut action, needs)| {
            action.results = action_rows::results_of(&action.lease.key, &needs, &results);
            action
        })
        .collect())
}

async fn renew_held(
    pool: &PgPool,
    leases: &[Lease],
    worker: &WorkerId,
    grant: LeaseGrant,
) -> Attempt<Vec<bool>> {
    const RENEW: &str = "
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
UPDATE actions a SET due_at = clock.now + $7, worker_id = $6
FROM held h, clock
WHERE a.tenant = h.tenant AND a.execution_id = h.execution_id AND a.seq = h.seq AND a.action = h.action
RETURNING a.tenant, a.execution_id, a.seq, a.action, a.epoch";
    let columns: ActionColumns<'_> = leases.iter().map(|lease| &lease.key).collect();
    let rows = columns
        .bound(RENEW)
        .bind(epochs(leases.iter()))
        .bind(worker.as_str())
        .bind(millis(grant.ttl))
        .fetch_all(pool)
        .await?;
    let held = rows.iter().map(lease_of).collect::<Attempt<BTreeSet<_>>>()?;
    Ok(leases.iter().map(|lease| held.contains(lease)).collect())
}

async fn write_inputs(pool: &PgPool, inputs: &[(Lease, RawJson)]) -> Attempt<Vec<bool>> {
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
    let held = rows.iter().map(lease_of).collect::<Attempt<BTreeSet<_>>>()?;
    Ok(inputs.iter().map(|(lease, _)| held.contains(lease)).collect())
}

async fn release_held(pool: &PgPool, leases: &[Lease]) -> Attempt<()> {
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
UPDATE actions a SET status = 'ready', due_at = clock.now, worker_id = NULL, attempts = a.attempts - 1
FROM held h, clock
WHERE a.tenant = h.tenant AND a.execution_id = h.execution_id AND a.seq = h.seq AND a.action = h.action";
    let columns: ActionColumns<'_> = leases.iter().map(|lease| &lease.key).collect();
    columns.bound(RELEASE).bind(epochs(leases.iter())).execute(pool).await?;
    Ok(())
}

fn lease_of(row: &PgRow) -> Attempt<Lease> {
    Ok(Lease { key: decode::action_key(row)?, epoch: Epoch(row.try_get("epoch")?) })
}

fn epochs<'a>(leases: impl Iterator<Item = &'a Lease>) -> Vec<i64> {
    leases.map(|lease| lease.epoch.0).collect()
}
