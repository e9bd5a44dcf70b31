//! One attempt at an action, from the lease to the report.
//!
//! deadline still good → definition → schedule not missed → input (rendered once and recorded under the
//! lease) → secrets → perform, within the action's timeout, only while the lease is held and heartbeats
//! arrive → conclude (pure) → report.
//!
//! An attempt that loses its lease stops without a report: another worker has the action. A panic on the way
//! is a transient failure of that attempt only. An action whose definition is not for this build is released
//! uncounted, after a while, for another worker.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use millstream_model::attempt::{ActionFailure, AttemptOutcome};
use millstream_model::crash::CrashPoint;
use millstream_model::error_class::ErrorClass;
use millstream_model::id::{ActionKey, DefinitionRef, TenantId};
use millstream_model::raw::RawJson;
use millstream_model::secrets::SecretValues;
use millstream_rpc::evaluation_pool::EvaluationPool;
use millstream_store::StoreResult;
use millstream_store::action_store::{ActionAttempt, LeasedAction, SettleOutcome, Settlement};
use millstream_workflow::action;
use millstream_workflow::definition::ActionPolicy;
use millstream_workflow::machine::{self, ActionInput, Machine, RenderError};
use millstream_workflow::program::ExecutionProgram;
use millstream_workflow::{item_conclusion, quota_caps, schedule};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::attempt_contract::{AttemptCredentials, PerformOutcome, internal_error};
use super::deferred_input::render_input;
use super::performer::ActionPerformer;
use super::run_action::{run_action, withdraw_begun};
use super::{fair_start, http_answer, secrets, trace_context};
use crate::leasing::LeasedWork;
use crate::leasing::action_slots::WorkSlot;
use crate::leasing::leases::HeldLease;
use crate::panic_text::panic_text;
use crate::program_cache::{UnusableProgram, UsableProgram};
use crate::{crash_point, metrics};

/// Delay before an action that this build cannot perform is released.
const FOREIGN_PATIENCE: Duration = Duration::from_secs(2);

/// An attempt that has ended, with its lease and slot.
#[derive(Debug)]
pub(crate) struct AttemptReport {
    pub(crate) settlement: Settlement,
    pub(crate) held: HeldLease,
    pub(crate) slot: WorkSlot,
}

/// Performs the actions handed over, until the drain deadline.
pub(crate) async fn run_attempts(
    performer: Arc<ActionPerformer>,
    leased: mpsc::Receiver<(TenantId, LeasedWork)>,
    reports: mpsc::Sender<AttemptReport>,
) {
    let (halt, weights) = (performer.env.halt.clone(), performer.env.options.weights.clone());
    fair_start::run_fair_start(leased, weights, &halt, |work| {
        perform_and_report(Arc::clone(&performer), work, reports.clone())
    })
    .await;
}

async fn perform_and_report(
    performer: Arc<ActionPerformer>,
    work: LeasedWork,
    reports: mpsc::Sender<AttemptReport>,
) {
    let LeasedWork { action, held, slot } = work;
    let turn = tokio::select! {
        biased;
        () = performer.env.stop.cancelled() => None,
        () = held.until_lost() => None,
        turn = slot.acquire_permit(&performer.performing) => turn,
    };
    let Some(turn) = turn else {
        // Released; the store skips a lost lease.
        let _ = performer
            .env
            .stores
            .actions
            .release_leases(std::slice::from_ref(&held.lease), performer.env.now())
            .await;
        return;
    };
    crash_point::crash_at(performer.env.options.crash, CrashPoint::WorkerBeforeAction);
    let performed = tokio::select! {
        biased;
        performed = attempt_catching_panics(&performer, &action, &held) => performed,
        () = held.until_lost() => Err(DroppedAttempt::LeaseLost),
    };
    drop(turn);
    let outcome = match performed {
        Ok(outcome) => outcome,
        Err(DroppedAttempt::LeaseLost) => {
            ::metrics::counter!(metrics::LEASES_LOST).increment(1);
            tracing::warn!(action.key = %held.lease.key, "lease lost, attempt dropped");
            return;
        }
        Err(DroppedAttempt::Foreign) => return release_after_delay(&performer, &held).await,
    };
    crash_point::crash_at(performer.env.options.crash, CrashPoint::WorkerBeforeSettle);
    let settlement = Settlement { lease: held.lease.clone(), event_id: action.event_id, outcome };
    performer.leasing.unsettled.add_report();
    // The channel has capacity for as many reports as there are slots.
    let _ = reports.send(AttemptReport { settlement, held, slot }).await;
}

/// Why an attempt leaves no outcome.
enum DroppedAttempt {
    LeaseLost,
    /// This build cannot read the definition.
    Foreign,
}

/// Releases after a delay: otherwise it would be leased again at once.
async fn release_after_delay(performer: &ActionPerformer, held: &HeldLease) {
    tokio::select! {
        biased;
        () = tokio::time::sleep(performer.env.jittered(FOREIGN_PATIENCE)) => {}
        () = performer.env.stop.cancelled() => {}
        () = held.until_lost() => return,
    }
    // If it fails the lease runs out.
    let _ = performer
        .env
        .stores
        .actions
        .release_leases(std::slice::from_ref(&held.lease), performer.env.now())
        .await;
}

/// Runs an attempt; a panic becomes a failure of the attempt.
async fn attempt_catching_panics(
    performer: &ActionPerformer,
    action: &LeasedAction,
    held: &HeldLease,
) -> Result<SettleOutcome, DroppedAttempt> {
    let panic = match AssertUnwindSafe(make_attempt(performer, action, held)).catch_unwind().await {
        Ok(performed) => return performed,
        Err(panic) => panic_text(&*panic),
    };
    tracing::error!(action.key = %action.lease.key, error = %panic, "panic while performing an action");
    let conclusion = async {
        let program = load_program(performer, action).await.ok()?;
        let policy = program.action_policy(&action.lease.key.action)?;
        let attempt = AttemptOutcome::Transient { error: internal_error(panic.clone()), retry_after: None };
        Some(conclude_attempt(performer, &policy, action.as_attempt(), attempt))
    };
    let concluded = AssertUnwindSafe(conclusion).catch_unwind().await;
    Ok(concluded.ok().flatten().unwrap_or_else(|| conclude_unusable(performer, &action.lease.key, &panic)))
}

async fn make_attempt(
    performer: &ActionPerformer,
    action: &LeasedAction,
    held: &HeldLease,
) -> Result<SettleOutcome, DroppedAttempt> {
    let program = match load_program(performer, action).await {
        Ok(program) => program,
        Err(UnusableProgram::Gone(reason)) => {
            return Ok(conclude_unusable(performer, &action.lease.key, &reason));
        }
        Err(UnusableProgram::Foreign(_)) => return Err(DroppedAttempt::Foreign),
    };
    let Some(policy) = program.action_policy(&action.lease.key.action) else {
        return Ok(conclude_unusable(performer, &action.lease.key, "the definition has no such action"));
    };
    let whose = action.as_attempt();
    if let Some(error) = &action.closing {
        return Ok(conclude_compensation(performer, &policy, whose, error));
    }
    let done = if let Some(error) =
        schedule::missed_timeout(&policy.timeouts, action.attempt, action.ready_at, performer.env.now())
    {
        withdraw_begun(performer, action).await;
        PerformOutcome::Attempt(AttemptOutcome::Permanent { error })
    } else {
        match render_input(performer, &program, action).await {
            None => return Err(DroppedAttempt::LeaseLost),
            Some(Err(error)) => PerformOutcome::Attempt(AttemptOutcome::Permanent { error }),
            Some(Ok(ActionInput::Task(_))) => PerformOutcome::Lost,
            Some(Ok(_)) if is_given_up(performer, &policy, action) => {
                PerformOutcome::Attempt(AttemptOutcome::Permanent {
                    error: internal_error(format!(
                        "given up: {} attempts left no outcome",
                        action.attempt - 1
                    )),
                })
            }
            Some(Ok(_)) if !held.is_good() => return Err(DroppedAttempt::LeaseLost),
            Some(Ok(input)) => perform_within(performer, &program, &policy, action, held, input).await,
        }
    };
    Ok(match done {
        PerformOutcome::Attempt(attempt) => conclude_attempt(performer, &policy, whose, attempt),
        PerformOutcome::ItemEnded(item) => {
            let instead =
                program.machine().map(|machine| item_conclusion::effective_policy(&item, machine, &policy));
            conclude_attempt(performer, instead.as_deref().unwrap_or(&policy), whose, item.to_attempt())
        }
        PerformOutcome::Postponed { at, error } => {
            SettleOutcome::Postponed { at, error: error.as_ref().map(RawJson::from_value) }
        }
        PerformOutcome::Awaiting { until } => SettleOutcome::Awaiting { until },
        PerformOutcome::Lost => conclude_lost(performer, &policy, action),
    })
}

/// The program of the action's definition; retries for as long as the lease lasts.
async fn load_program(performer: &ActionPerformer, action: &LeasedAction) -> UsableProgram {
    let tenant = &action.lease.key.execution.tenant;
    loop {
        match performer.programs.get(&*performer.env.stores.definitions, tenant, &action.definition).await {
            Ok(usable) => return usable,
            Err(error) => {
                performer.env.store_outage.record_failure(&error);
                tokio::time::sleep(performer.env.jittered(Duration::from_millis(250))).await;
            }
        }
    }
}

/// Attempts that ended with the death of their worker are counted by their leases. They are not failures of
/// the action, but an action that kills every worker must end as well.
fn is_given_up(performer: &ActionPerformer, policy: &ActionPolicy, action: &LeasedAction) -> bool {
    let most = i64::from(policy.retry.attempts) + i64::from(performer.env.options.poison_cap);
    i64::from(action.attempt) > most
}

async fn perform_within(
    performer: &ActionPerformer,
    program: &ExecutionProgram,
    policy: &ActionPolicy,
    action: &LeasedAction,
    held: &HeldLease,
    input: ActionInput,
) -> PerformOutcome {
    let tenant = &action.lease.key.execution.tenant;
    let filled = match secrets::fill_secrets(performer.secrets.as_deref(), tenant, &input).await {
        Ok(filled) => Arc::new(filled),
        // The secret may be added before the attempts are used up.
        Err(error) => return PerformOutcome::Attempt(AttemptOutcome::Transient { error, retry_after: None }),
    };
    let credentials = AttemptCredentials {
        idempotency_key: action.lease.key.with_revision(action.revision),
        fencing_token: action.lease.epoch.0,
        traceparent: trace_context::child_traceparent(action.traceparent.as_deref(), &*performer.env.entropy),
    };
    let kind = input.kind();
    let limit = schedule::attempt_timeout(&policy.timeouts, action.ready_at, performer.env.now());
    let limit = quota_caps::attempt_within(limit, &input, &performer.leasing.quotas.quota_of(tenant));
    let started = Instant::now();
    let work = run_action(performer, policy, action, held, input, &credentials, &filled, started + limit);
    let performed = AssertUnwindSafe(secrets::run_guarding_secrets(Arc::clone(&filled), work)).catch_unwind();
    let done = tokio::select! {
        biased;
        performed = performed => match performed {
            Ok(done) => done,
            Err(panic) => transient_failure(internal_error(panic_text(&*panic))),
        },
        () = tokio::time::sleep_until(started + limit) => {
            let message = format!("no outcome within {limit:?}");
            transient_failure(ActionFailure { class: ErrorClass::Timeout, message, status: None })
        }
        silence = held.until_silent() => {
            let message = format!("no heartbeat within {silence:?}");
            transient_failure(ActionFailure { class: ErrorClass::Heartbeat, message, status: None })
        }
    };
    ::metrics::histogram!(metrics::ATTEMPT_SECONDS, "kind" => kind).record(started.elapsed().as_secs_f64());
    match done {
        PerformOutcome::Attempt(attempt) => {
            PerformOutcome::Attempt(finish_attempt(performer, program, action, &filled, attempt).await)
        }
        PerformOutcome::ItemEnded(_)
        | PerformOutcome::Postponed { .. }
        | PerformOutcome::Awaiting { .. }
        | PerformOutcome::Lost => done,
    }
}

/// The worker that leased it reported nothing in time. No back-off: nothing is overloaded.
fn conclude_lost(performer: &ActionPerformer, policy: &ActionPolicy, action: &LeasedAction) -> SettleOutcome {
    let (class, what) = match policy.timeouts.heartbeat {
        Some(length) => (ErrorClass::Heartbeat, format!("no heartbeat within {length:?}")),
        None => (ErrorClass::Timeout, format!("no outcome within {:?}", policy.timeouts.start_to_close)),
    };
    let error = ActionFailure { class, message: format!("{what} from its worker"), status: None };
    if i64::from(action.attempt) < i64::from(policy.retry.attempts)
        && !policy.retry.except.contains(&error.class)
    {
        return SettleOutcome::Retry { error: RawJson::from_value(&error), at: performer.env.now() };
    }
    conclude_attempt(performer, policy, action.as_attempt(), AttemptOutcome::Permanent { error })
}

fn transient_failure(error: ActionFailure) -> PerformOutcome {
    PerformOutcome::Attempt(AttemptOutcome::Transient { error, retry_after: None })
}

/// The attempt as published: without secrets, mapped by the definition, within limits.
async fn finish_attempt(
    performer: &ActionPerformer,
    program: &ExecutionProgram,
    action: &LeasedAction,
    filled: &SecretValues,
    attempt: AttemptOutcome,
) -> AttemptOutcome {
    // An executor's answer is kept unchanged; its size was checked on arrival.
    let Some(machine) = program.machine() else { return attempt };
    let attempt = secrets::redact_attempt(filled, attempt);
    let attempt = match attempt {
        AttemptOutcome::Success { result } => {
            match map_response(performer, program, machine, action, result).await {
                Ok(result) => AttemptOutcome::Success { result },
                Err(RenderError::Failed(message)) => AttemptOutcome::Permanent {
                    error: ActionFailure { class: ErrorClass::Response, message, status: None },
                },
                Err(error @ RenderError::Stopped) => AttemptOutcome::Transient {
                    error: internal_error(format!("result: {error}")),
                    retry_after: None,
                },
            }
        }
        AttemptOutcome::Transient { error, retry_after } => {
            AttemptOutcome::Transient { error: http_answer::shorten_error(error), retry_after }
        }
        AttemptOutcome::Permanent { error } => {
            AttemptOutcome::Permanent { error: http_answer::shorten_error(error) }
        }
        AttemptOutcome::Pause { error } => AttemptOutcome::Pause { error: http_answer::shorten_error(error) },
    };
    limit_result(attempt, performer.env.options.http.max_response)
}

/// Maps a response: in place if it is cheap, else on the pool.
async fn map_response(
    performer: &ActionPerformer,
    program: &ExecutionProgram,
    machine: &Machine,
    action: &LeasedAction,
    response: RawJson,
) -> Result<RawJson, RenderError> {
    let name = &action.lease.key.action;
    match machine::map_http_response(machine, name, response.clone(), EvaluationPool::inline()) {
        Err(RenderError::Stopped) => {
            let (program, name) = (program.clone(), name.clone());
            let mapped = performer.evaluations.run(move |stop| match program.machine() {
                Some(machine) => machine::map_http_response(machine, &name, response, stop),
                None => Ok(response),
            });
            mapped.await.unwrap_or(Err(RenderError::Stopped))
        }
        mapped @ (Ok(_) | Err(RenderError::Failed(_))) => mapped,
    }
}

/// A result becomes part of an event, which has a size limit.
fn limit_result(attempt: AttemptOutcome, longest: usize) -> AttemptOutcome {
    match attempt {
        AttemptOutcome::Success { result } if result.len() > longest => AttemptOutcome::Permanent {
            error: ActionFailure {
                class: ErrorClass::Response,
                message: format!(
                    "the result is {} bytes of JSON, longer than {longest} bytes (worker.http_max_response)",
                    result.len()
                ),
                status: None,
            },
        },
        AttemptOutcome::Success { .. }
        | AttemptOutcome::Transient { .. }
        | AttemptOutcome::Permanent { .. }
        | AttemptOutcome::Pause { .. } => attempt,
    }
}

/// Concludes an attempt with the worker's clock and randomness; counts and logs the outcome.
fn conclude_attempt(
    performer: &ActionPerformer,
    policy: &ActionPolicy,
    whose: ActionAttempt<'_>,
    attempt: AttemptOutcome,
) -> SettleOutcome {
    let env = &performer.env;
    let outcome = match &attempt {
        AttemptOutcome::Success { .. } => "success",
        AttemptOutcome::Transient { .. } => "transient",
        AttemptOutcome::Permanent { .. } => "permanent",
        AttemptOutcome::Pause { .. } => "pause",
    };
    ::metrics::counter!(metrics::ATTEMPTS, "outcome" => outcome).increment(1);
    let unit_random = env.random_unit();
    let concluded =
        action::conclude_attempt(policy, whose, attempt, unit_random, env.now(), &mut || env.new_event_id());
    let (shown, attempts) = (whose.attempt_id(), whose.attempt_number());
    match &concluded {
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
    concluded
}

/// Compensation is complete: reports the recorded failure.
fn conclude_compensation(
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
fn conclude_unusable(performer: &ActionPerformer, key: &ActionKey, reason: &str) -> SettleOutcome {
    action::conclude_unhandled(key, &internal_error(reason.to_owned()), performer.env.new_event_id())
}
