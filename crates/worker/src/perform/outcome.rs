//! Turns the outcome of an attempt into a settlement: the worker's side of [`millstream_store::outcome`].

use millstream_core::action::{self, ActionError, Attempt, Conclusion, ErrorClass};
use millstream_core::definition::ActionSpec;
use millstream_core::raw::RawJson;
use millstream_core::schedule;
use millstream_store::StoreError;
use millstream_store::action_store::{AfterFailure, LeasedAction, Settling};
use millstream_store::outcome::{self, Whose};

use crate::metrics;
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
    let attempts = u32::try_from(action.attempt).unwrap_or(1);
    let shown = whose(action).shown();
    let left = schedule::left(&spec.timeouts, action.ready_at, worker.now());
    let conclusion = action::conclude_within(spec, &shown, attempts, attempt, worker.unit(), left);
    match &conclusion {
        Conclusion::Succeeded { .. } => {}
        Conclusion::Retry { wait: _, error } => {
            ::metrics::counter!(metrics::RETRIES).increment(1);
            tracing::debug!(action.key = %shown, action.attempt = attempts, error = %error, "attempt failed, retrying");
        }
        Conclusion::Failed { error, then: _ } => {
            tracing::warn!(action.key = %shown, action.attempt = attempts, error = %error, "action failed permanently");
        }
    }
    outcome::settling(whose(action), conclusion, worker.now(), &mut || worker.event_id())
}

fn whose(action: &LeasedAction) -> Whose<'_> {
    let traceparent = action.traceparent.as_deref();
    Whose { key: &action.lease.key, revision: action.revision, traceparent }
}

/// Compensation is complete: reports the failure.
pub(crate) fn compensated(
    worker: &Worker,
    spec: &ActionSpec,
    action: &LeasedAction,
    error: &RawJson,
) -> Settling {
    let attempts = u32::try_from(action.attempt).unwrap_or(1);
    outcome::compensated(whose(action), spec, attempts, error, &mut || worker.event_id())
}

/// The settlement by an attempt of an action held elsewhere: `None` when its definition does not contain it.
pub(crate) async fn of_other(
    worker: &Worker,
    action: &LeasedAction,
    attempt: Attempt,
) -> Result<Option<Settling>, StoreError> {
    let tenant = &action.lease.key.execution.tenant;
    let program = worker.programs.get(&*worker.deps.stores.definitions, tenant, &action.definition).await?;
    let Ok(program) = program else { return Ok(None) };
    Ok(program.action(&action.lease.key.action).map(|spec| conclude(worker, &spec, action, attempt)))
}

/// Without the definition nothing can be concluded: the event fails, and an operator decides.
pub(crate) fn unusable(worker: &Worker, action: &LeasedAction, reason: &str) -> Settling {
    let error = internal(reason.to_owned());
    let incident = outcome::incident(&action.lease.key, &error, worker.event_id());
    let then = AfterFailure::Incident(incident);
    Settling::Failed { error: RawJson::of(&error), then }
}

pub(crate) fn internal(message: String) -> ActionError {
    ActionError { class: ErrorClass::Internal, message, status: None }
}
