//! Duties at the end of an execution: a child returns its outcome to its parent, a parent closes its
//! children.
//!
//! Both are actions of the transition that ended the execution, so both are done even if every process dies
//! in between, and repeating them changes nothing: the parent's action has one outcome, and an event with an
//! existing id is not appended again.

use std::time::Duration;

use millstream_model::attempt::{ActionFailure, AttemptOutcome};
use millstream_model::entropy::derived_event_id;
use millstream_model::error_class::ErrorClass;
use millstream_model::id::{ActionKey, ExecutionKey, Name};
use millstream_model::raw::RawJson;
use millstream_model::status::{ActionStatus, ExecutionPhase};
use millstream_store::StoreResult;
use millstream_store::action_store::{Lease, LeasedAction, SettleVerdict, Settlement};
use millstream_store::event_log::{AppendRequest, EventSubmission};
use millstream_store::views::ExecutionView;
use millstream_stream::doorbell::Doorbell;
use millstream_workflow::definition::ParentClose;
use millstream_workflow::graph::{ExecutorAnswer, NodeInput, NodeStatus};
use millstream_workflow::log::EventOrigin;
use millstream_workflow::machine::{ActionInput, ReturnInput};
use serde::Serialize;

use super::attempt::conclude_for_other;
use super::attempt_contract::{PerformOutcome, internal_error};
use super::emit::store_unavailable;
use super::performer::ActionPerformer;
use super::{device, task_for};
use crate::notifications::publish_bells;

/// Children closed in one transaction.
const PAGE: usize = 256;
/// Delay before a retry while the parent does not await the child yet.
const NOT_AWAITED: Duration = Duration::from_secs(1);

/// The outcome for the parent.
#[derive(Serialize)]
struct ChildOutcome<'a> {
    execution_id: &'a str,
    status: ExecutionPhase,
    state: &'a Name,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    context: &'a RawJson,
}

pub(crate) async fn return_to_parent(
    performer: &ActionPerformer,
    action: &LeasedAction,
    input: &ReturnInput,
) -> PerformOutcome {
    match settle_parent(performer, action, input).await {
        Ok(Some(attempt)) => PerformOutcome::Attempt(attempt),
        Ok(None) => PerformOutcome::postponed(performer.env.now().plus(NOT_AWAITED)),
        Err(error) => PerformOutcome::Attempt(store_unavailable(&error)),
    }
}

/// `None` while the parent's action does not await it yet: the worker that began the child has died, and
/// another worker will find the child.
async fn settle_parent(
    performer: &ActionPerformer,
    child: &LeasedAction,
    input: &ReturnInput,
) -> StoreResult<Option<AttemptOutcome>> {
    let child_key = &child.lease.key.execution;
    let parent = ExecutionKey { tenant: child_key.tenant.clone(), execution: input.parent.clone() };
    let key = ActionKey { execution: parent.clone(), seq: input.seq, action: input.action.clone() };
    let found = performer.env.stores.tasks.find_actions(std::slice::from_ref(&key)).await?;
    let Some(view) = found.into_iter().flatten().next() else {
        return Ok(Some(return_note("the parent is gone")));
    };
    match view.status {
        ActionStatus::Awaiting => {}
        ActionStatus::Leased | ActionStatus::Ready | ActionStatus::Waiting => return Ok(None),
        ActionStatus::Standby
        | ActionStatus::Succeeded
        | ActionStatus::Failed
        | ActionStatus::Skipped
        | ActionStatus::Cancelled => return Ok(Some(return_note("the parent has its outcome"))),
    }
    let Some(definition) =
        performer.env.stores.events.find_definitions(std::slice::from_ref(&parent)).await?.pop().flatten()
    else {
        return Ok(Some(return_note("the parent is gone")));
    };
    let ended = ChildOutcome {
        execution_id: child_key.execution.as_str(),
        status: input.phase,
        state: &input.state,
        reason: input.reason.as_deref(),
        context: &input.context,
    };
    let attempt = match input.phase {
        ExecutionPhase::Completed => AttemptOutcome::Success { result: RawJson::from_value(&ended) },
        ExecutionPhase::Active | ExecutionPhase::Failed | ExecutionPhase::Cancelled => {
            let why = input.reason.as_deref().unwrap_or("it ended so");
            let message = format!(
                "the child {} is {} in state {}: {why}",
                child_key.execution, input.phase, input.state
            );
            let error = ActionFailure { class: ErrorClass::Child, message, status: None };
            AttemptOutcome::Permanent { error }
        }
    };
    let attempt = match view.input.as_ref().map(|raw| raw.decode::<ActionInput>()) {
        Some(Ok(ActionInput::Node(node))) => node_answer(&node, input, attempt),
        Some(_) | None => attempt,
    };
    let concluded = conclude_for_other(performer, &definition, view.as_attempt(), attempt).await?;
    let Some(outcome) = concluded else {
        // Another build may be able to read it.
        let error = internal_error("the parent's definition cannot be read here".to_owned());
        return Ok(Some(AttemptOutcome::Transient { error, retry_after: None }));
    };
    let lease = Lease { key: view.key.clone(), epoch: view.epoch };
    let settlement = Settlement { lease, event_id: view.event_id, outcome };
    let grant = performer.leasing.lease_grant(0);
    let settled = performer
        .env
        .stores
        .actions
        .settle_actions(&performer.env.options.worker, &[settlement], &grant, performer.env.now())
        .await?;
    let recorded = matches!(settled.verdicts.first(), Some(SettleVerdict::Recorded { .. }));
    performer.leasing.note_due_actions(&parent.tenant);
    publish_bells(&performer.env, &[Doorbell::Mailbox(parent.clone()), Doorbell::Actions(parent)]).await;
    Ok(Some(return_note(if recorded { "told" } else { "already settled" })))
}

/// For a graph node the end of its child is an ordinary answer. It contains what the child knows.
fn node_answer(node: &NodeInput, child: &ReturnInput, attempt: AttemptOutcome) -> AttemptOutcome {
    let (status, result, error) = match attempt {
        AttemptOutcome::Success { .. } => (NodeStatus::Pass, Some(child.context.clone()), None),
        AttemptOutcome::Transient { error, .. }
        | AttemptOutcome::Permanent { error }
        | AttemptOutcome::Pause { error } => (NodeStatus::Fail, None, Some(error.message)),
    };
    let answer = ExecutorAnswer {
        status,
        attempt: node.attempt,
        result,
        error,
        edits: Vec::new(),
        known: Vec::new(),
        executor: None,
    };
    AttemptOutcome::Success { result: RawJson::from_value(&answer) }
}

/// Whether an ended execution has returned its outcome to its parent.
pub(super) async fn has_returned(performer: &ActionPerformer, child: &ExecutionView) -> StoreResult<bool> {
    let action = Name::return_to_parent();
    let key = ActionKey { execution: child.execution.clone(), seq: child.state.seq, action };
    let found = performer.env.stores.tasks.find_actions(&[key]).await?;
    Ok(found.into_iter().flatten().next().is_none_or(|telling| telling.status.is_settled()))
}

/// The outcome of a child that completed before it was awaited.
pub(super) fn completed_child(child: &ExecutionView) -> AttemptOutcome {
    let ended = ChildOutcome {
        execution_id: child.execution.execution.as_str(),
        status: child.state.phase,
        state: &child.state.state,
        reason: child.state.reason.as_deref(),
        context: &RawJson::from_value(&child.state.context),
    };
    AttemptOutcome::Success { result: RawJson::from_value(&ended) }
}

fn return_note(how: &str) -> AttemptOutcome {
    AttemptOutcome::Success { result: RawJson::from_value(&how) }
}

pub(crate) async fn close_children(performer: &ActionPerformer, action: &LeasedAction) -> AttemptOutcome {
    let execution = &action.lease.key.execution;
    let closed = async {
        let children = close_page(performer, execution).await?;
        let runs = device::withdraw_runs(performer, execution).await?;
        Ok(children + runs + task_for::withdraw_open_items(performer, action).await?)
    };
    match closed.await {
        Ok(closed) => AttemptOutcome::Success { result: RawJson::from_value(&closed) },
        Err(error) => store_unavailable(&error),
    }
}

async fn close_page(performer: &ActionPerformer, parent: &ExecutionKey) -> StoreResult<usize> {
    let (mut closed, mut after) = (0, None);
    loop {
        let relations = &performer.env.stores.relations;
        let children = relations.list_children(parent, ParentClose::Cancel, after.as_ref(), PAGE).await?;
        let Some(last) = children.last() else { return Ok(closed) };
        after = Some(last.clone());
        let cancels: Vec<AppendRequest> =
            children.iter().map(|child| AppendRequest::Event(cancel_event(parent, child))).collect();
        performer.env.stores.events.append(&cancels, performer.env.now()).await?;
        closed += children.len();
        let bells: Vec<Doorbell> = children.into_iter().map(Doorbell::Mailbox).collect();
        publish_bells(&performer.env, &bells).await;
    }
}

/// The same event at every repetition.
pub(super) fn cancel_event(parent: &ExecutionKey, child: &ExecutionKey) -> EventSubmission {
    #[derive(Serialize)]
    struct CloseReason {
        reason: String,
    }
    EventSubmission {
        event_id: derived_event_id(&format!("close {parent} {child}")),
        execution: child.clone(),
        name: Name::cancel_event(),
        payload: RawJson::from_value(&CloseReason {
            reason: format!("its parent {} has ended", parent.execution),
        }),
        origin: EventOrigin::Posted,
        idempotency: None,
        actor: Some("parent".to_owned()),
        traceparent: None,
    }
}
