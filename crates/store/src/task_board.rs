//! Work for others: which queues have open actions, who serves them, and what nobody began in time.

use std::collections::BTreeSet;

use millstream_core::id::{ActionKey, Name, TenantId, WorkerId};
use millstream_core::placement::Queue;
use millstream_core::time::Timestamp;

use crate::Result;
use crate::action_store::LeasedAction;
use crate::execution_store::LeaseGrant;
use crate::views::ActionView;

#[async_trait::async_trait]
pub trait TaskBoard: Send + Sync {
    /// The queues whose names begin with `prefix` and that have an action which is open and not waiting
    /// for others, each once, in order. The work does not grow with the number of actions in them.
    async fn open_queues(&self, prefix: &str) -> Result<Vec<Queue>>;

    /// Lease up to `grant.slots` actions, of any queue, that somebody of the engine has to look at: those
    /// that have missed a deadline of their schedule (`Ready` and never begun `start` after they became
    /// ready; `Ready`, or under a lease that has ended, without an outcome `close` after), and those of
    /// external workers (which alone have `attempt`) whose lease has ended. `grant.queues` is not looked
    /// at, and this lease is no attempt: the counter stays. Like
    /// [`lease_each`](crate::action_store::ActionStore::lease_each) in everything else.
    async fn overdue(
        &self,
        worker: &WorkerId,
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> Result<Vec<LeasedAction>>;

    /// Actions by their keys, in the order asked; `None` where there is none.
    async fn find(&self, keys: &[ActionKey]) -> Result<Vec<Option<ActionView>>>;

    /// Say which external workers are connected here. Inserts or refreshes a row for each. Of one tenant the
    /// [`TASK_WORKERS_KEPT`] that were heard of last are kept.
    async fn present(&self, workers: &[Presence], now: Timestamp) -> Result<()>;

    /// At most `limit` external workers of a tenant heard of at `since` or later, by name.
    async fn connected(&self, tenant: &TenantId, since: Timestamp, limit: usize) -> Result<Vec<Connected>>;
}

/// External workers of one tenant that are kept: they choose their own names.
pub const TASK_WORKERS_KEPT: usize = 10_000;

/// An external worker. The tenant and the name are its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Presence {
    pub tenant: TenantId,
    /// As it calls itself; at most 128 bytes.
    pub name: String,
    pub kinds: BTreeSet<Name>,
    pub labels: BTreeSet<Name>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connected {
    pub presence: Presence,
    pub seen_at: Timestamp,
}
