//! `emit`: an event for another execution of the same tenant, by its id or by its correlation.
//!
//! The event's id is derived from the action's key, so that an attempt after a lost answer creates no second
//! event.

use millstream_model::attempt::{ActionFailure, AttemptOutcome};
use millstream_model::entropy::{derived_event_id, signal_id};
use millstream_model::error_class::ErrorClass;
use millstream_model::id::{DefinitionRef, EventId, ExecutionId, ExecutionKey, Name, TenantId};
use millstream_model::raw::RawJson;
use millstream_store::action_store::LeasedAction;
use millstream_store::event_log::{AppendRequest, Appended, EventSubmission, SignalSubmission};
use millstream_store::{StoreError, StoreResult};
use millstream_stream::doorbell::Doorbell;
use millstream_workflow::log::EventOrigin;
use millstream_workflow::machine::{EmitInput, EmitTo, check_correlation};
use millstream_workflow::program::ExecutionProgram;
use serde::Serialize;

use super::attempt_contract::AttemptCredentials;
use super::performer::ActionPerformer;
use crate::notifications::publish_bells;

#[derive(Serialize)]
struct EmittedEvent {
    event_id: EventId,
    #[serde(skip_serializing_if = "Option::is_none")]
    execution_id: Option<ExecutionId>,
}

pub(crate) async fn perform_emit(
    performer: &ActionPerformer,
    action: &LeasedAction,
    input: EmitInput,
    credentials: &AttemptCredentials,
) -> AttemptOutcome {
    let tenant = &action.lease.key.execution.tenant;
    let event_id = derived_event_id(&format!("emit {}", credentials.idempotency_key));
    let actor = Some(format!("action:{}", action.lease.key.action));
    let emitted = match &input.to {
        EmitTo::Execution(id) => to_execution(performer, tenant, id, &input, event_id, actor, action).await,
        EmitTo::Correlation(correlation) => {
            let signal_id = signal_id(event_id);
            to_correlation(performer, tenant, correlation, &input, signal_id, actor, action).await
        }
    };
    match emitted {
        Ok(attempt) => attempt,
        Err(error) => store_unavailable(&error),
    }
}

async fn to_execution(
    performer: &ActionPerformer,
    tenant: &TenantId,
    id: &str,
    input: &EmitInput,
    event_id: EventId,
    actor: Option<String>,
    action: &LeasedAction,
) -> StoreResult<AttemptOutcome> {
    let execution = match ExecutionId::parse(id) {
        Ok(execution) => ExecutionKey { tenant: tenant.clone(), execution },
        Err(error) => return Ok(refuse_target(format!("emit.to: {id:?} {error}"))),
    };
    if let Some(definition) =
        performer.env.stores.events.find_definitions(std::slice::from_ref(&execution)).await?.pop().flatten()
        && let Some(refusal) = refuse_unmentioned(performer, tenant, &definition, &input.event).await?
    {
        return Ok(refusal);
    }
    let event = EventSubmission {
        event_id,
        execution: execution.clone(),
        name: input.event.clone(),
        payload: input.payload.clone(),
        origin: EventOrigin::Posted,
        idempotency: None,
        actor,
        traceparent: action.traceparent.clone(),
    };
    let appended = append_event(performer, AppendRequest::Event(event)).await?;
    Ok(match appended {
        Some(Appended::NoExecution) => refuse_target(format!("emit.to: there is no execution {id:?}")),
        Some(Appended::Accepted { .. } | Appended::Repeat { .. }) => {
            ring_execution(performer, &execution).await;
            emit_succeeded(event_id, Some(execution.execution))
        }
        other => refuse_target(format!("the event was not accepted: {other:?}")),
    })
}

async fn to_correlation(
    performer: &ActionPerformer,
    tenant: &TenantId,
    correlation: &str,
    input: &EmitInput,
    event_id: EventId,
    actor: Option<String>,
    action: &LeasedAction,
) -> StoreResult<AttemptOutcome> {
    if let Err(why) = check_correlation(correlation) {
        return Ok(refuse_target(format!("emit.correlation {why}")));
    }
    let found = performer.env.stores.relations.find_correlated(tenant, correlation, None, 2).await?;
    if let [(_, definition)] = found.as_slice()
        && let Some(refusal) = refuse_unmentioned(performer, tenant, definition, &input.event).await?
    {
        return Ok(refusal);
    }
    let signal = SignalSubmission {
        event_id,
        tenant: tenant.clone(),
        correlation: correlation.to_owned(),
        definition: None,
        name: input.event.clone(),
        payload: input.payload.clone(),
        idempotency: None,
        actor,
        traceparent: action.traceparent.clone(),
        expires_at: performer.env.now().plus(performer.env.options.signal_ttl),
    };
    Ok(match append_event(performer, AppendRequest::Signal(Box::new(signal))).await? {
        Some(Appended::Delivered { execution, .. }) => {
            ring_execution(performer, &execution).await;
            emit_succeeded(event_id, Some(execution.execution))
        }
        Some(Appended::Buffered | Appended::Repeat { .. }) => emit_succeeded(event_id, None),
        Some(Appended::Ambiguous { executions }) => refuse_target(format!(
            "emit.correlation: {executions} executions have the correlation {correlation:?}"
        )),
        other => refuse_target(format!("the signal was not accepted: {other:?}")),
    })
}

/// Refuses an event that no state mentions, as the ingress does. A definition that this build cannot read is
/// left to other builds.
async fn refuse_unmentioned(
    performer: &ActionPerformer,
    tenant: &TenantId,
    definition: &DefinitionRef,
    event: &Name,
) -> StoreResult<Option<AttemptOutcome>> {
    let program = performer.programs.get(&*performer.env.stores.definitions, tenant, definition).await?;
    Ok(match program {
        Ok(ExecutionProgram::Machine(machine)) if !machine.knows_event(event) => {
            let definition = definition.name.as_str();
            Some(refuse_target(format!(
                "emit.event: no state of {definition:?} mentions {:?}",
                event.as_str()
            )))
        }
        Ok(ExecutionProgram::Graph) => {
            Some(refuse_target(format!("emit.to: a graph has no event {:?}", event.as_str())))
        }
        Ok(ExecutionProgram::Machine(_)) | Err(_) => None,
    })
}

pub(super) async fn append_event(
    performer: &ActionPerformer,
    item: AppendRequest,
) -> StoreResult<Option<Appended>> {
    Ok(performer.env.stores.events.append(&[item], performer.env.now()).await?.pop())
}

/// The overdue sweep repeats a lost doorbell.
pub(super) async fn ring_execution(performer: &ActionPerformer, execution: &ExecutionKey) {
    publish_bells(&performer.env, &[Doorbell::Mailbox(execution.clone())]).await;
}

fn emit_succeeded(event_id: EventId, execution_id: Option<ExecutionId>) -> AttemptOutcome {
    AttemptOutcome::Success { result: RawJson::from_value(&EmittedEvent { event_id, execution_id }) }
}

pub(super) fn refuse_target(message: String) -> AttemptOutcome {
    AttemptOutcome::Permanent { error: ActionFailure { class: ErrorClass::Target, message, status: None } }
}

pub(super) fn store_unavailable(error: &StoreError) -> AttemptOutcome {
    let error =
        ActionFailure { class: ErrorClass::Internal, message: format!("store: {error}"), status: None };
    AttemptOutcome::Transient { error, retry_after: None }
}
