//! One attempt at an action, from the lease to the report.
//!
//! deadline still good → definition → input (rendered once and recorded under the lease) → perform,
//! within the action's timeout and only while the lease is held → conclude (pure) → report.
//!
//! An attempt that loses its lease stops without a report: somebody else has the action. A panic
//! anywhere on the way is a transient failure of that attempt and of nothing else. An action whose
//! definition is not for this build goes back uncounted, after a while, for another worker to take.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use millstream_core::action::{self, ActionError, Attempt, Conclusion, ErrorClass, OnFailure};
use millstream_core::crash::CrashPoint;
use millstream_core::definition::ActionSpec;
use millstream_core::machine::{self, ActionInput, Machine};
use millstream_core::raw::RawJson;
use millstream_store::action_store::{AfterFailure, LeasedAction, Settlement, Settling};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::errand::{Credentials, Errand};
use super::leases::Held;
use super::trace;
use crate::machines::{Unusable, Usable};
use crate::process::panic_text;
use crate::settle::Report;
use crate::turn::outcome_event;
use crate::worker::Worker;
use crate::{crash, metrics};

/// How long an action that this build cannot perform is kept from being leased again.
const FOREIGN_PATIENCE: Duration = Duration::from_secs(2);

/// Performs what is handed over until the drain's time is up.
pub(crate) async fn run(
    worker: Arc<Worker>,
    mut errands: mpsc::Receiver<Errand>,
    reports: mpsc::Sender<Report>,
) {
    let mut running = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = worker.halt.cancelled() => return,
            Some(_) = running.join_next(), if !running.is_empty() => {}
            errand = errands.recv() => match errand {
                Some(errand) => {
                    running.spawn(perform(Arc::clone(&worker), errand, reports.clone()));
                }
                None => return,
            },
        }
    }
}

async fn perform(worker: Arc<Worker>, errand: Errand, reports: mpsc::Sender<Report>) {
    let Errand { action, held, slot } = errand;
    let turn = tokio::select! {
        biased;
        () = worker.stop.cancelled() => None,
        () = held.lost() => None,
        turn = worker.performing.acquire() => turn.ok(),
    };
    let Some(turn) = turn else {
        // Handed back; a lease that is lost is passed over.
        let _ = worker.deps.stores.actions.release(std::slice::from_ref(&held.lease), worker.now()).await;
        return;
    };
    crash::here(worker.options.crash, CrashPoint::WorkerBeforeAction);
    let performed = tokio::select! {
        biased;
        performed = guarded(&worker, &action, || held.is_good()) => performed,
        () = held.lost() => Performed::LeaseLost,
    };
    drop(turn);
    let settling = match performed {
        Performed::Settle(settling) => settling,
        Performed::LeaseLost => {
            ::metrics::counter!(metrics::LEASES_LOST).increment(1);
            tracing::warn!(action.key = %held.lease.key, "the lease on an action was lost, the attempt is dropped");
            return;
        }
        Performed::Foreign => return give_back(&worker, &held).await,
    };
    crash::here(worker.options.crash, CrashPoint::WorkerBeforeSettle);
    let settlement = Settlement { lease: held.lease.clone(), event_id: action.event_id, outcome: settling };
    worker.unsettled.reported();
    // There is room for as many reports as there are slots.
    let _ = reports.send(Report { settlement, held, slot }).await;
}

/// How an attempt ended.
enum Performed {
    Settle(Settling),
    LeaseLost,
    /// This build cannot read the definition.
    Foreign,
}

/// Not at once: it would be leased again in the same moment.
async fn give_back(worker: &Worker, held: &Held) {
    tokio::select! {
        biased;
        () = tokio::time::sleep(worker.around(FOREIGN_PATIENCE)) => {}
        () = worker.stop.cancelled() => {}
        () = held.lost() => return,
    }
    // If it fails the lease runs out.
    let _ = worker.deps.stores.actions.release(std::slice::from_ref(&held.lease), worker.now()).await;
}

/// An attempt in which any panic is a failure of the attempt.
async fn guarded(worker: &Worker, action: &LeasedAction, is_good: impl Fn() -> bool) -> Performed {
    let panic = match AssertUnwindSafe(attempt(worker, action, is_good)).catch_unwind().await {
        Ok(performed) => return performed,
        Err(panic) => panic_text(&*panic),
    };
    tracing::error!(action.key = %action.lease.key, error = %panic, "a panic while performing an action");
    let conclusion = async {
        let machine = machine(worker, action).await.ok()?;
        let spec = machine.action(&action.lease.key.action)?;
        let attempt = Attempt::Transient { error: internal(panic.clone()), retry_after: None };
        Some(conclude(worker, spec, action, attempt))
    };
    let concluded = AssertUnwindSafe(conclusion).catch_unwind().await;
    Performed::Settle(concluded.ok().flatten().unwrap_or_else(|| unusable(&panic)))
}

async fn attempt(worker: &Worker, action: &LeasedAction, is_good: impl Fn() -> bool) -> Performed {
    let machine = match machine(worker, action).await {
        Ok(machine) => machine,
        Err(Unusable::Gone(reason)) => return Performed::Settle(unusable(&reason)),
        Err(Unusable::Foreign(_)) => return Performed::Foreign,
    };
    let Some(spec) = machine.action(&action.lease.key.action) else {
        return Performed::Settle(unusable("the definition has no such action"));
    };
    let attempt = match input(worker, &machine, action).await {
        None => return Performed::LeaseLost,
        Some(Err(error)) => Attempt::Permanent { error },
        Some(Ok(_)) if given_up(worker, spec, action) => Attempt::Permanent {
            error: internal(format!("given up: {} attempts left no outcome", action.attempt - 1)),
        },
        Some(Ok(_)) if !is_good() => return Performed::LeaseLost,
        Some(Ok(input)) => perform_within(worker, spec, action, input).await,
    };
    Performed::Settle(conclude(worker, spec, action, attempt))
}

/// The compiled definition; asks again for as long as the lease lasts.
async fn machine(worker: &Worker, action: &LeasedAction) -> Usable {
    let tenant = &action.lease.key.execution.tenant;
    loop {
        match worker.machines.get(&*worker.deps.stores.definitions, tenant, &action.definition).await {
            Ok(usable) => return usable,
            Err(error) => {
                worker.store_outage.met(&error);
                tokio::time::sleep(worker.around(Duration::from_millis(250))).await;
            }
        }
    }
}

/// The input, rendered now if it had to wait for results. `None` when the lease is gone.
async fn input(
    worker: &Worker,
    machine: &Machine,
    action: &LeasedAction,
) -> Option<Result<ActionInput, ActionError>> {
    let raw = match (&action.input, &action.scope) {
        (Some(input), _) => input.clone(),
        (None, Some(scope)) => {
            match machine::render(machine, &action.lease.key.action, scope, &action.results) {
                Ok(input) => {
                    record(worker, action, &input).await?;
                    input
                }
                Err(message) => {
                    return Some(Err(ActionError { class: ErrorClass::Input, message, status: None }));
                }
            }
        }
        (None, None) => return Some(Err(internal("the action has neither input nor scope".to_owned()))),
    };
    Some(raw.decode().map_err(|error| internal(format!("the recorded input cannot be read: {error}"))))
}

/// Records a rendered input; asks again for as long as the lease lasts.
async fn record(worker: &Worker, action: &LeasedAction, input: &RawJson) -> Option<()> {
    loop {
        let inputs = [(action.lease.clone(), input.clone())];
        match worker.deps.stores.actions.record_inputs(&inputs).await {
            Ok(held) => return held.first().copied().unwrap_or(false).then_some(()),
            Err(error) => {
                worker.store_outage.met(&error);
                tokio::time::sleep(worker.around(Duration::from_millis(250))).await;
            }
        }
    }
}

/// Attempts that ended with the death of their worker are counted by their leases. They are no
/// failure of the action, but an action that kills every worker must end as well.
fn given_up(worker: &Worker, spec: &ActionSpec, action: &LeasedAction) -> bool {
    let most = i64::from(spec.retry.attempts) + i64::from(worker.options.poison_cap);
    i64::from(action.attempt) > most
}

async fn perform_within(
    worker: &Worker,
    spec: &ActionSpec,
    action: &LeasedAction,
    input: ActionInput,
) -> Attempt {
    let credentials = Credentials {
        idempotency_key: action.lease.key.to_string(),
        fencing_token: action.lease.epoch.0,
        traceparent: trace::child_of(action.traceparent.as_deref(), &*worker.deps.entropy),
    };
    let kind = match &input {
        ActionInput::Http(_) => "http",
        ActionInput::Log(_) => "log",
        ActionInput::Noop(_) => "noop",
    };
    let started = Instant::now();
    let performed = AssertUnwindSafe(worker.performers.perform(action, input, &credentials)).catch_unwind();
    let attempt = match tokio::time::timeout(spec.timeout, performed).await {
        Ok(Ok(attempt)) => attempt,
        Ok(Err(panic)) => Attempt::Transient { error: internal(panic_text(&*panic)), retry_after: None },
        Err(_) => {
            let message = format!("no outcome within {:?}", spec.timeout);
            let error = ActionError { class: ErrorClass::Timeout, message, status: None };
            Attempt::Transient { error, retry_after: None }
        }
    };
    ::metrics::histogram!(metrics::ATTEMPT_SECONDS, "kind" => kind).record(started.elapsed().as_secs_f64());
    bounded(attempt, worker.options.http.max_response)
}

/// A result becomes part of an event, and an event has a limit.
fn bounded(attempt: Attempt, longest: usize) -> Attempt {
    match attempt {
        Attempt::Success { result } if result.len() > longest => Attempt::Permanent {
            error: ActionError {
                class: ErrorClass::Response,
                message: format!(
                    "the result is {} bytes of JSON, longer than {longest} bytes (worker.http_max_response)",
                    result.len()
                ),
                status: None,
            },
        },
        Attempt::Success { .. } | Attempt::Transient { .. } | Attempt::Permanent { .. } => attempt,
    }
}

fn conclude(worker: &Worker, spec: &ActionSpec, action: &LeasedAction, attempt: Attempt) -> Settling {
    let outcome = match &attempt {
        Attempt::Success { .. } => "success",
        Attempt::Transient { .. } => "transient",
        Attempt::Permanent { .. } => "permanent",
    };
    ::metrics::counter!(metrics::ATTEMPTS, "outcome" => outcome).increment(1);
    let key = &action.lease.key;
    let attempts = u32::try_from(action.attempt).unwrap_or(1);
    let event = |name, payload| {
        Box::new(outcome_event(worker.event_id(), key, name, payload, action.traceparent.clone()))
    };
    match action::conclude(spec, key, attempts, attempt, worker.unit()) {
        Conclusion::Succeeded { result, emit } => {
            Settling::Succeeded { result, emit: emit.map(|(name, payload)| event(name, payload)) }
        }
        Conclusion::Retry { wait, error } => {
            ::metrics::counter!(metrics::RETRIES).increment(1);
            tracing::debug!(action.key = %key, action.attempt = attempts, error = %error, "an attempt failed, there will be another");
            Settling::Retry { error: RawJson::of(&error), at: worker.now().plus(wait) }
        }
        Conclusion::Failed { error, then } => {
            tracing::warn!(action.key = %key, action.attempt = attempts, error = %error, "an action failed for good");
            let then = match then {
                OnFailure::Emit(name, payload) => AfterFailure::Emit(event(name, payload)),
                OnFailure::Pause => {
                    AfterFailure::Pause { reason: format!("action {} failed: {error}", key.action) }
                }
            };
            Settling::Failed { error: RawJson::of(&error), then }
        }
    }
}

/// Nothing can be concluded without the definition: the event fails and a person decides.
fn unusable(reason: &str) -> Settling {
    let error = RawJson::of(&internal(reason.to_owned()));
    Settling::Failed { error, then: AfterFailure::Pause { reason: reason.to_owned() } }
}

pub(crate) fn internal(message: String) -> ActionError {
    ActionError { class: ErrorClass::Internal, message, status: None }
}
