//! Task board: queues with open actions, their external workers, and actions that missed a deadline.

use std::collections::BTreeSet;

use millstream_model::action_queue::ActionQueue;
use millstream_model::id::{ActionKey, Name, TenantId, WorkerId};
use millstream_model::time::Timestamp;

use crate::StoreResult;
use crate::action_store::LeasedAction;
use crate::execution_store::LeaseGrant;
use crate::views::ActionRecord;

#[async_trait::async_trait]
pub trait TaskBoard: Send + Sync {
    /// The queues whose names begin with `prefix` and that have an open action without unmet dependencies,
    /// each once, in order. The cost does not grow with the number of actions in them.
    async fn open_queues(&self, prefix: &str) -> StoreResult<Vec<ActionQueue>>;

    /// Lease up to `grant.slots` actions, of any queue, for the engine's deadline sweep: those that have
    /// missed a deadline of their schedule (`Ready` and not begun `start` after they became ready; `Ready`,
    /// or under an expired lease, without an outcome `close` after), and those of external workers (only
    /// these have `attempt`) with an expired lease. `grant.queues` is ignored, and this lease is no attempt:
    /// the counter stays. Like [`lease_each`](crate::action_store::ActionStore::lease_each) in everything
    /// else.
    async fn lease_overdue(
        &self,
        worker: &WorkerId,
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> StoreResult<Vec<LeasedAction>>;

    /// Actions by their keys, in the order asked; `None` where there is none.
    async fn find_actions(&self, keys: &[ActionKey]) -> StoreResult<Vec<Option<ActionRecord>>>;

    /// Registers the external workers that are connected here, or refreshes them. Per tenant the
    /// [`TASK_WORKERS_KEPT`] with the latest heartbeats are kept.
    async fn record_presence(&self, workers: &[ExternalWorkerReport], now: Timestamp) -> StoreResult<()>;

    /// At most `limit` external workers of a tenant with a heartbeat at or after `since`, by name.
    async fn list_connected(
        &self,
        tenant: &TenantId,
        since: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<ExternalWorkerView>>;
}

/// How many external workers of one tenant are kept: they choose their own names, so the number needs a
/// bound.
pub const TASK_WORKERS_KEPT: usize = 10_000;

/// An external worker. The tenant and the name are its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalWorkerReport {
    pub tenant: TenantId,
    /// Its own name; at most 128 bytes.
    pub name: String,
    pub kinds: BTreeSet<Name>,
    pub labels: BTreeSet<Name>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalWorkerView {
    pub presence: ExternalWorkerReport,
    pub seen_at: Timestamp,
}
