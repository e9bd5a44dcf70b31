//! One attempt at an action, from the lease to the report.
//!
//! deadline still good → definition → input (rendered once and recorded under the lease) → perform,
//! within the action's timeout and only while the lease is held → conclude (pure) → report.
//!
//! An attempt that loses its lease stops without a report: somebody else has the action. A panic in
//! a performer is a transient failure of that attempt and of nothing else.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use millstream_core::action::{self, ActionError, Attempt, Conclusion, ErrorClass, OnFailure};
use millstream_core::crash::CrashPoint;
use millstream_core::definition::ActionSpec;
use millstream_core::machine::{self, ActionInput, Machine};
use millstream_core::raw::RawJson;
use millstream_store::action_store::{AfterFailure, LeasedAction, Settlement, Settling};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::errand::{Credentials, Errand};
use super::trace;
use crate::machines::Usable;
use crate::process::panic_text;
use crate::settle::Report;
use crate::turn::outcome_event;
use crate::worker::Worker;
use crate::{crash, metrics};

/// Performs what is handed over until the drain's time is up.
pub(crate) async fn run(
    worker: Arc<Worker>,
    mut errands: mpsc::Receiver<Errand>,
    reports: mpsc::Sender<Report>,
) {
    let mut running = JoinSet::new();
    loop {
        tokio::select! {
            errand = errands.recv() => match errand {
                Some(errand) => {
                    running.spawn(perform(Arc::clone(&worker), errand, reports.clone()));
                }
                None => return,
            },
            Some(_) = running.join_next(), if !running.is_empty() => {}
            () = worker.halt.cancelled() => return,
        }
    }
}

async fn perform(worker: Arc<Worker>, errand: Errand, reports: mpsc::Sender<Report>) {
    let Errand { action, held, slot } = errand;
    if worker.stop.is_cancelled() {
        let _ = worker.deps.stores.actions.release(std::slice::from_ref(&held.lease), worker.now()).await;
        return;
    }
    crash::here(worker.options.crash, CrashPoint::WorkerBeforeAction);
    let settling = tokio::select! {
        settling = attempt(&worker, &action, || held.is_good()) => settling,
        () = held.lost() => None,
    };
    let Some(settling) = settling else {
        ::metrics::counter!(metrics::LEASES_LOST).increment(1);
        tracing::warn!(action.key = %held.lease.key, "the lease on an action was lost, the attempt is dropped");
        return;
    };
    crash::here(worker.options.crash, CrashPoint::WorkerBeforeSettle);
    let settlement = Settlement { lease: held.lease.clone(), event_id: action.event_id, outcome: settling };
    // There is room for as many reports as there are slots.
    let _ = reports.send(Report { settlement, held, slot }).await;
}

/// `None` when the lease is gone.
async fn attempt(worker: &Worker, action: &LeasedAction, is_good: impl Fn() -> bool) -> Option<Settling> {
    let machine = match machine(worker, action).await {
        Ok(machine) => machine,
        Err(reason) => return Some(unusable(&reason)),
    };
    let Some(spec) = machine.action(&action.lease.key.action) else {
        return Some(unusable("the definition has no such action"));
    };
    let attempt = match input(worker, &machine, action).await? {
        Err(error) => Attempt::Permanent { error },
        Ok(_) if given_up(worker, spec, action) => Attempt::Permanent {
            error: internal(format!("given up: {} attempts left no outcome", action.attempt - 1)),
        },
        Ok(_) if !is_good() => return None,
        Ok(input) => perform_within(worker, spec, action, input).await,
    };
    Some(conclude(worker, spec, action, attempt))
}

/// The compiled definition; asks again for as long as the lease lasts.
async fn machine(worker: &Worker, action: &LeasedAction) -> Result<Arc<Machine>, String> {
    let tenant = &action.lease.key.execution.tenant;
    loop {
        match worker.machines.get(&*worker.deps.stores.definitions, tenant, &action.definition).await {
            Ok(usable) => {
                let usable: Usable = usable;
                return usable.map_err(|reason| reason.to_string());
            }
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
    attempt
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
