//! Stores and streams that fail, stall and record their calls.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use millstream_core::id::{DefinitionRef, ExecutionKey, TenantId, WorkerId};
use millstream_core::lane::Lane;
use millstream_core::sweep::Band;
use millstream_core::time::Timestamp;
use millstream_store::event_log::{Append, Appended, EventLog, Idempotency};
use millstream_store::housekeeping::{Housekeeping, Outlived};
use millstream_store::{Result, StoreError};
use millstream_stream::StreamError;
use millstream_stream::doorbell::{Bell, BellReader, Delivery, Doorbells, EntryId};
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
    async fn append(&self, batch: &[Append], now: Timestamp) -> Result<Vec<Appended>> {
        self.batches.lock().unwrap().push(batch.len());
        self.turns.acquire().await.unwrap().forget();
        let error = self.errors.lock().unwrap().pop_front();
        if let Some(error) = error {
            return Err(error);
        }
        let poisoned = |item: &Append| match item {
            Append::Event(event) => Some(event.name.as_str()) == self.poison,
            Append::Start(_) | Append::Signal(_) => false,
        };
        if batch.iter().any(poisoned) {
            return Err(StoreError::Corrupt("poisoned".to_owned()));
        }
        self.inner.append(batch, now).await
    }

    async fn seen(&self, keys: &[(TenantId, Idempotency)]) -> Result<Vec<Option<Appended>>> {
        self.inner.seen(keys).await
    }

    async fn targets(&self, executions: &[ExecutionKey]) -> Result<Vec<Option<DefinitionRef>>> {
        self.inner.targets(executions).await
    }

    async fn undecided(
        &self,
        bands: Option<&[Band]>,
        after: Option<&ExecutionKey>,
        limit: usize,
    ) -> Result<Vec<ExecutionKey>> {
        self.inner.undecided(bands, after, limit).await
    }

    async fn has_work(&self, executions: &[ExecutionKey]) -> Result<Vec<bool>> {
        self.inner.has_work(executions).await
    }
}

/// Doorbells that can fail, and that record the rings.
#[derive(Default)]
pub(crate) struct FaultyBells {
    pub(crate) broken: Mutex<bool>,
    pub(crate) failures: Mutex<usize>,
    pub(crate) rung: Mutex<Vec<Bell>>,
}

#[async_trait::async_trait]
impl Doorbells for FaultyBells {
    async fn publish(&self, bells: &[Bell]) -> millstream_stream::Result<()> {
        if *self.broken.lock().unwrap() {
            *self.failures.lock().unwrap() += 1;
            return Err(StreamError::Unavailable("broken".to_owned()));
        }
        self.rung.lock().unwrap().extend_from_slice(bells);
        Ok(())
    }

    async fn reader(&self, _: &WorkerId, _: &[Lane]) -> millstream_stream::Result<Box<dyn BellReader>> {
        Err(StreamError::Unavailable("the stream has no reader".to_owned()))
    }

    async fn ack(&self, _: &[EntryId]) -> millstream_stream::Result<()> {
        Ok(())
    }

    async fn reclaim(
        &self,
        _: &WorkerId,
        _: std::time::Duration,
        _: usize,
    ) -> millstream_stream::Result<Vec<Delivery>> {
        Ok(Vec::new())
    }

    async fn refresh(&self, _: &WorkerId, _: &[EntryId]) -> millstream_stream::Result<()> {
        Ok(())
    }

    async fn replenish(&self, _: &[TenantId]) -> millstream_stream::Result<()> {
        Ok(())
    }
}

/// Housekeeping of a store that answers reads and rejects writes.
#[derive(Debug)]
pub(crate) struct ReadOnlyHousekeeping;

fn read_only<T>() -> Result<T> {
    Err(StoreError::Unavailable("the database is read-only".to_owned()))
}

#[async_trait::async_trait]
impl Housekeeping for ReadOnlyHousekeeping {
    async fn ping(&self) -> Result<Timestamp> {
        read_only()
    }

    async fn purge_executions(&self, _: Outlived, _: usize) -> Result<u64> {
        read_only()
    }

    async fn purge_keys(&self, _: Timestamp, _: usize) -> Result<u64> {
        read_only()
    }

    async fn purge_runs(&self, _: Outlived, _: usize) -> Result<u64> {
        read_only()
    }

    async fn purge_workers(&self, _: Timestamp) -> Result<u64> {
        read_only()
    }
}
