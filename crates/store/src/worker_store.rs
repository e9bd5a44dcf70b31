//! Who is up, and whose turn it is to do a duty that needs doing once.

use std::time::Duration;

use millstream_core::id::{Name, WorkerId};
use millstream_core::time::Timestamp;

use crate::Result;

#[async_trait::async_trait]
pub trait WorkerStore: Send + Sync {
    /// Say that a worker is up. Inserts or refreshes its row.
    async fn beat(&self, worker: &WorkerBeat, now: Timestamp) -> Result<()>;

    /// A worker says goodbye.
    async fn leave(&self, worker: &WorkerId) -> Result<()>;

    /// Workers heard of at `since` or later, by id.
    async fn workers(&self, since: Timestamp) -> Result<Vec<WorkerView>>;

    /// Take the turn at a duty for `ttl`, unless somebody else holds it; one's own turn is extended.
    /// Returns when the duty was last finished (the epoch if never), or `None` when it is another's
    /// turn.
    async fn take_duty(
        &self,
        duty: &str,
        worker: &WorkerId,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<Option<Timestamp>>;

    /// Record that the duty was done as of `done_at` and give the turn back. Does nothing when the
    /// turn has passed to another.
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
    /// Functions that it brought along, by name.
    pub calls: Vec<Name>,
}

#[derive(Debug, Clone)]
pub struct WorkerView {
    pub beat: WorkerBeat,
    pub seen_at: Timestamp,
}
