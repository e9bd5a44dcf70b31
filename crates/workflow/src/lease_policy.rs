//! Lease policy of an action: its queue and its timeouts.

use std::time::Duration;

use millstream_model::action_queue::ActionQueue;
use millstream_model::id::TenantId;

use crate::definition::{ActionKind, ActionSpec};
use crate::graph::{NodeInput, NodePerformer};

/// Queue and timeouts, stored with the action; the store measures them from the time the action becomes
/// ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeasePolicy {
    pub queue: ActionQueue,
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

impl LeasePolicy {
    /// The queue of built-in kinds, without timeouts.
    pub fn engine_of(tenant: &TenantId) -> Self {
        Self { queue: ActionQueue::engine_of(tenant), ..Self::engine_for_all() }
    }

    /// The same in the shared queue of all tenants, which earlier releases used.
    pub fn engine_for_all() -> Self {
        Self {
            queue: ActionQueue::engine_for_all(),
            heartbeat: None,
            attempt: None,
            start: None,
            close: None,
        }
    }

    /// Of an attempt at a graph node. Work without an executor goes to the queue that every worker serves.
    pub fn of_node(input: &NodeInput, tenant: &TenantId) -> Self {
        match input.work {
            NodePerformer::Execute => Self {
                queue: ActionQueue::of_node(tenant, &input.role, &input.labels),
                ..Self::engine_of(tenant)
            },
            NodePerformer::Graph | NodePerformer::Execution => Self::engine_of(tenant),
        }
    }

    pub fn of_action(spec: &ActionSpec, tenant: &TenantId) -> Self {
        let timeouts = &spec.policy.timeouts;
        let (queue, attempt) = match &spec.kind {
            ActionKind::Call { function, .. } => (ActionQueue::call_of(tenant, function), None),
            ActionKind::Task(task) => {
                (ActionQueue::of_task(tenant, &task.kind, &task.labels), Some(timeouts.start_to_close))
            }
            ActionKind::Log { .. }
            | ActionKind::Http(_)
            | ActionKind::Device(_)
            | ActionKind::TaskFor(_)
            | ActionKind::Emit(_)
            | ActionKind::Start(_)
            | ActionKind::Wait(_)
            | ActionKind::Webhook(_)
            | ActionKind::Noop { .. } => (ActionQueue::engine_of(tenant), None),
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
