//! Accepting: a batch becomes durable in one transaction.
//!
//! [`crate::append`] gives the verdicts and writes the rows. Two requests with one idempotency key cannot
//! both be new: there is one writer, and the second sees the rows of the first.

use millstream_core::id::{DefinitionRef, ExecutionKey, TenantId};
use millstream_core::sweep::Band;
use millstream_core::time::Timestamp;
use millstream_store::Result;
use millstream_store::event_log::{Append, Appended, EventLog, Idempotency};

use crate::append::{Appending, by_key};
use crate::connect::SqliteStore;
use crate::doorbells;
use crate::errors::Attempt;

#[async_trait::async_trait]
impl EventLog for SqliteStore {
    async fn append(&self, batch: &[Append], now: Timestamp) -> Result<Vec<Appended>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let batch = batch.to_vec();
        self.write(move |connection| {
            let mut appending = Appending::begin(connection, now)?;
            let verdicts = batch.iter().map(|item| appending.append(item)).collect::<Attempt<Vec<_>>>()?;
            appending.finish()?;
            Ok(verdicts)
        })
        .await
    }

    async fn seen(&self, keys: &[(TenantId, Idempotency)]) -> Result<Vec<Option<Appended>>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let keys = keys.to_vec();
        self.read(move |connection| {
            keys.iter().map(|(tenant, idempotency)| by_key(connection, tenant, idempotency)).collect()
        })
        .await
    }

    async fn targets(&self, executions: &[ExecutionKey]) -> Result<Vec<Option<DefinitionRef>>> {
        let executions = executions.to_vec();
        self.read(move |connection| doorbells::read_targets(connection, &executions)).await
    }

    async fn undecided(
        &self,
        bands: Option<&[Band]>,
        after: Option<&ExecutionKey>,
        limit: usize,
    ) -> Result<Vec<ExecutionKey>> {
        let (bands, after) = (bands.map(<[Band]>::to_vec), after.cloned());
        self.read(move |connection| {
            doorbells::read_undecided(connection, bands.as_deref(), after.as_ref(), limit)
        })
        .await
    }

    async fn has_work(&self, executions: &[ExecutionKey]) -> Result<Vec<bool>> {
        let executions = executions.to_vec();
        self.read(move |connection| doorbells::have_work(connection, &executions)).await
    }
}
