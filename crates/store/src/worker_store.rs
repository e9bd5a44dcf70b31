//! Worker heartbeats, and leases on duties (leader election): one worker at a time performs a duty.

use std::time::Duration;

use millstream_core::id::{Name, WorkerId};
use millstream_core::time::Timestamp;

use crate::Result;

#[async_trait::async_trait]
pub trait WorkerStore: Send + Sync {
    /// Heartbeat of a worker. Inserts or refreshes its row.
    async fn beat(&self, worker: &WorkerBeat, now: Timestamp) -> Result<()>;

    /// Deregisters a worker.
    async fn leave(&self, worker: &WorkerId) -> Result<()>;

    /// Workers with a heartbeat at or after `since`, by id.
    async fn workers(&self, since: Timestamp) -> Result<Vec<WorkerView>>;

    /// Lease a duty for `ttl`, unless another worker holds it; one's own lease is extended. Returns when the
    /// duty was last finished (the epoch if never), or `None` when another worker holds it.
    async fn take_duty(
        &self,
        duty: &str,
        worker: &WorkerId,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<Option<Timestamp>>;

    /// Record that the duty was done as of `done_at` and release it. Does nothing when another worker holds
    /// it.
    async fn finish_duty(&self, duty: &str, worker: &WorkerId, done_at: Timestamp) -> Result<()>;
}

#[derive(Debug, Clone)]
pub struct WorkerBeat {
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
pub struct WorkerView {
    pub beat: WorkerBeat,
    pub seen_at: Timestamp,
}
