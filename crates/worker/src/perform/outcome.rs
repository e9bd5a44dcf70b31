//! From what came of an attempt to what is settled: the shell around [`action::conclude`].

use millstream_core::action::{self, ActionError, Attempt, Conclusion, ErrorClass, OnFailure};
use millstream_core::definition::ActionSpec;
use millstream_core::id::{ActionKey, IncidentId};
use millstream_core::incident::NewIncident;
use millstream_core::machine;
use millstream_core::raw::RawJson;
use millstream_core::schedule;
use millstream_store::StoreError;
use millstream_store::action_store::{AfterFailure, LeasedAction, Settling};

use crate::metrics;
use crate::turn::outcome_event;
use crate::worker::Worker;

pub(crate) fn conclude(
    worker: &Worker,
    spec: &ActionSpec,
    action: &LeasedAction,
    attempt: Attempt,
) -> Settling {
    let outcome = match &attempt {
        Attempt::Success { .. } => "success",
        Attempt::Transient { .. } => "transient",
        Attempt::Permanent { .. } => "permanent",
        Attempt::Pause { .. } => "pause",
    };
    ::metrics::counter!(metrics::ATTEMPTS, "outcome" => outcome).increment(1);
    let key = &action.lease.key;
    let attempts = u32::try_from(action.attempt).unwrap_or(1);
    let shown = key.with_revision(action.revision);
    let event = |name, payload| {
        Box::new(outcome_event(worker.event_id(), key, name, payload, action.traceparent.clone()))
    };
    let left = schedule::left(&spec.timeouts, action.ready_at, worker.now());
    match action::conclude_within(spec, &shown, attempts, attempt, worker.unit(), left) {
        Conclusion::Succeeded { result, emit } => {
            Settling::Succeeded { result, emit: emit.map(|(name, payload)| event(name, payload)) }
        }
        Conclusion::Retry { wait, error } => {
            ::metrics::counter!(metrics::RETRIES).increment(1);
            tracing::debug!(action.key = %shown, action.attempt = attempts, error = %error, "an attempt failed, there will be another");
            Settling::Retry { error: RawJson::of(&error), at: worker.now().plus(wait) }
        }
        Conclusion::Failed { error, then } => {
            tracing::warn!(action.key = %shown, action.attempt = attempts, error = %error, "an action failed for good");
            let then = match then {
                OnFailure::Emit(name, payload) => AfterFailure::Emit(event(name, payload)),
                OnFailure::Compensate => AfterFailure::Compensate,
                OnFailure::Incident => AfterFailure::Incident(incident(worker, key, &error)),
            };
            Settling::Failed { error: RawJson::of(&error), then }
        }
    }
}

fn incident(worker: &Worker, key: &ActionKey, error: &ActionError) -> NewIncident {
    NewIncident {
        id: IncidentId(worker.event_id().0),
        class: error.class.clone(),
        reason: format!("action {} failed: {error}", key.action),
    }
}

/// Everything is undone: the failure is told.
pub(crate) fn compensated(
    worker: &Worker,
    spec: &ActionSpec,
    action: &LeasedAction,
    error: &RawJson,
) -> Settling {
    let key = &action.lease.key;
    let attempts = u32::try_from(action.attempt - 1).unwrap_or(1);
    let told: ActionError =
        error.decode().unwrap_or_else(|_| internal("the recorded error cannot be read".to_owned()));
    let then = match action::compensated(spec, &key.with_revision(action.revision), attempts, &told) {
        Some((name, payload)) => {
            let event = outcome_event(worker.event_id(), key, name, payload, action.traceparent.clone());
            AfterFailure::Emit(Box::new(event))
        }
        None => AfterFailure::Incident(incident(worker, key, &told)),
    };
    Settling::Failed { error: error.clone(), then }
}

/// What an attempt means for an action that somebody else is settling: `None` when its definition does
/// not know it.
pub(crate) async fn of_other(
    worker: &Worker,
    action: &LeasedAction,
    attempt: Attempt,
) -> Result<Option<Settling>, StoreError> {
    let tenant = &action.lease.key.execution.tenant;
    let machine = worker.machines.get(&*worker.deps.stores.definitions, tenant, &action.definition).await?;
    let Ok(machine) = machine else { return Ok(None) };
    Ok(machine.action(&action.lease.key.action).map(|spec| conclude(worker, spec, action, attempt)))
}

/// Nothing can be concluded without the definition: the event fails and a person decides.
pub(crate) fn unusable(worker: &Worker, action: &LeasedAction, reason: &str) -> Settling {
    let error = internal(reason.to_owned());
    let then = AfterFailure::Incident(incident(worker, &action.lease.key, &error));
    Settling::Failed { error: RawJson::of(&error), then }
}

/// The spec of an action: the definition's, or the engine's own.
pub(crate) fn spec_of(machine: &machine::Machine, action: &LeasedAction) -> Option<ActionSpec> {
    let name = &action.lease.key.action;
    machine::internal(name).or_else(|| machine.action(name).cloned())
}

pub(crate) fn internal(message: String) -> ActionError {
    ActionError { class: ErrorClass::Internal, message, status: None }
}
