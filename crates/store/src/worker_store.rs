//! Worker heartbeats, and leases on duties (leader election): one worker at a time performs a duty.

use std::time::Duration;

use millstream_model::id::{Name, WorkerId};
use millstream_model::time::Timestamp;

use crate::StoreResult;

#[async_trait::async_trait]
pub trait WorkerStore: Send + Sync {
    /// Heartbeat of a worker. Inserts or refreshes its row.
    async fn record_worker_heartbeat(&self, worker: &WorkerHeartbeat, now: Timestamp) -> StoreResult<()>;

    /// Deregisters a worker.
    async fn deregister_worker(&self, worker: &WorkerId) -> StoreResult<()>;

    /// Workers with a heartbeat at or after `since`, by id.
    async fn list_workers(&self, since: Timestamp) -> StoreResult<Vec<WorkerRecord>>;

    /// Lease a duty for `ttl`, unless another worker holds it; one's own lease is extended. Returns when the
    /// duty was last finished (the epoch if never), or `None` when another worker holds it.
    async fn take_duty(
        &self,
        duty: &str,
        worker: &WorkerId,
        ttl: Duration,
        now: Timestamp,
    ) -> StoreResult<Option<Timestamp>>;

    /// Record that the duty was done as of `done_at` and release it. Does nothing when another worker holds
    /// it.
    async fn finish_duty(&self, duty: &str, worker: &WorkerId, done_at: Timestamp) -> StoreResult<()>;
}

#[derive(Debug, Clone)]
pub struct WorkerHeartbeat {
    pub worker: WorkerId,
    pub started_at: Timestamp,
    /// Lanes that it reads.
    pub lanes: Vec<u8>,
    /// Actions that it performs right now.
    pub in_flight: i32,
    pub version: String,
    /// Functions that it provides, by name.
    pub calls: Vec<Name>,
}

#[derive(Debug, Clone)]
pub struct WorkerRecord {
    pub beat: WorkerHeartbeat,
    pub seen_at: Timestamp,
}
