//! Stores and streams that fail, stall and record their calls.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use millstream_model::id::{DefinitionRef, ExecutionKey, TenantId, WorkerId};
use millstream_model::lane::Lane;
use millstream_model::overdue_sweep::SweepBand;
use millstream_model::time::Timestamp;
use millstream_store::event_log::{AppendRequest, Appended, EventLog, IdempotencyKey};
use millstream_store::housekeeping::{Housekeeping, RetentionCutoffs};
use millstream_store::{StoreError, StoreResult};
use millstream_stream::StreamError;
use millstream_stream::doorbell::{Doorbell, DoorbellDelivery, DoorbellReader, Doorbells, StreamEntryId};
use tokio::sync::Semaphore;

/// An event log that wraps a real one.
pub(crate) struct FaultyLog {
    inner: Arc<dyn EventLog>,
    /// Errors to return, in order, before the real log is called.
    pub(crate) errors: Mutex<VecDeque<StoreError>>,
    /// Appends with an event of this name are rejected as corrupt.
    pub(crate) poison: Option<&'static str>,
    /// One permit per append; an append without a permit stalls.
    pub(crate) turns: Semaphore,
    /// The size of each batch that was appended.
    pub(crate) batches: Mutex<Vec<usize>>,
}

impl FaultyLog {
    pub(crate) fn over(inner: Arc<dyn EventLog>) -> Self {
        Self {
            inner,
            errors: Mutex::default(),
            poison: None,
            turns: Semaphore::new(1_000_000),
            batches: Mutex::default(),
        }
    }

    pub(crate) fn fail(&self, error: StoreError) {
        self.errors.lock().unwrap().push_back(error);
    }
}

#[async_trait::async_trait]
impl EventLog for FaultyLog {
    async fn append(&self, batch: &[AppendRequest], now: Timestamp) -> StoreResult<Vec<Appended>> {
        self.batches.lock().unwrap().push(batch.len());
        self.turns.acquire().await.unwrap().forget();
        let error = self.errors.lock().unwrap().pop_front();
        if let Some(error) = error {
            return Err(error);
        }
        let poisoned = |item: &AppendRequest| match item {
            AppendRequest::Event(event) => Some(event.name.as_str()) == self.poison,
            AppendRequest::Start(_) | AppendRequest::Signal(_) => false,
        };
        if batch.iter().any(poisoned) {
            return Err(StoreError::Corrupt("poisoned".to_owned()));
        }
        self.inner.append(batch, now).await
    }

    async fn find_accepted(&self, keys: &[(TenantId, IdempotencyKey)]) -> StoreResult<Vec<Option<Appended>>> {
        self.inner.find_accepted(keys).await
    }

    async fn find_definitions(&self, executions: &[ExecutionKey]) -> StoreResult<Vec<Option<DefinitionRef>>> {
        self.inner.find_definitions(executions).await
    }

    async fn page_undecided(
        &self,
        bands: Option<&[SweepBand]>,
        after: Option<&ExecutionKey>,
        limit: usize,
    ) -> StoreResult<Vec<ExecutionKey>> {
        self.inner.page_undecided(bands, after, limit).await
    }

    async fn has_work(&self, executions: &[ExecutionKey]) -> StoreResult<Vec<bool>> {
        self.inner.has_work(executions).await
    }
}

/// Doorbells that can fail, and that record the rings.
#[derive(Default)]
pub(crate) struct FaultyBells {
    pub(crate) broken: Mutex<bool>,
    pub(crate) failures: Mutex<usize>,
    pub(crate) rung: Mutex<Vec<Doorbell>>,
}

#[async_trait::async_trait]
impl Doorbells for FaultyBells {
    async fn publish_bells(&self, bells: &[Doorbell]) -> millstream_stream::StreamResult<()> {
        if *self.broken.lock().unwrap() {
            *self.failures.lock().unwrap() += 1;
            return Err(StreamError::Unavailable("broken".to_owned()));
        }
        self.rung.lock().unwrap().extend_from_slice(bells);
        Ok(())
    }

    async fn open_reader(
        &self,
        _: &WorkerId,
        _: &[Lane],
    ) -> millstream_stream::StreamResult<Box<dyn DoorbellReader>> {
        Err(StreamError::Unavailable("the stream has no reader".to_owned()))
    }

    async fn ack_entries(&self, _: &[StreamEntryId]) -> millstream_stream::StreamResult<()> {
        Ok(())
    }

    async fn reclaim_idle(
        &self,
        _: &WorkerId,
        _: std::time::Duration,
        _: usize,
    ) -> millstream_stream::StreamResult<Vec<DoorbellDelivery>> {
        Ok(Vec::new())
    }

    async fn refresh_entries(
        &self,
        _: &WorkerId,
        _: &[StreamEntryId],
    ) -> millstream_stream::StreamResult<()> {
        Ok(())
    }

    async fn replenish_tenants(&self, _: &[TenantId]) -> millstream_stream::StreamResult<()> {
        Ok(())
    }
}

/// Housekeeping of a store that answers reads and rejects writes.
#[derive(Debug)]
pub(crate) struct ReadOnlyHousekeeping;

fn read_only<T>() -> StoreResult<T> {
    Err(StoreError::Unavailable("the database is read-only".to_owned()))
}

#[async_trait::async_trait]
impl Housekeeping for ReadOnlyHousekeeping {
    async fn ping(&self) -> StoreResult<Timestamp> {
        read_only()
    }

    async fn purge_executions(&self, _: RetentionCutoffs, _: usize) -> StoreResult<u64> {
        read_only()
    }

    async fn purge_keys(&self, _: Timestamp, _: usize) -> StoreResult<u64> {
        read_only()
    }

    async fn purge_runs(&self, _: RetentionCutoffs, _: usize) -> StoreResult<u64> {
        read_only()
    }

    async fn purge_workers(&self, _: Timestamp) -> StoreResult<u64> {
        read_only()
    }
}
