//! Accepting: a batch becomes durable in one transaction.
//!
//! [`crate::append`] gives the verdicts and writes the rows. Two requests with one idempotency key cannot
//! both be new: there is one writer, and the second sees the rows of the first.

use millstream_model::id::{DefinitionRef, ExecutionKey, TenantId};
use millstream_model::overdue_sweep::SweepBand;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::event_log::{AppendRequest, Appended, EventLog, IdempotencyKey};

use crate::append::{AppendBatch, find_key};
use crate::connect::SqliteStore;
use crate::doorbells;
use crate::errors::SqliteResult;

#[async_trait::async_trait]
impl EventLog for SqliteStore {
    async fn append(&self, batch: &[AppendRequest], now: Timestamp) -> StoreResult<Vec<Appended>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let batch = batch.to_vec();
        self.write_transaction(move |connection| {
            let mut appending = AppendBatch::begin(connection, now)?;
            let verdicts =
                batch.iter().map(|item| appending.append_one(item)).collect::<SqliteResult<Vec<_>>>()?;
            appending.finish()?;
            Ok(verdicts)
        })
        .await
    }

    async fn find_accepted(&self, keys: &[(TenantId, IdempotencyKey)]) -> StoreResult<Vec<Option<Appended>>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let keys = keys.to_vec();
        self.read_transaction(move |connection| {
            keys.iter()
                .map(|(tenant, key)| {
                    Ok(find_key(connection, tenant, key)?.map(|used| used.answer_request(key)))
                })
                .collect()
        })
        .await
    }

    async fn find_definitions(&self, executions: &[ExecutionKey]) -> StoreResult<Vec<Option<DefinitionRef>>> {
        let executions = executions.to_vec();
        self.read_transaction(move |connection| doorbells::read_targets(connection, &executions)).await
    }

    async fn page_undecided(
        &self,
        bands: Option<&[SweepBand]>,
        after: Option<&ExecutionKey>,
        limit: usize,
    ) -> StoreResult<Vec<ExecutionKey>> {
        let (bands, after) = (bands.map(<[SweepBand]>::to_vec), after.cloned());
        self.read_transaction(move |connection| {
            doorbells::read_undecided(connection, bands.as_deref(), after.as_ref(), limit)
        })
        .await
    }

    async fn has_work(&self, executions: &[ExecutionKey]) -> StoreResult<Vec<bool>> {
        let executions = executions.to_vec();
        self.read_transaction(move |connection| doorbells::have_work(connection, &executions)).await
    }
}
