//! Turns the outcome of an attempt into a settlement: the worker's side of [`millstream_store::outcome`].

use millstream_model::attempt::{ActionFailure, AttemptOutcome};
use millstream_model::error_class::ErrorClass;
use millstream_model::raw::RawJson;
use millstream_store::StoreError;
use millstream_store::action_store::{AfterFailure, LeasedAction, SettleOutcome};
use millstream_store::outcome::{self, ActionAttempt};
use millstream_workflow::action::{self, ActionConclusion};
use millstream_workflow::definition::ActionSpec;
use millstream_workflow::schedule;

use super::performer::ActionPerformer;
use crate::metrics;

pub(crate) fn conclude_attempt(
    performer: &ActionPerformer,
    spec: &ActionSpec,
    action: &LeasedAction,
    attempt: AttemptOutcome,
) -> SettleOutcome {
    let outcome = match &attempt {
        AttemptOutcome::Success { .. } => "success",
        AttemptOutcome::Transient { .. } => "transient",
        AttemptOutcome::Permanent { .. } => "permanent",
        AttemptOutcome::Pause { .. } => "pause",
    };
    ::metrics::counter!(metrics::ATTEMPTS, "outcome" => outcome).increment(1);
    let attempts = u32::try_from(action.attempt).unwrap_or(1);
    let shown = action_owner(action).attempt_id();
    let left = schedule::remaining_time(&spec.timeouts, action.ready_at, performer.env.now());
    let conclusion =
        action::conclude_attempt_within(spec, &shown, attempts, attempt, performer.env.random_unit(), left);
    match &conclusion {
        ActionConclusion::Succeeded { .. } => {}
        ActionConclusion::Retry { wait: _, error } => {
            ::metrics::counter!(metrics::RETRIES).increment(1);
            tracing::debug!(action.key = %shown, action.attempt = attempts, error = %error, "attempt failed, retrying");
        }
        ActionConclusion::Failed { error, then: _ } => {
            tracing::warn!(action.key = %shown, action.attempt = attempts, error = %error, "action failed permanently");
        }
    }
    outcome::settle_conclusion(action_owner(action), conclusion, performer.env.now(), &mut || {
        performer.env.new_event_id()
    })
}

fn action_owner(action: &LeasedAction) -> ActionAttempt<'_> {
    let traceparent = action.traceparent.as_deref();
    ActionAttempt { key: &action.lease.key, revision: action.revision, traceparent }
}

/// Compensation is complete: reports the failure.
pub(crate) fn settle_compensated(
    performer: &ActionPerformer,
    spec: &ActionSpec,
    action: &LeasedAction,
    error: &RawJson,
) -> SettleOutcome {
    let attempts = u32::try_from(action.attempt).unwrap_or(1);
    outcome::settle_compensated(action_owner(action), spec, attempts, error, &mut || {
        performer.env.new_event_id()
    })
}

/// The settlement by an attempt of an action held elsewhere: `None` when its definition does not contain it.
pub(crate) async fn conclude_for_other(
    performer: &ActionPerformer,
    action: &LeasedAction,
    attempt: AttemptOutcome,
) -> Result<Option<SettleOutcome>, StoreError> {
    let tenant = &action.lease.key.execution.tenant;
    let program =
        performer.programs.get(&*performer.env.stores.definitions, tenant, &action.definition).await?;
    let Ok(program) = program else { return Ok(None) };
    Ok(program
        .action_spec(&action.lease.key.action)
        .map(|spec| conclude_attempt(performer, &spec, action, attempt)))
}

/// Without the definition nothing can be concluded: the event fails, and an operator decides.
pub(crate) fn settle_unusable(
    performer: &ActionPerformer,
    action: &LeasedAction,
    reason: &str,
) -> SettleOutcome {
    let error = internal_error(reason.to_owned());
    let incident = outcome::failure_incident(&action.lease.key, &error, performer.env.new_event_id());
    let then = AfterFailure::Incident(incident);
    SettleOutcome::Failed { error: RawJson::from_value(&error), then }
}

pub(crate) fn internal_error(message: String) -> ActionFailure {
    ActionFailure { class: ErrorClass::Internal, message, status: None }
}
