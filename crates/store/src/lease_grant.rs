//! Grants of leases along with a write: how many, for how long, and in which queues.

use std::sync::Arc;
use std::time::Duration;

use millstream_model::action_queue::ActionQueue;

/// How many actions a commit or a settlement leases to the worker, and for how long.
#[derive(Debug, Clone)]
pub struct LeaseGrant {
    pub slots: usize,
    pub ttl: Duration,
    /// The queues that the worker serves. Where actions are leased along with a write, a queue of all tenants
    /// covers that queue of every tenant; `lease` reads only the queues that are named.
    pub queues: Arc<[ActionQueue]>,
}

impl LeaseGrant {
    /// For a caller that performs no actions.
    pub fn without_slots() -> Self {
        Self { slots: 0, ttl: Duration::ZERO, queues: Arc::new([]) }
    }

    /// The same with this number of slots.
    #[must_use]
    pub fn with_slots(&self, slots: usize) -> Self {
        Self { slots, ..self.clone() }
    }

    /// Whether the worker serves the queue: it names it, or the same queue of all tenants.
    pub fn serves(&self, queue: &ActionQueue) -> bool {
        self.queues.contains(queue)
            || queue.for_all_tenants().is_some_and(|all_tenants| self.queues.contains(&all_tenants))
    }
}
