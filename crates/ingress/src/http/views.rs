//! JSON views of executions, events, transitions, actions and timers.
//!
//! The shapes are types of `millstream_api`; the store's views are not the contract. A field that does not
//! apply is null and not absent, unless it was added for operators or exists for some executions and actions
//! only.

use std::fmt::Display;

use millstream_api::actions::ActionView;
use millstream_api::events::{AcceptedEvent, Event};
use millstream_api::executions::{Execution, ParentAction};
use millstream_api::history::{ExecutionTransition, Timer, TransitionGraphChange, TransitionNodeChange};
use millstream_api::page::Page;
use millstream_model::action_queue::QueueParts;
use millstream_model::context::ExecutionContext;
use millstream_model::id::{EventId, ExecutionKey};
use millstream_model::raw::RawJson;
use millstream_model::status::{EventStatus, ExecutionStatus, PauseState};
use millstream_store::views::{ActionRecord, EventView, ExecutionView, HistoryEntry, TimerView};
use millstream_workflow::graph::{GraphChange, NodeChange};
use millstream_workflow::log::{ExecutionParent, ExecutionState};

use super::graphs::views::node_status;

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

/// Ids or names as text.
pub(crate) fn to_texts<T: Display>(items: impl IntoIterator<Item = T>) -> Vec<String> {
    items.into_iter().map(|item| item.to_string()).collect()
}

pub(crate) fn execution(view: ExecutionView) -> Execution<ExecutionContext> {
    let unreadable = view.unreadable.map(|why| format!("its state cannot be read: {why}"));
    Execution {
        execution_id: view.execution.execution.to_string(),
        definition: view.definition.name.to_string(),
        version: view.definition.version,
        state: view.state.state.to_string(),
        status: view.status.into(),
        context: view.state.context,
        seq: view.state.seq.0,
        created_at: view.created_at,
        updated_at: view.updated_at,
        reason: unreadable.or(view.state.reason).or(view.paused_reason),
        parent: view.state.parent.map(parent_action),
        correlation: view.state.correlation,
    }
}

/// The execution at an earlier state of its log. A pause is not in the log.
pub(crate) fn execution_at(view: ExecutionView, state: ExecutionState) -> Execution<ExecutionContext> {
    Execution {
        status: ExecutionStatus::of_phase(state.phase, PauseState::Running).into(),
        updated_at: state.at,
        ..execution(ExecutionView { state, paused_reason: None, ..view })
    }
}

pub(crate) fn parent_action(parent: ExecutionParent) -> ParentAction {
    ParentAction {
        execution_id: parent.execution.to_string(),
        seq: parent.seq.0,
        action: parent.action.to_string(),
    }
}

pub(crate) fn accepted_event(
    event_id: EventId,
    execution: &ExecutionKey,
    status: EventStatus,
) -> AcceptedEvent {
    AcceptedEvent {
        event_id: event_id.to_string(),
        execution_id: execution.execution.to_string(),
        status: status.into(),
    }
}

pub(crate) fn event(view: EventView) -> Event<RawJson> {
    Event {
        event_id: view.event_id.to_string(),
        execution_id: view.execution.execution.to_string(),
        name: view.name.to_string(),
        payload: view.payload,
        status: view.status.into(),
        from_state: view.from_state.map(|state| state.to_string()),
        to_state: view.to_state.map(|state| state.to_string()),
        seq: view.seq.map(|seq| seq.0),
        attempts: view.attempts,
        error: view.error,
        actor: view.actor,
        worker_id: view.worker_id.map(|worker| worker.to_string()),
        created_at: view.created_at,
        started_at: view.started_at,
        completed_at: view.completed_at,
    }
}

pub(crate) fn transition(entry: HistoryEntry) -> ExecutionTransition<RawJson> {
    let transition = entry.transition;
    ExecutionTransition {
        seq: transition.seq.0,
        event_id: transition.event_id.to_string(),
        name: transition.name.to_string(),
        payload: entry.payload,
        from_state: transition.decision.from.map(|state| state.to_string()),
        to_state: transition.decision.to.to_string(),
        actions: to_texts(transition.decision.actions),
        at: transition.at,
        graph: transition.decision.graph.map(|change| graph_change(*change)),
    }
}

/// The watch reports the shape of the graph.
fn graph_change(change: GraphChange) -> TransitionGraphChange {
    let created = change.created.map(|_| 1);
    let patched = change.patch.map(|patch| patch.revision);
    let expanded = change.expanded.last().map(|expansion| expansion.revision);
    let node = |node: NodeChange| TransitionNodeChange {
        node: node.id.to_string(),
        status: node_status(node.status),
        attempt: node.attempt,
        why: node.why,
    };
    TransitionGraphChange {
        nodes: change.nodes.into_iter().map(node).collect(),
        revision: expanded.or(patched).or(created),
    }
}

pub(crate) fn action(view: ActionRecord) -> ActionView<RawJson> {
    let (function, task_type, labels) = match view.queue.parts() {
        // The engine sends nodes to executors.
        Some(QueueParts::Engine { .. } | QueueParts::Node { .. }) | None => (None, None, None),
        Some(QueueParts::Call { tenant: _, function }) => (Some(function.to_string()), None, None),
        Some(QueueParts::Task { tenant: _, kind, labels }) => {
            (None, Some(kind.to_string()), Some(to_texts(labels)))
        }
    };
    ActionView {
        seq: view.key.seq.0,
        action: view.key.action.to_string(),
        key: view.key.with_revision(view.revision),
        event_id: view.event_id.to_string(),
        needs: to_texts(view.needs),
        status: view.status.into(),
        attempts: view.attempts,
        worker_id: view.worker_id.map(|worker| worker.to_string()),
        lease_until: view.lease_until,
        next_attempt_at: view.next_attempt_at,
        input: view.input,
        result: view.result,
        error: view.error,
        created_at: view.created_at,
        settled_at: view.settled_at,
        revision: view.revision,
        progress: view.progress,
        function,
        task_type,
        labels,
    }
}

pub(crate) fn timer(view: TimerView) -> Timer {
    Timer {
        armed_seq: view.armed_seq.0,
        ordinal: view.ordinal,
        send: view.send.to_string(),
        fire_at: view.fire_at,
    }
}
