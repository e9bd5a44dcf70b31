//! Leases on actions: take, renew, give back, and what is written under one. The epoch is the fence in
//! every statement; a lease that ran out and that nobody took over is still held.

use millstream_core::id::{ActionKey, WorkerId};
use millstream_core::raw::RawJson;
use millstream_core::time::Timestamp;
use millstream_store::Result;
use millstream_store::action_store::{ActionStore, Lease, LeasedAction, Settled, Settlement};
use millstream_store::execution_store::LeaseGrant;
use rusqlite::Connection;

use crate::connect::SqliteStore;
use crate::decode::Fields;
use crate::errors::Attempt;
use crate::leased::read_leased;
use crate::param;
use crate::settle::settle_batch;

#[async_trait::async_trait]
impl ActionStore for SqliteStore {
    async fn lease(&self, worker: &WorkerId, grant: LeaseGrant, now: Timestamp) -> Result<Vec<LeasedAction>> {
        // Workers ask often and mostly in vain: a reader answers that without the writer's queue.
        if grant.slots == 0 || !self.read(move |connection| is_any_due(connection, now)).await? {
            return Ok(Vec::new());
        }
        let worker = worker.clone();
        self.write(move |connection| {
            let keys = take_leases(connection, &worker, grant, now)?;
            read_leased(connection, &keys)
        })
        .await
    }

    async fn renew(
        &self,
        leases: &[Lease],
        _worker: &WorkerId,
        grant: LeaseGrant,
        now: Timestamp,
    ) -> Result<Vec<bool>> {
        const RENEW: &str = "
            UPDATE actions SET due_at = ?6
            WHERE tenant = ?1 AND execution_id = ?2 AND seq = ?3 AND action = ?4 AND epoch = ?5
              AND status = 'leased'";
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let (leases, until) = (leases.to_vec(), now.plus(grant.ttl).as_millis());
        self.write(move |connection| {
            let mut renew = connection.prepare_cached(RENEW)?;
            leases
                .iter()
                .map(|lease| {
                    let (tenant, execution, seq, action, epoch) = columns(lease);
                    Ok(renew.execute((tenant, execution, seq, action, epoch, until))? > 0)
                })
                .collect()
        })
        .await
    }

    async fn record_inputs(&self, inputs: &[(Lease, RawJson)]) -> Result<Vec<bool>> {
        const RECORD_INPUT: &str = "
            UPDATE actions SET input = coalesce(input, ?6)
            WHERE tenant = ?1 AND execution_id = ?2 AND seq = ?3 AND action = ?4 AND epoch = ?5
              AND status = 'leased'";
        if inputs.is_empty() {
            return Ok(Vec::new());
        }
        let inputs = inputs.to_vec();
        self.write(move |connection| {
            let mut record = connection.prepare_cached(RECORD_INPUT)?;
            inputs
                .iter()
                .map(|(lease, input)| {
                    let (tenant, execution, seq, action, epoch) = columns(lease);
                    Ok(record.execute((tenant, execution, seq, action, epoch, input.as_str()))? > 0)
                })
                .collect()
        })
        .await
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
        let (worker, batch) = (worker.clone(), batch.to_vec());
        self.write(move |connection| settle_batch(connection, &worker, &batch, grant, now)).await
    }

    async fn release(&self, leases: &[Lease], now: Timestamp) -> Result<()> {
        const RELEASE: &str = "
            UPDATE actions
            SET status = 'ready', due_at = ?6, worker_id = NULL, attempts = max(attempts - 1, 0)
            WHERE tenant = ?1 AND execution_id = ?2 AND seq = ?3 AND action = ?4 AND epoch = ?5
              AND status = 'leased'";
        if leases.is_empty() {
            return Ok(());
        }
        let leases = leases.to_vec();
        self.write(move |connection| {
            let mut release = connection.prepare_cached(RELEASE)?;
            for lease in &leases {
                let (tenant, execution, seq, action, epoch) = columns(lease);
                release.execute((tenant, execution, seq, action, epoch, now.as_millis()))?;
            }
            Ok(())
        })
        .await
    }
}

/// What a lease is known by, in the order of the key.
pub(crate) fn columns(lease: &Lease) -> (&str, &str, i64, &str, i64) {
    let ActionKey { execution, seq, action } = &lease.key;
    (execution.tenant.as_str(), execution.execution.as_str(), seq.0, action.as_str(), lease.epoch.0)
}

fn is_any_due(connection: &Connection, now: Timestamp) -> Attempt<bool> {
    // `settled_at IS NULL` is the condition of the index. Waiting ones have no time.
    const IS_ANY_DUE: &str = "
        SELECT EXISTS (SELECT 1 FROM actions
                       WHERE settled_at IS NULL AND due_at <= ?1)";
    Ok(connection.prepare_cached(IS_ANY_DUE)?.query_row([now.as_millis()], |row| row.get(0))?)
}

/// Lease what is due to `worker`, those due longest first, and name it in that order.
///
/// A row whose key does not decode is leased like the others and then left out: otherwise it would
/// stand at the head of the queue for ever.
fn take_leases(
    connection: &Connection,
    worker: &WorkerId,
    grant: LeaseGrant,
    now: Timestamp,
) -> Attempt<Vec<ActionKey>> {
    const DUE: &str = "
        SELECT rowid AS place, tenant, execution_id, seq, action FROM actions
        WHERE settled_at IS NULL AND due_at <= ?1
        ORDER BY due_at, rowid
        LIMIT ?2";
    const TAKE: &str = "
        UPDATE actions
        SET status = 'leased', epoch = epoch + 1, attempts = attempts + 1, worker_id = ?2, due_at = ?3
        WHERE rowid = ?1";
    let (mut places, mut keys) = (Vec::new(), Vec::new());
    let mut due = connection.prepare_cached(DUE)?;
    let mut rows = due.query((now.as_millis(), param::limit(grant.slots)))?;
    while let Some(row) = rows.next()? {
        places.push(Fields(row).int("place")?);
        match Fields(row).action_key() {
            Ok(key) => keys.push(key),
            Err(error) => tracing::error!(%error, "the key of an action cannot be decoded"),
        }
    }
    let mut take = connection.prepare_cached(TAKE)?;
    for place in places {
        take.execute((place, worker.as_str(), now.plus(grant.ttl).as_millis()))?;
    }
    Ok(keys)
}
