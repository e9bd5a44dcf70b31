//! Prepares leased tasks for delivery: renders the input of a task that had to wait for others, and gives
//! up a task whose attempts or time are used up.

use std::sync::Arc;
use std::time::Duration;

use millstream_expr::StopRule;
use millstream_model::attempt::{ActionFailure, AttemptOutcome};
use millstream_model::entropy;
use millstream_model::error_class::ErrorClass;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_rpc::evaluation_pool::EvaluationPool;
use millstream_store::StoreResult;
use millstream_store::action_store::{ActionAttempt, LeasedAction, SettleOutcome, Settlement};
use millstream_workflow::definition::ActionSpec;
use millstream_workflow::machine::{self, ActionInput, Machine, RenderError, TaskInput};
use millstream_workflow::{action, schedule};

use super::TaskDeps;
use crate::tasks::handed_out_tasks::HeldTask;

/// How long a task that this build cannot prepare is not leased again.
const FOREIGN_PATIENCE: Duration = Duration::from_secs(2);

/// A task that is ready for delivery.
#[derive(Debug)]
pub(crate) struct ReadyTask {
    pub(crate) action: LeasedAction,
    pub(crate) input: TaskInput,
    /// Deadline of the attempt.
    pub(crate) deadline: Timestamp,
}

/// Prepares the leased actions. An action that cannot become a task is settled, or postponed when this
/// build cannot read its definition: another build may.
pub(crate) async fn prepare_tasks(
    deps: &TaskDeps,
    leased: Vec<LeasedAction>,
    asked: Timestamp,
) -> StoreResult<Vec<ReadyTask>> {
    let mut tasks = Vec::with_capacity(leased.len());
    for action in leased {
        let key = &action.lease.key;
        let found = deps
            .machines
            .find_machine(&key.execution.tenant, &action.definition.name, Some(action.definition.version))
            .await;
        let machine = match found {
            Ok(Some((_, machine))) => machine,
            Ok(None) | Err(_) => {
                tracing::error!(action.key = %key, "the definition of a task cannot be read by this process");
                postpone_task(deps, &action).await?;
                continue;
            }
        };
        let Some(spec) = machine.action_spec(&key.action) else {
            postpone_task(deps, &action).await?;
            continue;
        };
        match input_of_task(deps, &machine, spec, &action).await? {
            Ok(input) => {
                let limit = schedule::attempt_timeout(&spec.policy.timeouts, action.ready_at, asked);
                deps.handed.put_task(HeldTask::from(&action));
                tasks.push(ReadyTask { deadline: asked.plus(limit), action, input });
            }
            Err(Some(error)) => give_up_task(deps, spec, &action, error).await?,
            // The lease has moved on.
            Err(None) => {}
        }
    }
    Ok(tasks)
}

/// The input, or the error with which the task is given up; `None` when the lease is gone.
async fn input_of_task(
    deps: &TaskDeps,
    machine: &Arc<Machine>,
    spec: &ActionSpec,
    action: &LeasedAction,
) -> StoreResult<std::result::Result<TaskInput, Option<ActionFailure>>> {
    if let Some(error) =
        schedule::missed_timeout(&spec.policy.timeouts, action.attempt, action.ready_at, deps.clock.now())
    {
        return Ok(Err(Some(error)));
    }
    // The earlier attempts ended with their leases, without a report.
    if i64::from(action.attempt) > i64::from(spec.policy.retry.attempts) {
        let (class, what) = match spec.policy.timeouts.heartbeat {
            Some(_) => (ErrorClass::Heartbeat, "the last one sent no heartbeat"),
            None => (ErrorClass::Timeout, "the last one reported no outcome in time"),
        };
        let message = format!("{} attempts are used up; {what}", action.attempt - 1);
        return Ok(Err(Some(ActionFailure { class, message, status: None })));
    }
    let input = match (&action.input, &action.scope) {
        (Some(input), _) => input.clone(),
        (None, Some(scope)) => match render_input(deps, machine, action, scope).await {
            Ok(input) => {
                let recorded = [(action.lease.clone(), input.clone())];
                if deps.actions.record_inputs(&recorded).await? != [true] {
                    return Ok(Err(None));
                }
                input
            }
            Err(RenderError::Failed(message)) => {
                return Ok(Err(Some(ActionFailure { class: ErrorClass::Input, message, status: None })));
            }
            // The lease expires, which counts as an attempt, and the task is handed out again.
            Err(RenderError::Stopped) => return Ok(Err(None)),
        },
        (None, None) => return Ok(Err(Some(internal_error("the task has neither input nor scope")))),
    };
    Ok(match input.decode() {
        Ok(ActionInput::Task(input)) => Ok(input),
        Ok(_) | Err(_) => Err(Some(internal_error("the recorded input is not that of a task"))),
    })
}

/// Renders the input of a task: inline if that is cheap, else on the pool.
async fn render_input(
    deps: &TaskDeps,
    machine: &Arc<Machine>,
    action: &LeasedAction,
    scope: &RawJson,
) -> std::result::Result<RawJson, RenderError> {
    let render = |machine: &Machine, action: &LeasedAction, scope: &RawJson, stop: StopRule<'_>| {
        machine::render_deferred_input(
            machine,
            &action.lease.key.action,
            scope,
            &action.results,
            action.ready_at,
            stop,
        )
    };
    match render(machine, action, scope, EvaluationPool::inline()) {
        Err(RenderError::Stopped) => {
            let (machine, action, scope) = (machine.clone(), action.clone(), scope.clone());
            let rendered = deps.machines.evaluations.run(move |stop| render(&machine, &action, &scope, stop));
            rendered.await.unwrap_or(Err(RenderError::Stopped))
        }
        rendered @ (Ok(_) | Err(RenderError::Failed(_))) => rendered,
    }
}

async fn give_up_task(
    deps: &TaskDeps,
    spec: &ActionSpec,
    action: &LeasedAction,
    error: ActionFailure,
) -> StoreResult<()> {
    // The lease of this delivery is not an attempt.
    let whose = ActionAttempt { attempts: action.attempt - 1, ..action.as_attempt() };
    let now = deps.clock.now();
    let performed = AttemptOutcome::Permanent { error };
    let outcome = action::conclude_attempt(&spec.policy, whose, performed, 0.0, now, &mut || {
        entropy::event_id(now, &*deps.entropy)
    });
    let settlement = Settlement { lease: action.lease.clone(), event_id: action.event_id, outcome };
    deps.reports.settle_task(settlement).await?;
    deps.board.end_lease(&action.lease.key.execution.tenant);
    Ok(())
}

/// Postpones the task. Not released at once, because the next waiting worker would lease it in the same
/// moment.
async fn postpone_task(deps: &TaskDeps, action: &LeasedAction) -> StoreResult<()> {
    let outcome = SettleOutcome::Postponed { at: deps.clock.now().plus(FOREIGN_PATIENCE), error: None };
    let settlement = Settlement { lease: action.lease.clone(), event_id: action.event_id, outcome };
    deps.reports.settle_task(settlement).await?;
    deps.board.end_lease(&action.lease.key.execution.tenant);
    Ok(())
}

fn internal_error(message: &str) -> ActionFailure {
    ActionFailure { class: ErrorClass::Internal, message: message.to_owned(), status: None }
}
