//! JSON views of executions, events, transitions, actions and timers.
//!
//! These shapes are the contract; the store's views are not. A field that does not apply is null and not
//! absent, unless it was added for operators or exists for some executions and actions only.

use std::collections::BTreeSet;

use millstream_api::page::Page;
use millstream_model::action_queue::{ActionQueue, QueueParts};
use millstream_model::context::ExecutionContext;
use millstream_model::id::{EventId, ExecutionId, Name, Seq, WorkerId};
use millstream_model::raw::RawJson;
use millstream_model::status::{ActionStatus, EventStatus, ExecutionStatus, PauseState};
use millstream_model::time::Timestamp;
use millstream_store::views::{ActionRecord, EventView, ExecutionView, HistoryEntry, TimerView};
use millstream_workflow::graph::{GraphChange, NodeChange, NodeId, NodeStatus};
use millstream_workflow::log::{ExecutionParent, ExecutionState};
use serde::Serialize;

use super::problem::ProblemDocument;

/// A page of at most `limit` items out of `found`, which was queried with one more than that; `cursor` makes the
/// cursor of the last item.
pub(crate) fn page_of<V, T>(
    mut found: Vec<V>,
    limit: usize,
    cursor: impl FnOnce(&V) -> String,
    show: impl FnMut(V) -> T,
) -> Page<T> {
    let more = found.len() > limit;
    found.truncate(limit);
    let next_cursor = if more { found.last().map(cursor) } else { None };
    Page { items: found.into_iter().map(show).collect(), next_cursor }
}

/// `{items, next_cursor}`.
#[derive(Debug, Serialize)]
pub(crate) struct PageOut<T> {
    pub(crate) items: Vec<T>,
    pub(crate) next_cursor: Option<String>,
}

impl<T> PageOut<T> {
    /// A page of at most `limit` items out of `found`, which was queried with one more than that; `cursor`
    /// makes the cursor of the last item.
    pub(crate) fn of<V>(
        mut found: Vec<V>,
        limit: usize,
        cursor: impl FnOnce(&V) -> String,
        show: impl FnMut(V) -> T,
    ) -> Self {
        let more = found.len() > limit;
        found.truncate(limit);
        let next_cursor = if more { found.last().map(cursor) } else { None };
        Self { items: found.into_iter().map(show).collect(), next_cursor }
    }
}

/// An item of a batch answer: the result, or the problem.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum BatchItemOut<'a, T> {
    Good(T),
    Bad { problem: ProblemDocument<'a> },
}

#[derive(Debug, Serialize)]
pub(crate) struct ItemList<T> {
    pub(crate) items: Vec<T>,
}

#[derive(Debug, Serialize)]
pub(crate) struct ExecutionOut {
    pub(crate) execution_id: ExecutionId,
    pub(crate) definition: Name,
    pub(crate) version: i32,
    pub(crate) state: Name,
    pub(crate) status: ExecutionStatus,
    pub(crate) context: ExecutionContext,
    pub(crate) seq: Seq,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
    /// Why the execution ended, if no final state says it; or why it is paused; or that its state cannot be
    /// read (its context is then absent).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parent: Option<ParentOut>,
    /// The name by which signals find the execution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) correlation: Option<String>,
}

/// The action that started a child execution.
#[derive(Debug, Serialize)]
pub(crate) struct ParentOut {
    execution_id: ExecutionId,
    seq: Seq,
    action: Name,
}

impl From<ExecutionParent> for ParentOut {
    fn from(parent: ExecutionParent) -> Self {
        Self { execution_id: parent.execution, seq: parent.seq, action: parent.action }
    }
}

impl From<ExecutionView> for ExecutionOut {
    fn from(view: ExecutionView) -> Self {
        let unreadable = view.unreadable.map(|why| format!("its state cannot be read: {why}"));
        Self {
            execution_id: view.execution.execution,
            definition: view.definition.name,
            version: view.definition.version,
            state: view.state.state,
            status: view.status,
            context: view.state.context,
            seq: view.state.seq,
            created_at: view.created_at,
            updated_at: view.updated_at,
            reason: unreadable.or(view.state.reason).or(view.paused_reason),
            parent: view.state.parent.map(ParentOut::from),
            correlation: view.state.correlation,
        }
    }
}

impl ExecutionOut {
    /// The execution at an earlier state of its log. A pause is not in the log.
    pub(crate) fn at(view: ExecutionView, state: ExecutionState) -> Self {
        Self {
            status: ExecutionStatus::of_phase(state.phase, PauseState::Running),
            updated_at: state.at,
            ..Self::from(ExecutionView { state, paused_reason: None, ..view })
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct AcceptedEventOut {
    pub(crate) event_id: EventId,
    pub(crate) execution_id: ExecutionId,
    pub(crate) status: EventStatus,
}

#[derive(Debug, Serialize)]
pub(crate) struct EventOut {
    event_id: EventId,
    execution_id: ExecutionId,
    name: Name,
    payload: RawJson,
    status: EventStatus,
    from_state: Option<Name>,
    to_state: Option<Name>,
    seq: Option<Seq>,
    attempts: i32,
    error: Option<String>,
    actor: Option<String>,
    worker_id: Option<WorkerId>,
    created_at: Timestamp,
    started_at: Option<Timestamp>,
    completed_at: Option<Timestamp>,
}

impl From<EventView> for EventOut {
    fn from(view: EventView) -> Self {
        Self {
            event_id: view.event_id,
            execution_id: view.execution.execution,
            name: view.name,
            payload: view.payload,
            status: view.status,
            from_state: view.from_state,
            to_state: view.to_state,
            seq: view.seq,
            attempts: view.attempts,
            error: view.error,
            actor: view.actor,
            worker_id: view.worker_id,
            created_at: view.created_at,
            started_at: view.started_at,
            completed_at: view.completed_at,
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct TransitionOut {
    pub(crate) seq: Seq,
    event_id: EventId,
    name: Name,
    payload: RawJson,
    from_state: Option<Name>,
    to_state: Name,
    actions: Vec<Name>,
    at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    graph: Option<GraphChangeOut>,
}

/// The changes of a transition to a graph. The watch reports the shape.
#[derive(Debug, Serialize)]
struct GraphChangeOut {
    nodes: Vec<NodeChangeOut>,
    revision: Option<u32>,
}

#[derive(Debug, Serialize)]
struct NodeChangeOut {
    node: NodeId,
    status: NodeStatus,
    attempt: u32,
    why: Option<String>,
}

impl From<GraphChange> for GraphChangeOut {
    fn from(change: GraphChange) -> Self {
        let created = change.created.map(|_| 1);
        let patched = change.patch.map(|patch| patch.revision);
        let expanded = change.expanded.last().map(|expansion| expansion.revision);
        let node = |node: NodeChange| NodeChangeOut {
            node: node.id,
            status: node.status,
            attempt: node.attempt,
            why: node.why,
        };
        Self {
            nodes: change.nodes.into_iter().map(node).collect(),
            revision: expanded.or(patched).or(created),
        }
    }
}

impl From<HistoryEntry> for TransitionOut {
    fn from(entry: HistoryEntry) -> Self {
        let transition = entry.transition;
        Self {
            seq: transition.seq,
            event_id: transition.event_id,
            name: transition.name,
            payload: entry.payload,
            from_state: transition.decision.from,
            to_state: transition.decision.to,
            actions: transition.decision.actions,
            at: transition.at,
            graph: transition.decision.graph.map(|change| GraphChangeOut::from(*change)),
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct ActionOut {
    seq: Seq,
    action: Name,
    key: String,
    event_id: EventId,
    needs: Vec<Name>,
    status: ActionStatus,
    attempts: i32,
    worker_id: Option<WorkerId>,
    lease_until: Option<Timestamp>,
    next_attempt_at: Option<Timestamp>,
    input: Option<RawJson>,
    result: Option<RawJson>,
    error: Option<RawJson>,
    created_at: Timestamp,
    settled_at: Option<Timestamp>,
    /// Number of times that a person edited the input.
    revision: i32,
    progress: Option<RawJson>,
    #[serde(flatten)]
    by: PerformerOut,
}

/// Who performs an action, where it is not the engine itself.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum PerformerOut {
    Engine {},
    Call {
        function: Name,
    },
    Task {
        #[serde(rename = "type")]
        kind: Name,
        labels: BTreeSet<Name>,
    },
}

impl PerformerOut {
    fn of(queue: &ActionQueue) -> Self {
        match queue.parts() {
            // The engine sends nodes to executors.
            Some(QueueParts::Engine { .. } | QueueParts::Node { .. }) | None => Self::Engine {},
            Some(QueueParts::Call { tenant: _, function }) => Self::Call { function },
            Some(QueueParts::Task { tenant: _, kind, labels }) => Self::Task { kind, labels },
        }
    }
}

impl From<ActionRecord> for ActionOut {
    fn from(view: ActionRecord) -> Self {
        Self {
            seq: view.key.seq,
            key: view.key.with_revision(view.revision),
            action: view.key.action,
            event_id: view.event_id,
            needs: view.needs,
            status: view.status,
            attempts: view.attempts,
            worker_id: view.worker_id,
            lease_until: view.lease_until,
            next_attempt_at: view.next_attempt_at,
            input: view.input,
            result: view.result,
            error: view.error,
            created_at: view.created_at,
            settled_at: view.settled_at,
            revision: view.revision,
            progress: view.progress,
            by: PerformerOut::of(&view.queue),
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct TimerOut {
    armed_seq: Seq,
    ordinal: i32,
    send: Name,
    fire_at: Timestamp,
}

impl From<TimerView> for TimerOut {
    fn from(view: TimerView) -> Self {
        Self { armed_seq: view.armed_seq, ordinal: view.ordinal, send: view.send, fire_at: view.fire_at }
    }
}
