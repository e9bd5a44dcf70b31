//! Keeping the database healthy: readiness, time, retention.

use millstream_devices::claim;
use millstream_model::status::ExecutionPhase;
use millstream_model::time::Timestamp;

use crate::StoreResult;

#[async_trait::async_trait]
pub trait Housekeeping: Send + Sync {
    /// A round trip to the store that proves it can be written to, and the store's time.
    async fn ping(&self) -> StoreResult<Timestamp>;

    /// Remove up to `limit` ended executions (with events, log, actions, timers, decisions, graph and feed)
    /// past their retention (see [`RetentionCutoffs`]), without open actions and without undecided events. Returns
    /// how many were removed. Their ids are free again.
    async fn purge_executions(&self, outlived: RetentionCutoffs, limit: usize) -> StoreResult<u64>;

    /// Remove up to `limit` idempotency keys made before `before` whose event is gone. The key of a buffered
    /// signal stays: its event is still to come.
    async fn purge_keys(&self, before: Timestamp, limit: usize) -> StoreResult<u64>;

    /// Remove up to `limit` ended device runs past their retention, with their logs: those completed before
    /// `completed`, those failed (or cancelled) before `failed`. Returns how many were removed.
    async fn purge_runs(&self, outlived: RetentionCutoffs, limit: usize) -> StoreResult<u64>;

    /// Remove workers without a heartbeat since `before`, and return how many; with them external workers
    /// without one, and buffered signals that expired before.
    async fn purge_workers(&self, before: Timestamp) -> StoreResult<u64>;
}

/// Retention cut-offs: an ended execution is removed when it ended, and was last updated, before the time
/// that belongs to its way of ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionCutoffs {
    pub completed: Timestamp,
    pub failed: Timestamp,
    pub cancelled: Timestamp,
}

impl RetentionCutoffs {
    /// The same cut-off for every way of ending.
    pub fn uniform(time: Timestamp) -> Self {
        Self { completed: time, failed: time, cancelled: time }
    }

    /// `None` for a run that has not ended.
    pub fn cutoff_of_run(&self, status: claim::SeatStatus) -> Option<Timestamp> {
        match status {
            claim::SeatStatus::Completed => Some(self.completed),
            claim::SeatStatus::Failed => Some(self.failed),
            claim::SeatStatus::Created
            | claim::SeatStatus::AssigningToSelf
            | claim::SeatStatus::AssigningToOther
            | claim::SeatStatus::Assigned
            | claim::SeatStatus::Claimed
            | claim::SeatStatus::Processing
            | claim::SeatStatus::Reassigning => None,
        }
    }

    /// `None` for an execution that has not ended.
    pub fn cutoff_of_phase(&self, phase: ExecutionPhase) -> Option<Timestamp> {
        match phase {
            ExecutionPhase::Active => None,
            ExecutionPhase::Completed => Some(self.completed),
            ExecutionPhase::Failed => Some(self.failed),
            ExecutionPhase::Cancelled => Some(self.cancelled),
        }
    }
}
