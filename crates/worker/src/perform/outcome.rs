//! Concludes attempts: the worker's clock, randomness, metrics and log around [`millstream_workflow::action`].

use millstream_model::attempt::{ActionFailure, AttemptOutcome};
use millstream_model::error_class::ErrorClass;
use millstream_model::id::{ActionKey, DefinitionRef};
use millstream_model::raw::RawJson;
use millstream_store::StoreResult;
use millstream_workflow::action;
use millstream_workflow::definition::ActionPolicy;
use millstream_workflow::settle_outcome::{ActionAttempt, SettleOutcome};

use super::performer::ActionPerformer;
use crate::metrics;

pub(crate) fn conclude_attempt(
    performer: &ActionPerformer,
    policy: &ActionPolicy,
    whose: ActionAttempt<'_>,
    attempt: AttemptOutcome,
) -> SettleOutcome {
    let env = &performer.env;
    let performed = match &attempt {
        AttemptOutcome::Success { .. } => "success",
        AttemptOutcome::Transient { .. } => "transient",
        AttemptOutcome::Permanent { .. } => "permanent",
        AttemptOutcome::Pause { .. } => "pause",
    };
    ::metrics::counter!(metrics::ATTEMPTS, "outcome" => performed).increment(1);
    let unit_random = env.random_unit();
    let outcome =
        action::conclude_attempt(policy, whose, attempt, unit_random, env.now(), &mut || env.new_event_id());
    let (shown, attempts) = (whose.attempt_id(), whose.attempt_number());
    match &outcome {
        SettleOutcome::Succeeded { .. }
        | SettleOutcome::Postponed { .. }
        | SettleOutcome::Awaiting { .. } => {}
        SettleOutcome::Retry { error, at: _ } => {
            ::metrics::counter!(metrics::RETRIES).increment(1);
            tracing::debug!(action.key = %shown, action.attempt = attempts, error = %ActionFailure::of_recorded(error), "attempt failed, retrying");
        }
        SettleOutcome::Failed { error, then: _ } => {
            tracing::warn!(action.key = %shown, action.attempt = attempts, error = %ActionFailure::of_recorded(error), "action failed permanently");
        }
    }
    outcome
}

/// Compensation is complete: reports the recorded failure.
pub(crate) fn conclude_compensation(
    performer: &ActionPerformer,
    policy: &ActionPolicy,
    whose: ActionAttempt<'_>,
    error: &RawJson,
) -> SettleOutcome {
    action::conclude_compensation(policy, whose, error, &mut || performer.env.new_event_id())
}

/// The conclusion for an action of another execution or holder: `None` when its definition does not contain
/// it.
pub(crate) async fn conclude_for_other(
    performer: &ActionPerformer,
    definition: &DefinitionRef,
    whose: ActionAttempt<'_>,
    attempt: AttemptOutcome,
) -> StoreResult<Option<SettleOutcome>> {
    let tenant = &whose.key.execution.tenant;
    let program = performer.programs.get(&*performer.env.stores.definitions, tenant, definition).await?;
    let Ok(program) = program else { return Ok(None) };
    Ok(program
        .action_policy(&whose.key.action)
        .map(|policy| conclude_attempt(performer, &policy, whose, attempt)))
}

/// Without the definition nothing can be concluded: the event fails, and an operator decides.
pub(crate) fn conclude_unusable(performer: &ActionPerformer, key: &ActionKey, reason: &str) -> SettleOutcome {
    action::conclude_unhandled(key, &internal_error(reason.to_owned()), performer.env.new_event_id())
}

pub(crate) fn internal_error(message: String) -> ActionFailure {
    ActionFailure { class: ErrorClass::Internal, message, status: None }
}
