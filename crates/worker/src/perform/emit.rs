//! `emit`: an event for another execution of the same tenant, by its id or by its correlation.
//!
//! The event's id is derived from the action's key, so that an attempt after a lost answer creates no second
//! event.

use millstream_core::action::{ActionError, Attempt, ErrorClass};
use millstream_core::entropy::{derived_event_id, signal_id};
use millstream_core::id::{DefinitionRef, EventId, ExecutionId, ExecutionKey, Name, TenantId};
use millstream_core::log::Origin;
use millstream_core::machine::{EmitInput, EmitTo, valid_correlation};
use millstream_core::program::Program;
use millstream_core::raw::RawJson;
use millstream_store::action_store::LeasedAction;
use millstream_store::event_log::{Append, Appended, NewEvent, NewSignal};
use millstream_store::{Result, StoreError};
use millstream_stream::doorbell::Bell;
use serde::Serialize;

use super::errand::Credentials;
use crate::aftermath;
use crate::worker::Worker;

#[derive(Serialize)]
struct Emitted {
    event_id: EventId,
    #[serde(skip_serializing_if = "Option::is_none")]
    execution_id: Option<ExecutionId>,
}

pub(crate) async fn perform(
    worker: &Worker,
    action: &LeasedAction,
    input: EmitInput,
    credentials: &Credentials,
) -> Attempt {
    let tenant = &action.lease.key.execution.tenant;
    let event_id = derived_event_id(&format!("emit {}", credentials.idempotency_key));
    let actor = Some(format!("action:{}", action.lease.key.action));
    let emitted = match &input.to {
        EmitTo::Execution(id) => to_execution(worker, tenant, id, &input, event_id, actor, action).await,
        EmitTo::Correlation(correlation) => {
            let signal_id = signal_id(event_id);
            to_correlation(worker, tenant, correlation, &input, signal_id, actor, action).await
        }
    };
    match emitted {
        Ok(attempt) => attempt,
        Err(error) => unavailable(&error),
    }
}

async fn to_execution(
    worker: &Worker,
    tenant: &TenantId,
    id: &str,
    input: &EmitInput,
    event_id: EventId,
    actor: Option<String>,
    action: &LeasedAction,
) -> Result<Attempt> {
    let execution = match ExecutionId::parse(id) {
        Ok(execution) => ExecutionKey { tenant: tenant.clone(), execution },
        Err(error) => return Ok(refused(format!("emit.to: {id:?} {error}"))),
    };
    if let Some(definition) =
        worker.deps.stores.events.targets(std::slice::from_ref(&execution)).await?.pop().flatten()
        && let Some(refusal) = unmentioned(worker, tenant, &definition, &input.event).await?
    {
        return Ok(refusal);
    }
    let event = NewEvent {
        event_id,
        execution: execution.clone(),
        name: input.event.clone(),
        payload: input.payload.clone(),
        origin: Origin::Posted,
        idempotency: None,
        actor,
        traceparent: action.traceparent.clone(),
    };
    let appended = append(worker, Append::Event(event)).await?;
    Ok(match appended {
        Some(Appended::NoExecution) => refused(format!("emit.to: there is no execution {id:?}")),
        Some(Appended::Accepted { .. } | Appended::Repeat { .. }) => {
            ring(worker, &execution).await;
            done(event_id, Some(execution.execution))
        }
        other => refused(format!("the event was not accepted: {other:?}")),
    })
}

async fn to_correlation(
    worker: &Worker,
    tenant: &TenantId,
    correlation: &str,
    input: &EmitInput,
    event_id: EventId,
    actor: Option<String>,
    action: &LeasedAction,
) -> Result<Attempt> {
    if let Err(why) = valid_correlation(correlation) {
        return Ok(refused(format!("emit.correlation {why}")));
    }
    let found = worker.deps.stores.relations.correlated(tenant, correlation, None, 2).await?;
    if let [(_, definition)] = found.as_slice()
        && let Some(refusal) = unmentioned(worker, tenant, definition, &input.event).await?
    {
        return Ok(refusal);
    }
    let signal = NewSignal {
        event_id,
        tenant: tenant.clone(),
        correlation: correlation.to_owned(),
        definition: None,
        name: input.event.clone(),
        payload: input.payload.clone(),
        idempotency: None,
        actor,
        traceparent: action.traceparent.clone(),
        expires_at: worker.now().plus(worker.options.signal_ttl),
    };
    Ok(match append(worker, Append::Signal(Box::new(signal))).await? {
        Some(Appended::Delivered { execution, .. }) => {
            ring(worker, &execution).await;
            done(event_id, Some(execution.execution))
        }
        Some(Appended::Buffered | Appended::Repeat { .. }) => done(event_id, None),
        Some(Appended::Ambiguous { executions }) => {
            refused(format!("emit.correlation: {executions} executions have the correlation {correlation:?}"))
        }
        other => refused(format!("the signal was not accepted: {other:?}")),
    })
}

/// Refuses an event that no state mentions, as the ingress does. A definition that this build cannot read is
/// left to other builds.
async fn unmentioned(
    worker: &Worker,
    tenant: &TenantId,
    definition: &DefinitionRef,
    event: &Name,
) -> Result<Option<Attempt>> {
    let program = worker.programs.get(&*worker.deps.stores.definitions, tenant, definition).await?;
    Ok(match program {
        Ok(Program::Machine(machine)) if !machine.mentions(event) => {
            let definition = definition.name.as_str();
            Some(refused(format!("emit.event: no state of {definition:?} mentions {:?}", event.as_str())))
        }
        Ok(Program::Graph) => Some(refused(format!("emit.to: a graph has no event {:?}", event.as_str()))),
        Ok(Program::Machine(_)) | Err(_) => None,
    })
}

pub(super) async fn append(worker: &Worker, item: Append) -> Result<Option<Appended>> {
    Ok(worker.deps.stores.events.append(&[item], worker.now()).await?.pop())
}

/// The overdue sweep repeats a lost doorbell.
pub(super) async fn ring(worker: &Worker, execution: &ExecutionKey) {
    aftermath::ring(worker, &[Bell::Mailbox(execution.clone())]).await;
}

fn done(event_id: EventId, execution_id: Option<ExecutionId>) -> Attempt {
    Attempt::Success { result: RawJson::of(&Emitted { event_id, execution_id }) }
}

pub(super) fn refused(message: String) -> Attempt {
    Attempt::Permanent { error: ActionError { class: ErrorClass::Target, message, status: None } }
}

pub(super) fn unavailable(error: &StoreError) -> Attempt {
    let error = ActionError { class: ErrorClass::Internal, message: format!("store: {error}"), status: None };
    Attempt::Transient { error, retry_after: None }
}
