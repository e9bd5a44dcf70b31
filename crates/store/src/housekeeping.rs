//! Keeping the database healthy: readiness, time, retention.

use millstream_core::time::Timestamp;

use crate::Result;

#[async_trait::async_trait]
pub trait Housekeeping: Send + Sync {
    /// A round trip to the store that proves it can be written to, and the store's time.
    async fn ping(&self) -> Result<Timestamp>;

    /// Remove up to `limit` ended executions (with events, log, actions, timers, decisions) that were
    /// last updated before `before`, none of whose actions are open and none of whose events are
    /// undecided. Returns how many went. Their ids are free again.
    async fn purge_executions(&self, before: Timestamp, limit: usize) -> Result<u64>;

    /// Remove up to `limit` idempotency keys made before `before` whose event is gone.
    async fn purge_keys(&self, before: Timestamp, limit: usize) -> Result<u64>;

    /// Remove worker rows not heard of since `before`.
    async fn purge_workers(&self, before: Timestamp) -> Result<u64>;
}
