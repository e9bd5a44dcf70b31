//! On what terms an action is handed out: who may take it, and how long it may take.

use std::time::Duration;

use crate::definition::{ActionKind, ActionSpec};
use crate::graph::{NodeInput, Work};
use crate::id::TenantId;
use crate::placement::Queue;

/// Stored with the action; the store counts from the moment at which the action becomes ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    pub queue: Queue,
    /// A lease ends this long after the last sign of life; else after the length that its taker asks for.
    pub heartbeat: Option<Duration>,
    /// How long one lease may be extended in all. The engine's own attempts time themselves.
    pub attempt: Option<Duration>,
    /// From ready to the first lease.
    pub start: Option<Duration>,
    /// From ready to the outcome.
    pub close: Option<Duration>,
}

impl Terms {
    /// Of what every worker performs, without limits of its own.
    pub fn engine_of(tenant: &TenantId) -> Self {
        Self { queue: Queue::engine_of(tenant), ..Self::engine() }
    }

    /// The same in the queue of all tenants, where releases before queues of tenants put it.
    pub fn engine() -> Self {
        Self { queue: Queue::engine(), heartbeat: None, attempt: None, start: None, close: None }
    }

    /// Of an attempt at a node. What needs no executor is performed by every worker.
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
