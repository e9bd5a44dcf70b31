//! `start`: a child execution, whose end is the outcome of the action.
//!
//! The child's id is made from the action's key, so that an attempt whose answer was lost finds the child
//! that it made. A child that ended without success is not taken for a new one: a retry by a person
//! begins another. From then on the action awaits the child ([`super::family`] tells it the end).

use millstream_core::action::{ActionError, Attempt, ErrorClass};
use millstream_core::definition::ParentClose;
use millstream_core::entropy::derived_event_id;
use millstream_core::id::{ExecutionId, ExecutionKey, Name};
use millstream_core::log::{Origin, Parent};
use millstream_core::machine::{self, ActionInput, StartInput};
use millstream_core::schedule;
use millstream_core::status::ExecutionStatus;
use millstream_store::Result;
use millstream_store::action_store::LeasedAction;
use millstream_store::event_log::{Append, Appended, NewEvent, NewExecution};
use sha2::{Digest, Sha256};

use super::emit::{append, refused, ring, unavailable};
use super::errand::{Credentials, Done};
use super::family::cancel;
use crate::machines::Unusable;
use crate::worker::Worker;

/// A person who retries more often than this has other problems.
const CHILDREN: u32 = 20;

pub(crate) async fn perform(
    worker: &Worker,
    action: &LeasedAction,
    input: StartInput,
    credentials: &Credentials,
    timeouts: &millstream_core::definition::Timeouts,
) -> Done {
    match begin(worker, action, &input, credentials).await {
        Ok(None) => {
            let left = schedule::left(timeouts, action.ready_at, worker.now());
            Done::Awaiting { until: left.map(|left| worker.now().plus(left)) }
        }
        Ok(Some(attempt)) => Done::Attempt(attempt),
        Err(error) => Done::Attempt(unavailable(&error)),
    }
}

/// `None` once there is a child to wait for.
async fn begin(
    worker: &Worker,
    action: &LeasedAction,
    input: &StartInput,
    credentials: &Credentials,
) -> Result<Option<Attempt>> {
    let tenant = &action.lease.key.execution.tenant;
    for number in 1..=CHILDREN {
        let child = match child_id(input, &credentials.idempotency_key, number) {
            Ok(execution) => ExecutionKey { tenant: tenant.clone(), execution },
            Err(attempt) => return Ok(Some(attempt)),
        };
        let found = worker.deps.stores.execution_views.executions(std::slice::from_ref(&child)).await?;
        match found.into_iter().flatten().next() {
            None => return create(worker, action, input, credentials, child).await,
            Some(view) if !is_ours(&view.state.parent, action) => {
                return Ok(Some(refused(format!("start: the execution {} is another one", child.execution))));
            }
            Some(view) => match view.status {
                ExecutionStatus::Active | ExecutionStatus::Paused | ExecutionStatus::Completed => {
                    return Ok(None);
                }
                // Its end was told; this is another try.
                ExecutionStatus::Failed | ExecutionStatus::Cancelled => {}
            },
        }
    }
    Ok(Some(refused(format!("start: {CHILDREN} children have failed"))))
}

fn is_ours(parent: &Option<Parent>, action: &LeasedAction) -> bool {
    let key = &action.lease.key;
    parent.as_ref().is_some_and(|parent| {
        (&parent.execution, parent.seq, &parent.action) == (&key.execution.execution, key.seq, &key.action)
    })
}

/// As the definition says, or made from the key; the children after the first have a number.
fn child_id(input: &StartInput, key: &str, number: u32) -> std::result::Result<ExecutionId, Attempt> {
    let id = match &input.execution_id {
        Some(id) => id.clone(),
        None => format!("child-{}", derived_event_id(&format!("child {key}")).0.simple()),
    };
    let id = if number == 1 { id } else { format!("{id}.{number}") };
    ExecutionId::parse(&id).map_err(|error| refused(format!("start.execution_id: {id:?} {error}")))
}

async fn create(
    worker: &Worker,
    action: &LeasedAction,
    input: &StartInput,
    credentials: &Credentials,
    child: ExecutionKey,
) -> Result<Option<Attempt>> {
    let tenant = &child.tenant;
    let stored = worker.deps.stores.definitions.get(tenant, &input.definition, input.version).await?;
    let Some(definition) = stored.map(|stored| stored.definition) else {
        return Ok(Some(refused(format!("start.definition: there is no {}", wanted(input)))));
    };
    let machine = match worker.machines.get(&*worker.deps.stores.definitions, tenant, &definition).await? {
        Ok(machine) => machine,
        Err(Unusable::Gone(reason) | Unusable::Foreign(reason)) => {
            return Ok(Some(refused(format!("start.definition: {reason}"))));
        }
    };
    let key = &action.lease.key;
    let parent = Parent {
        execution: key.execution.execution.clone(),
        seq: key.seq,
        action: key.action.clone(),
        close: input.parent_close,
    };
    let event_id = worker.event_id();
    let now = worker.now();
    let (applied, state) = match machine::create_child(&machine, event_id, &input.input, Some(parent), now) {
        Ok(created) => created,
        Err(rejection) => {
            let message = format!("start.input: {rejection}");
            let error = ActionError { class: ErrorClass::Input, message, status: None };
            return Ok(Some(Attempt::Permanent { error }));
        }
    };
    let start = NewEvent {
        event_id,
        execution: child.clone(),
        name: Name::start(),
        payload: input.input.clone(),
        origin: Origin::Posted,
        idempotency: None,
        actor: Some(format!("action:{}", key.action)),
        traceparent: action.traceparent.clone(),
    };
    let input_hash = Sha256::digest(format!("child of {}", credentials.idempotency_key)).into();
    let new = NewExecution {
        key: child.clone(),
        definition,
        input_hash,
        start,
        applied,
        state,
        events: Vec::new(),
    };
    match append(worker, Append::Start(Box::new(new))).await? {
        Some(Appended::Accepted { .. } | Appended::Repeat { .. }) => {
            ring(worker, &child).await;
            Ok(None)
        }
        other => Ok(Some(refused(format!("start: {} was not created: {other:?}", child.execution)))),
    }
}

fn wanted(input: &StartInput) -> String {
    match input.version {
        Some(version) => format!("version {version} of {:?}", input.definition.as_str()),
        None => format!("definition {:?}", input.definition.as_str()),
    }
}

/// The schedule of a `start` is missed: a child that follows its parent is cancelled.
pub(crate) async fn give_up(worker: &Worker, action: &LeasedAction) {
    let Some(Ok(ActionInput::Start(input))) = action.input.as_ref().map(|input| input.decode()) else {
        return;
    };
    if input.parent_close == ParentClose::Abandon {
        return;
    }
    let parent = &action.lease.key.execution;
    let key = action.lease.key.with_revision(action.revision);
    let children = (1..=CHILDREN).map_while(|number| child_id(&input, &key, number).ok());
    let children: Vec<ExecutionKey> =
        children.map(|execution| ExecutionKey { tenant: parent.tenant.clone(), execution }).collect();
    let Ok(views) = worker.deps.stores.execution_views.executions(&children).await else { return };
    for view in views.into_iter().flatten().filter(|view| !view.state.phase.is_ended()) {
        if is_ours(&view.state.parent, action)
            && append(worker, Append::Event(cancel(parent, &view.execution))).await.is_ok()
        {
            ring(worker, &view.execution).await;
        }
    }
}
