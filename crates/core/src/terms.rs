//! Lease policy of an action: its queue and its timeouts.

use std::time::Duration;

use crate::definition::{ActionKind, ActionSpec};
use crate::graph::{NodeInput, Work};
use crate::id::TenantId;
use crate::placement::Queue;

/// Queue and timeouts, stored with the action; the store measures them from the time the action becomes
/// ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    pub queue: Queue,
    /// A lease expires this long after the last heartbeat; without it, after the length that the worker
    /// requests.
    pub heartbeat: Option<Duration>,
    /// Longest total duration of one lease. The engine times its own attempts itself.
    pub attempt: Option<Duration>,
    /// From ready to the first lease.
    pub start: Option<Duration>,
    /// From ready to the outcome.
    pub close: Option<Duration>,
}

impl Terms {
    /// The queue of built-in kinds, without timeouts.
    pub fn engine_of(tenant: &TenantId) -> Self {
        Self { queue: Queue::engine_of(tenant), ..Self::engine() }
    }

    /// The same in the shared queue of all tenants, which earlier releases used.
    pub fn engine() -> Self {
        Self { queue: Queue::engine(), heartbeat: None, attempt: None, start: None, close: None }
    }

    /// Of an attempt at a graph node. Work without an executor goes to the queue that every worker serves.
    pub fn of_node(input: &NodeInput, tenant: &TenantId) -> Self {
        match input.work {
            Work::Execute => {
                Self { queue: Queue::node(tenant, &input.role, &input.labels), ..Self::engine_of(tenant) }
            }
            Work::Graph | Work::Execution => Self::engine_of(tenant),
        }
    }

    pub fn of(spec: &ActionSpec, tenant: &TenantId) -> Self {
        let timeouts = &spec.timeouts;
        let (queue, attempt) = match &spec.kind {
            ActionKind::Call { function, .. } => (Queue::call_of(tenant, function), None),
            ActionKind::Task(task) => {
                (Queue::task(tenant, &task.kind, &task.labels), Some(timeouts.start_to_close))
            }
            ActionKind::Log { .. }
            | ActionKind::Http(_)
            | ActionKind::Device(_)
            | ActionKind::TaskFor(_)
            | ActionKind::Emit(_)
            | ActionKind::Start(_)
            | ActionKind::Wait(_)
            | ActionKind::Webhook(_)
            | ActionKind::Noop { .. } => (Queue::engine_of(tenant), None),
        };
        Self {
            queue,
            heartbeat: timeouts.heartbeat,
            attempt,
            start: timeouts.schedule_to_start,
            close: timeouts.schedule_to_close,
        }
    }
}
