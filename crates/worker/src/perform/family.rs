//! Duties at the end of an execution: a child returns its outcome to its parent, a parent closes its
//! children.
//!
//! Both are actions of the transition that ended the execution, so both are done even if every process dies
//! in between, and repeating them changes nothing: the parent's action has one outcome, and an event with an
//! existing id is not appended again.

use std::time::Duration;

use millstream_core::action::{ActionError, Attempt, ErrorClass};
use millstream_core::definition::ParentClose;
use millstream_core::entropy::derived_event_id;
use millstream_core::graph::{Answer, NodeInput, NodeStatus};
use millstream_core::id::{ActionKey, ExecutionKey, Name};
use millstream_core::log::Origin;
use millstream_core::machine::{ActionInput, ReturnInput};
use millstream_core::raw::RawJson;
use millstream_core::status::{ActionStatus, Phase};
use millstream_store::Result;
use millstream_store::action_store::{Begun, Lease, LeasedAction, SettleVerdict, Settlement};
use millstream_store::event_log::{Append, NewEvent};
use millstream_store::views::{ActionView, ExecutionView};
use millstream_stream::doorbell::Bell;
use serde::Serialize;

use super::emit::unavailable;
use super::errand::Done;
use super::{device, outcome, task_for};
use crate::aftermath;
use crate::worker::Worker;

/// Children closed in one transaction.
const PAGE: usize = 256;
/// Delay before a retry while the parent does not await the child yet.
const NOT_AWAITED: Duration = Duration::from_secs(1);

/// The outcome for the parent.
#[derive(Serialize)]
struct Ended<'a> {
    execution_id: &'a str,
    status: Phase,
    state: &'a Name,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    context: &'a RawJson,
}

pub(crate) async fn tell_parent(worker: &Worker, action: &LeasedAction, input: &ReturnInput) -> Done {
    match settle_parent(worker, action, input).await {
        Ok(Some(attempt)) => Done::Attempt(attempt),
        Ok(None) => Done::Postponed { at: worker.now().plus(NOT_AWAITED) },
        Err(error) => Done::Attempt(unavailable(&error)),
    }
}

/// `None` while the parent's action does not await it yet: the worker that began the child has died, and
/// another worker will find the child.
async fn settle_parent(
    worker: &Worker,
    child: &LeasedAction,
    input: &ReturnInput,
) -> Result<Option<Attempt>> {
    let child_key = &child.lease.key.execution;
    let parent = ExecutionKey { tenant: child_key.tenant.clone(), execution: input.parent.clone() };
    let key = ActionKey { execution: parent.clone(), seq: input.seq, action: input.action.clone() };
    let found = worker.deps.stores.tasks.find(std::slice::from_ref(&key)).await?;
    let Some(view) = found.into_iter().flatten().next() else { return Ok(Some(told("the parent is gone"))) };
    match view.status {
        ActionStatus::Awaiting => {}
        ActionStatus::Leased | ActionStatus::Ready | ActionStatus::Waiting => return Ok(None),
        ActionStatus::Standby
        | ActionStatus::Succeeded
        | ActionStatus::Failed
        | ActionStatus::Skipped
        | ActionStatus::Cancelled => return Ok(Some(told("the parent has its outcome"))),
    }
    let Some(definition) =
        worker.deps.stores.events.targets(std::slice::from_ref(&parent)).await?.pop().flatten()
    else {
        return Ok(Some(told("the parent is gone")));
    };
    let ended = Ended {
        execution_id: child_key.execution.as_str(),
        status: input.phase,
        state: &input.state,
        reason: input.reason.as_deref(),
        context: &input.context,
    };
    let attempt = match input.phase {
        Phase::Completed => Attempt::Success { result: RawJson::of(&ended) },
        Phase::Active | Phase::Failed | Phase::Cancelled => {
            let why = input.reason.as_deref().unwrap_or("it ended so");
            let message = format!(
                "the child {} is {} in state {}: {why}",
                child_key.execution, input.phase, input.state
            );
            let error = ActionError { class: ErrorClass::Child, message, status: None };
            Attempt::Permanent { error }
        }
    };
    let leased = leased(&view, definition);
    let attempt = match leased.input.as_ref().map(|raw| raw.decode::<ActionInput>()) {
        Some(Ok(ActionInput::Node(node))) => answer(&node, input, attempt),
        Some(_) | None => attempt,
    };
    let Some(settling) = outcome::of_other(worker, &leased, attempt).await? else {
        // Another build may be able to read it.
        let error = outcome::internal("the parent's definition cannot be read here".to_owned());
        return Ok(Some(Attempt::Transient { error, retry_after: None }));
    };
    let settlement = Settlement { lease: leased.lease.clone(), event_id: view.event_id, outcome: settling };
    let grant = worker.grant(0);
    let settled = worker
        .deps
        .stores
        .actions
        .settle(&worker.options.worker, &[settlement], &grant, worker.now())
        .await?;
    let recorded = matches!(settled.verdicts.first(), Some(SettleVerdict::Recorded { .. }));
    worker.hear_of_actions(&parent.tenant);
    aftermath::ring(worker, &[Bell::Mailbox(parent.clone()), Bell::Actions(parent)]).await;
    Ok(Some(told(if recorded { "told" } else { "already settled" })))
}

/// For a graph node the end of its child is an ordinary answer. It contains what the child knows.
fn answer(node: &NodeInput, child: &ReturnInput, attempt: Attempt) -> Attempt {
    let (status, result, error) = match attempt {
        Attempt::Success { .. } => (NodeStatus::Pass, Some(child.context.clone()), None),
        Attempt::Transient { error, .. } | Attempt::Permanent { error } | Attempt::Pause { error } => {
            (NodeStatus::Fail, None, Some(error.message))
        }
    };
    let answer = Answer {
        status,
        attempt: node.attempt,
        result,
        error,
        edits: Vec::new(),
        known: Vec::new(),
        executor: None,
    };
    Attempt::Success { result: RawJson::of(&answer) }
}

fn leased(view: &ActionView, definition: millstream_core::id::DefinitionRef) -> LeasedAction {
    LeasedAction {
        lease: Lease { key: view.key.clone(), epoch: view.epoch },
        event_id: view.event_id,
        definition,
        attempt: view.attempts,
        input: view.input.clone(),
        scope: None,
        results: Default::default(),
        traceparent: None,
        lease_until: view.created_at,
        revision: view.revision,
        heartbeat: None,
        progress: None,
        ready_at: view.ready_at.unwrap_or(view.created_at),
        closing: None,
        begun: Begun::No,
    }
}

/// Whether an ended execution has returned its outcome to its parent.
pub(super) async fn has_told(worker: &Worker, child: &ExecutionView) -> Result<bool> {
    let action = Name::return_to_parent();
    let key = ActionKey { execution: child.execution.clone(), seq: child.state.seq, action };
    let found = worker.deps.stores.tasks.find(&[key]).await?;
    Ok(found.into_iter().flatten().next().is_none_or(|telling| telling.status.is_settled()))
}

/// The outcome of a child that completed before it was awaited.
pub(super) fn completed(child: &ExecutionView) -> Attempt {
    let ended = Ended {
        execution_id: child.execution.execution.as_str(),
        status: child.state.phase,
        state: &child.state.state,
        reason: child.state.reason.as_deref(),
        context: &RawJson::of(&child.state.context),
    };
    Attempt::Success { result: RawJson::of(&ended) }
}

fn told(how: &str) -> Attempt {
    Attempt::Success { result: RawJson::of(&how) }
}

pub(crate) async fn close_children(worker: &Worker, action: &LeasedAction) -> Attempt {
    let execution = &action.lease.key.execution;
    let closed = async {
        let children = close(worker, execution).await?;
        let runs = device::withdraw(worker, execution).await?;
        Ok(children + runs + task_for::withdraw(worker, action).await?)
    };
    match closed.await {
        Ok(closed) => Attempt::Success { result: RawJson::of(&closed) },
        Err(error) => unavailable(&error),
    }
}

async fn close(worker: &Worker, parent: &ExecutionKey) -> Result<usize> {
    let (mut closed, mut after) = (0, None);
    loop {
        let relations = &worker.deps.stores.relations;
        let children = relations.children(parent, ParentClose::Cancel, after.as_ref(), PAGE).await?;
        let Some(last) = children.last() else { return Ok(closed) };
        after = Some(last.clone());
        let cancels: Vec<Append> =
            children.iter().map(|child| Append::Event(cancel(parent, child))).collect();
        worker.deps.stores.events.append(&cancels, worker.now()).await?;
        closed += children.len();
        let bells: Vec<Bell> = children.into_iter().map(Bell::Mailbox).collect();
        aftermath::ring(worker, &bells).await;
    }
}

/// The same event at every repetition.
pub(super) fn cancel(parent: &ExecutionKey, child: &ExecutionKey) -> NewEvent {
    #[derive(Serialize)]
    struct Why {
        reason: String,
    }
    NewEvent {
        event_id: derived_event_id(&format!("close {parent} {child}")),
        execution: child.clone(),
        name: Name::cancel(),
        payload: RawJson::of(&Why { reason: format!("its parent {} has ended", parent.execution) }),
        origin: Origin::Posted,
        idempotency: None,
        actor: Some("parent".to_owned()),
        traceparent: None,
    }
}
