//! Leases on actions: take, renew, give back, and what is written under one. The epoch is the fence in
//! every statement; a lease that ran out and that nobody took over is still held.

use std::collections::HashSet;

use millstream_core::id::{ActionKey, WorkerId};
use millstream_core::raw::RawJson;
use millstream_core::time::Timestamp;
use millstream_store::Result;
use millstream_store::action_store::{ActionStore, Lease, LeasedAction, Settled, Settlement};
use millstream_store::execution_store::LeaseGrant;
use serde::Serialize;
use sqlx::SqliteConnection;

use crate::connect::SqliteStore;
use crate::decode::Fields;
use crate::errors::store_error;
use crate::leased::read_leased;
use crate::param::{self, ActionParam};
use crate::settle::settle_batch;

#[async_trait::async_trait]
impl ActionStore for SqliteStore {
    async fn lease(&self, worker: &WorkerId, grant: LeaseGrant, now: Timestamp) -> Result<Vec<LeasedAction>> {
        // Workers ask often and mostly in vain: a reader answers that without the writer's queue.
        if grant.slots == 0 || !self.is_any_due(now).await? {
            return Ok(Vec::new());
        }
        let mut tx = self.write().await?;
        let keys = take_leases(&mut tx, worker, grant, now).await?;
        let leased = read_leased(&mut tx, &keys.iter().collect::<Vec<_>>()).await?;
        tx.commit().await.map_err(store_error)?;
        Ok(leased)
    }

    async fn renew(
        &self,
        leases: &[Lease],
        _worker: &WorkerId,
        grant: LeaseGrant,
        now: Timestamp,
    ) -> Result<Vec<bool>> {
        const RENEW: &str = "
            UPDATE actions SET due_at = ?2
            FROM json_each(?1) AS i
            WHERE actions.tenant = i.value ->> 'tenant' AND actions.execution_id = i.value ->> 'execution'
              AND actions.seq = i.value ->> 'seq' AND actions.action = i.value ->> 'action'
              AND actions.epoch = i.value ->> 'epoch' AND actions.status = 'leased'
            RETURNING tenant, execution_id, seq, action, epoch";
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let mut tx = self.write().await?;
        let rows = sqlx::query(RENEW)
            .bind(param::rows(leases.iter().map(LeaseParam::of))?)
            .bind(now.plus(grant.ttl).as_millis())
            .fetch_all(&mut *tx)
            .await
            .map_err(store_error)?;
        tx.commit().await.map_err(store_error)?;
        let held = rows.iter().map(|row| Fields(row).lease()).collect::<Result<HashSet<_>>>()?;
        Ok(leases.iter().map(|lease| held.contains(&(lease.key.clone(), lease.epoch.0))).collect())
    }

    async fn record_inputs(&self, inputs: &[(Lease, RawJson)]) -> Result<Vec<bool>> {
        const RECORD_INPUTS: &str = "
            UPDATE actions SET input = coalesce(input, i.value ->> 'input')
            FROM json_each(?1) AS i
            WHERE actions.tenant = i.value ->> 'tenant' AND actions.execution_id = i.value ->> 'execution'
              AND actions.seq = i.value ->> 'seq' AND actions.action = i.value ->> 'action'
              AND actions.epoch = i.value ->> 'epoch' AND actions.status = 'leased'
            RETURNING tenant, execution_id, seq, action, epoch";
        #[derive(Serialize)]
        struct Row<'a> {
            #[serde(flatten)]
            lease: LeaseParam<'a>,
            input: &'a str,
        }
        if inputs.is_empty() {
            return Ok(Vec::new());
        }
        let rows =
            inputs.iter().map(|(lease, input)| Row { lease: LeaseParam::of(lease), input: input.as_str() });
        let mut tx = self.write().await?;
        let rows = sqlx::query(RECORD_INPUTS)
            .bind(param::rows(rows)?)
            .fetch_all(&mut *tx)
            .await
            .map_err(store_error)?;
        tx.commit().await.map_err(store_error)?;
        let held = rows.iter().map(|row| Fields(row).lease()).collect::<Result<HashSet<_>>>()?;
        Ok(inputs.iter().map(|(lease, _)| held.contains(&(lease.key.clone(), lease.epoch.0))).collect())
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
        let mut tx = self.write().await?;
        let settled = settle_batch(&mut tx, worker, batch, grant, now).await?;
        tx.commit().await.map_err(store_error)?;
        Ok(settled)
    }

    async fn release(&self, leases: &[Lease], now: Timestamp) -> Result<()> {
        const RELEASE: &str = "
            UPDATE actions SET status = 'ready', due_at = ?2, worker_id = NULL, attempts = max(attempts - 1, 0)
            FROM json_each(?1) AS i
            WHERE actions.tenant = i.value ->> 'tenant' AND actions.execution_id = i.value ->> 'execution'
              AND actions.seq = i.value ->> 'seq' AND actions.action = i.value ->> 'action'
              AND actions.epoch = i.value ->> 'epoch' AND actions.status = 'leased'";
        if leases.is_empty() {
            return Ok(());
        }
        let mut tx = self.write().await?;
        sqlx::query(RELEASE)
            .bind(param::rows(leases.iter().map(LeaseParam::of))?)
            .bind(now.as_millis())
            .execute(&mut *tx)
            .await
            .map_err(store_error)?;
        tx.commit().await.map_err(store_error)
    }
}

#[derive(Serialize)]
struct LeaseParam<'a> {
    #[serde(flatten)]
    key: ActionParam<'a>,
    epoch: i64,
}

impl<'a> LeaseParam<'a> {
    fn of(lease: &'a Lease) -> Self {
        Self { key: ActionParam::of(&lease.key), epoch: lease.epoch.0 }
    }
}

impl Fields<'_> {
    fn lease(self) -> Result<(ActionKey, i64)> {
        Ok((self.action_key()?, self.int("epoch")?))
    }
}

impl SqliteStore {
    async fn is_any_due(&self, now: Timestamp) -> Result<bool> {
        const IS_ANY_DUE: &str =
            "SELECT EXISTS (SELECT 1 FROM actions WHERE status IN ('ready', 'leased') AND due_at <= ?1)";
        sqlx::query_scalar(IS_ANY_DUE)
            .bind(now.as_millis())
            .fetch_one(&self.readers)
            .await
            .map_err(store_error)
    }
}

/// Lease what is due to `worker`, those due longest first, and name it in that order.
///
/// A row whose key does not decode is leased like the others and then left out: otherwise it would
/// stand at the head of the queue for ever.
async fn take_leases(
    connection: &mut SqliteConnection,
    worker: &WorkerId,
    grant: LeaseGrant,
    now: Timestamp,
) -> Result<Vec<ActionKey>> {
    const DUE: &str = "
        SELECT rowid AS place, tenant, execution_id, seq, action FROM actions
        WHERE status IN ('ready', 'leased') AND due_at <= ?1
        ORDER BY due_at, rowid
        LIMIT ?2";
    const TAKE: &str = "
        UPDATE actions
        SET status = 'leased', epoch = epoch + 1, attempts = attempts + 1, worker_id = ?2, due_at = ?3
        WHERE rowid IN (SELECT value FROM json_each(?1))";
    let due = sqlx::query(DUE)
        .bind(now.as_millis())
        .bind(param::limit(grant.slots))
        .fetch_all(&mut *connection)
        .await
        .map_err(store_error)?;
    let places = due.iter().map(|row| Fields(row).int("place")).collect::<Result<Vec<_>>>()?;
    sqlx::query(TAKE)
        .bind(param::rows(places)?)
        .bind(worker.as_str())
        .bind(now.plus(grant.ttl).as_millis())
        .execute(connection)
        .await
        .map_err(store_error)?;
    Ok(due
        .iter()
        .filter_map(|row| {
            let key = Fields(row).action_key();
            key.inspect_err(|error| tracing::error!(%error, "the key of an action cannot be decoded")).ok()
        })
        .collect())
}
