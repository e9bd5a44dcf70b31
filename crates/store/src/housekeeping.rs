//! Keeping the database healthy: readiness, time, retention.

use millstream_core::claim;
use millstream_core::status::Phase;
use millstream_core::time::Timestamp;

use crate::Result;

#[async_trait::async_trait]
pub trait Housekeeping: Send + Sync {
    /// A round trip to the store that proves it can be written to, and the store's time.
    async fn ping(&self) -> Result<Timestamp>;

    /// Remove up to `limit` ended executions (with events, log, actions, timers, decisions, graph and feed)
    /// past their retention (see [`Outlived`]), without open actions and without undecided events. Returns
    /// how many were removed. Their ids are free again.
    async fn purge_executions(&self, outlived: Outlived, limit: usize) -> Result<u64>;

    /// Remove up to `limit` idempotency keys made before `before` whose event is gone. The key of a buffered
    /// signal stays: its event is still to come.
    async fn purge_keys(&self, before: Timestamp, limit: usize) -> Result<u64>;

    /// Remove up to `limit` ended device runs past their retention, with their logs: those completed before
    /// `completed`, those failed (or cancelled) before `failed`. Returns how many were removed.
    async fn purge_runs(&self, outlived: Outlived, limit: usize) -> Result<u64>;

    /// Remove workers without a heartbeat since `before`, and return how many; with them external workers
    /// without one, and buffered signals that expired before.
    async fn purge_workers(&self, before: Timestamp) -> Result<u64>;
}

/// Retention cut-offs: an ended execution is removed when it ended, and was last updated, before the time
/// that belongs to its way of ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outlived {
    pub completed: Timestamp,
    pub failed: Timestamp,
    pub cancelled: Timestamp,
}

impl Outlived {
    /// The same cut-off for every way of ending.
    pub fn before(time: Timestamp) -> Self {
        Self { completed: time, failed: time, cancelled: time }
    }

    /// `None` for a run that has not ended.
    pub fn of_run(&self, status: claim::Status) -> Option<Timestamp> {
        match status {
            claim::Status::Completed => Some(self.completed),
            claim::Status::Failed => Some(self.failed),
            claim::Status::Created
            | claim::Status::AssigningToSelf
            | claim::Status::AssigningToOther
            | claim::Status::Assigned
            | claim::Status::Claimed
            | claim::Status::Processing
            | claim::Status::Reassigning => None,
        }
    }

    /// `None` for an execution that has not ended.
    pub fn of(&self, phase: Phase) -> Option<Timestamp> {
        match phase {
            Phase::Active => None,
            Phase::Completed => Some(self.completed),
            Phase::Failed => Some(self.failed),
            Phase::Cancelled => Some(self.cancelled),
        }
    }
}
