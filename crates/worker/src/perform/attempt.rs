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
use millstream_core::action::{ActionError, Attempt, ErrorClass};
use millstream_core::crash::CrashPoint;
use millstream_core::definition::ActionSpec;
use millstream_core::expr::StopRule;
use millstream_core::id::TenantId;
use millstream_core::machine::{self, ActionInput, Machine, RenderError};
use millstream_core::program::Program;
use millstream_core::quota::caps;
use millstream_core::raw::RawJson;
use millstream_core::schedule;
use millstream_core::sealed::Filled;
use millstream_rpc::evaluation_pool::EvaluationPool;
use millstream_store::action_store::{LeasedAction, Settlement, Settling};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::errand::{Credentials, Done, Errand};
use super::leases::Held;
use super::outcome::{compensated, conclude, internal, unusable};
use super::{answer, secrets, start_queue, trace};
use crate::process::panic_text;
use crate::programs::{Unusable, Usable};
use crate::settle::Report;
use crate::worker::Worker;
use crate::{crash, metrics};

/// Delay before an action that this build cannot perform is released.
const FOREIGN_PATIENCE: Duration = Duration::from_secs(2);

/// Performs the actions handed over, until the drain deadline.
pub(crate) async fn run(
    worker: Arc<Worker>,
    errands: mpsc::Receiver<(TenantId, Errand)>,
    reports: mpsc::Sender<Report>,
) {
    let (halt, weights) = (worker.halt.clone(), worker.options.weights.clone());
    start_queue::run(errands, weights, &halt, |errand| perform(Arc::clone(&worker), errand, reports.clone()))
        .await;
}

async fn perform(worker: Arc<Worker>, errand: Errand, reports: mpsc::Sender<Report>) {
    let Errand { action, held, slot } = errand;
    let turn = tokio::select! {
        biased;
        () = worker.stop.cancelled() => None,
        () = held.lost() => None,
        turn = slot.turn(&worker.performing) => turn,
    };
    let Some(turn) = turn else {
        // Released; the store skips a lost lease.
        let _ = worker.deps.stores.actions.release(std::slice::from_ref(&held.lease), worker.now()).await;
        return;
    };
    crash::here(worker.options.crash, CrashPoint::WorkerBeforeAction);
    let performed = tokio::select! {
        biased;
        performed = guarded(&worker, &action, &held) => performed,
        () = held.lost() => Performed::LeaseLost,
    };
    drop(turn);
    let settling = match performed {
        Performed::Settle(settling) => settling,
        Performed::LeaseLost => {
            ::metrics::counter!(metrics::LEASES_LOST).increment(1);
            tracing::warn!(action.key = %held.lease.key, "lease lost, attempt dropped");
            return;
        }
        Performed::Foreign => return give_back(&worker, &held).await,
    };
    crash::here(worker.options.crash, CrashPoint::WorkerBeforeSettle);
    let settlement = Settlement { lease: held.lease.clone(), event_id: action.event_id, outcome: settling };
    worker.unsettled.reported();
    held.begin_settling();
    // The channel has capacity for as many reports as there are slots.
    let _ = reports.send(Report { settlement, held, slot }).await;
}

/// Outcome of an attempt.
enum Performed {
    Settle(Settling),
    LeaseLost,
    /// This build cannot read the definition.
    Foreign,
}

/// Releases after a delay: otherwise it would be leased again at once.
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

/// Runs an attempt; a panic becomes a failure of the attempt.
async fn guarded(worker: &Worker, action: &LeasedAction, held: &Held) -> Performed {
    let panic = match AssertUnwindSafe(attempt(worker, action, held)).catch_unwind().await {
        Ok(performed) => return performed,
        Err(panic) => panic_text(&*panic),
    };
    tracing::error!(action.key = %action.lease.key, error = %panic, "panic while performing an action");
    let conclusion = async {
        let program = program(worker, action).await.ok()?;
        let spec = program.action(&action.lease.key.action)?;
        let attempt = Attempt::Transient { error: internal(panic.clone()), retry_after: None };
        Some(conclude(worker, &spec, action, attempt))
    };
    let concluded = AssertUnwindSafe(conclusion).catch_unwind().await;
    Performed::Settle(concluded.ok().flatten().unwrap_or_else(|| unusable(worker, action, &panic)))
}

async fn attempt(worker: &Worker, action: &LeasedAction, held: &Held) -> Performed {
    let program = match program(worker, action).await {
        Ok(program) => program,
        Err(Unusable::Gone(reason)) => return Performed::Settle(unusable(worker, action, &reason)),
        Err(Unusable::Foreign(_)) => return Performed::Foreign,
    };
    let Some(spec) = program.action(&action.lease.key.action) else {
        return Performed::Settle(unusable(worker, action, "the definition has no such action"));
    };
    if let Some(error) = &action.closing {
        return Performed::Settle(compensated(worker, &spec, action, error));
    }
    let done = if let Some(error) =
        schedule::missed(&spec.timeouts, action.attempt, action.ready_at, worker.now())
    {
        worker.performers.give_up(worker, action).await;
        Done::Attempt(Attempt::Permanent { error })
    } else {
        match input(worker, &program, action).await {
            None => return Performed::LeaseLost,
            Some(Err(error)) => Done::Attempt(Attempt::Permanent { error }),
            Some(Ok(ActionInput::Task(_))) => Done::Lost,
            Some(Ok(_)) if given_up(worker, &spec, action) => Done::Attempt(Attempt::Permanent {
                error: internal(format!("given up: {} attempts left no outcome", action.attempt - 1)),
            }),
            Some(Ok(_)) if !held.is_good() => return Performed::LeaseLost,
            Some(Ok(input)) => perform_within(worker, &program, &spec, action, held, input).await,
        }
    };
    Performed::Settle(match done {
        Done::Attempt(attempt) => conclude(worker, &spec, action, attempt),
        Done::Told(told) => {
            let instead = program.machine().map(|machine| told.spec(machine, &spec));
            conclude(worker, instead.as_deref().unwrap_or(&spec), action, told.attempt())
        }
        Done::Postponed { at } => Settling::Postponed { at, error: None },
        Done::OverQuota { at, refusal } => {
            let message = refusal.to_string();
            let error = ActionError { class: ErrorClass::Quota, message, status: None };
            Settling::Postponed { at, error: Some(RawJson::of(&error)) }
        }
        Done::Awaiting { until } => Settling::Awaiting { until },
        Done::Lost => lost(worker, &spec, action),
    })
}

/// The program of the action's definition; retries for as long as the lease lasts.
async fn program(worker: &Worker, action: &LeasedAction) -> Usable {
    let tenant = &action.lease.key.execution.tenant;
    loop {
        match worker.programs.get(&*worker.deps.stores.definitions, tenant, &action.definition).await {
            Ok(usable) => return usable,
            Err(error) => {
                worker.store_outage.met(&error);
                tokio::time::sleep(worker.around(Duration::from_millis(250))).await;
            }
        }
    }
}

/// The input, rendered now if it had to wait for results. `None` when the lease is lost.
async fn input(
    worker: &Worker,
    program: &Program,
    action: &LeasedAction,
) -> Option<Result<ActionInput, ActionError>> {
    let raw = match (&action.input, &action.scope, program.machine()) {
        (Some(input), _, _) => input.clone(),
        (None, Some(scope), Some(_)) => match render(worker, program, action, scope).await? {
            Ok(input) => {
                record(worker, action, &input).await?;
                input
            }
            Err(message) => {
                return Some(Err(ActionError { class: ErrorClass::Input, message, status: None }));
            }
        },
        (None, None, _) | (None, Some(_), None) => {
            return Some(Err(internal("the action has neither input nor scope".to_owned())));
        }
    };
    Some(raw.decode().map_err(|error| internal(format!("the recorded input cannot be read: {error}"))))
}

/// Renders an input: in place if it is cheap, else on the pool. `None` when the pool's time limit ended it:
/// the attempt is dropped like one whose worker died, and counted when the action is leased again.
async fn render(
    worker: &Worker,
    program: &Program,
    action: &LeasedAction,
    scope: &RawJson,
) -> Option<Result<RawJson, String>> {
    let render = |program: &Program, action: &LeasedAction, scope: &RawJson, stop: StopRule<'_>| {
        let Some(machine) = program.machine() else { return Err(RenderError::Stopped) };
        machine::render(machine, &action.lease.key.action, scope, &action.results, action.ready_at, stop)
    };
    let rendered = match render(program, action, scope, EvaluationPool::inline()) {
        Err(RenderError::Stopped) => {
            let (program, action, scope) = (program.clone(), action.clone(), scope.clone());
            worker.evaluations.run(move |stop| render(&program, &action, &scope, stop)).await.ok()?
        }
        rendered @ (Ok(_) | Err(RenderError::Failed(_))) => rendered,
    };
    match rendered {
        Ok(input) => Some(Ok(input)),
        Err(RenderError::Failed(message)) => Some(Err(message)),
        Err(RenderError::Stopped) => None,
    }
}

/// Records a rendered input; retries for as long as the lease lasts.
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

/// Attempts that ended with the death of their worker are counted by their leases. They are not failures of
/// the action, but an action that kills every worker must end as well.
fn given_up(worker: &Worker, spec: &ActionSpec, action: &LeasedAction) -> bool {
    let most = i64::from(spec.retry.attempts) + i64::from(worker.options.poison_cap);
    i64::from(action.attempt) > most
}

async fn perform_within(
    worker: &Worker,
    program: &Program,
    spec: &ActionSpec,
    action: &LeasedAction,
    held: &Held,
    input: ActionInput,
) -> Done {
    let tenant = &action.lease.key.execution.tenant;
    let filled = match secrets::fill(worker.deps.secrets.as_deref(), tenant, &input).await {
        Ok(filled) => Arc::new(filled),
        // The secret may be added before the attempts are used up.
        Err(error) => return Done::Attempt(Attempt::Transient { error, retry_after: None }),
    };
    let credentials = Credentials {
        idempotency_key: action.lease.key.with_revision(action.revision),
        fencing_token: action.lease.epoch.0,
        traceparent: trace::child_of(action.traceparent.as_deref(), &*worker.deps.entropy),
    };
    let kind = input.kind();
    let limit = schedule::attempt_within(&spec.timeouts, action.ready_at, worker.now());
    // A node waits for capacity at an executor first; its call ends at the cap by itself.
    let is_node = matches!(input, ActionInput::Node(_));
    let limit =
        if is_node { limit } else { caps::attempt_within(limit, &spec.kind, &worker.quotas.quota(tenant)) };
    let started = Instant::now();
    let work =
        worker.performers.perform(worker, spec, action, held, input, &credentials, &filled, started + limit);
    let performed = AssertUnwindSafe(secrets::guarding(Arc::clone(&filled), work)).catch_unwind();
    let done = tokio::select! {
        biased;
        performed = performed => match performed {
            Ok(done) => done,
            Err(panic) => transient(internal(panic_text(&*panic))),
        },
        () = tokio::time::sleep_until(started + limit) => {
            let message = format!("no outcome within {limit:?}");
            transient(ActionError { class: ErrorClass::Timeout, message, status: None })
        }
        silence = held.silent() => {
            let message = format!("no heartbeat within {silence:?}");
            transient(ActionError { class: ErrorClass::Heartbeat, message, status: None })
        }
    };
    ::metrics::histogram!(metrics::ATTEMPT_SECONDS, "kind" => kind).record(started.elapsed().as_secs_f64());
    match done {
        Done::Attempt(attempt) => Done::Attempt(finished(worker, program, action, &filled, attempt).await),
        Done::Told(_)
        | Done::Postponed { .. }
        | Done::OverQuota { .. }
        | Done::Awaiting { .. }
        | Done::Lost => done,
    }
}

/// The worker that leased it reported nothing in time. No back-off: nothing is overloaded.
fn lost(worker: &Worker, spec: &ActionSpec, action: &LeasedAction) -> Settling {
    let (class, what) = match spec.timeouts.heartbeat {
        Some(length) => (ErrorClass::Heartbeat, format!("no heartbeat within {length:?}")),
        None => (ErrorClass::Timeout, format!("no outcome within {:?}", spec.timeouts.start_to_close)),
    };
    let error = ActionError { class, message: format!("{what} from its worker"), status: None };
    if i64::from(action.attempt) < i64::from(spec.retry.attempts) && !spec.retry.except.contains(&error.class)
    {
        return Settling::Retry { error: RawJson::of(&error), at: worker.now() };
    }
    conclude(worker, spec, action, Attempt::Permanent { error })
}

fn transient(error: ActionError) -> Done {
    Done::Attempt(Attempt::Transient { error, retry_after: None })
}

/// The attempt as published: without secrets, mapped by the definition, within limits.
async fn finished(
    worker: &Worker,
    program: &Program,
    action: &LeasedAction,
    filled: &Filled,
    attempt: Attempt,
) -> Attempt {
    // An executor's answer is kept unchanged; its size was checked on arrival.
    let Some(machine) = program.machine() else { return attempt };
    let attempt = secrets::redact(filled, attempt);
    let attempt = match attempt {
        Attempt::Success { result } => match respond(worker, program, machine, action, result).await {
            Ok(result) => Attempt::Success { result },
            Err(RenderError::Failed(message)) => Attempt::Permanent {
                error: ActionError { class: ErrorClass::Response, message, status: None },
            },
            Err(error @ RenderError::Stopped) => {
                Attempt::Transient { error: internal(format!("result: {error}")), retry_after: None }
            }
        },
        Attempt::Transient { error, retry_after } => {
            Attempt::Transient { error: answer::shortened(error), retry_after }
        }
        Attempt::Permanent { error } => Attempt::Permanent { error: answer::shortened(error) },
        Attempt::Pause { error } => Attempt::Pause { error: answer::shortened(error) },
    };
    bounded(attempt, worker.options.http.max_response)
}

/// Maps a response: in place if it is cheap, else on the pool.
async fn respond(
    worker: &Worker,
    program: &Program,
    machine: &Machine,
    action: &LeasedAction,
    response: RawJson,
) -> Result<RawJson, RenderError> {
    let name = &action.lease.key.action;
    match machine::respond(machine, name, response.clone(), EvaluationPool::inline()) {
        Err(RenderError::Stopped) => {
            let (program, name) = (program.clone(), name.clone());
            let mapped = worker.evaluations.run(move |stop| match program.machine() {
                Some(machine) => machine::respond(machine, &name, response, stop),
                None => Ok(response),
            });
            mapped.await.unwrap_or(Err(RenderError::Stopped))
        }
        mapped @ (Ok(_) | Err(RenderError::Failed(_))) => mapped,
    }
}

/// A result becomes part of an event, which has a size limit.
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
        Attempt::Success { .. }
        | Attempt::Transient { .. }
        | Attempt::Permanent { .. }
        | Attempt::Pause { .. } => attempt,
    }
}
