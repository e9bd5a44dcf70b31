//! The outcome of a task, as its worker reports it: concluded by the definition, and settled.

use millstream_model::attempt::AttemptOutcome;
use millstream_model::entropy;
use millstream_model::id::ActionKey;
use millstream_model::status::{ActionStatus, EventStatus};
use millstream_store::action_store::{
    ActionAttempt, AfterFailure, Lease, SettleOutcome, SettleVerdict, Settlement,
};
use millstream_workflow::action;

use super::TaskDeps;
use super::handed_out_tasks::HeldTask;
use super::held_tasks::lease_lost;
use crate::refusal::RequestRefusal;

/// A result becomes part of an event, which has at most 256 KiB.
pub(crate) const MAX_RESULT: usize = 192 * 1024;
pub(crate) const MAX_MESSAGE: usize = 4 * 1024;

#[derive(Debug)]
pub(crate) struct SettledTask {
    /// The outcome of the task.
    pub(crate) outcome: SettledTaskOutcome,
    /// The status of the event that called the action.
    pub(crate) event_status: EventStatus,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum SettledTaskOutcome {
    Completed,
    /// The action will be retried.
    Retried,
    /// The definition handles the failure.
    Failed,
    /// A person has to decide.
    Incident,
    /// The execution has ended: the action is not retried.
    Cancelled,
}

pub(crate) async fn settle_task(
    deps: &TaskDeps,
    held: HeldTask,
    attempt: AttemptOutcome,
) -> Result<SettledTask, RequestRefusal> {
    let key = &held.key;
    let unknown = || RequestRefusal::not_found("task", key);
    let definition = match held.definition {
        Some(definition) => definition,
        None => {
            let targets = deps.machines.definitions_of(std::slice::from_ref(&key.execution)).await?;
            targets.into_iter().next().flatten().ok_or_else(unknown)?
        }
    };
    let found =
        deps.machines.find_machine(&key.execution.tenant, &definition.name, Some(definition.version)).await?;
    let (_, machine) = found.ok_or_else(unknown)?;
    let spec = machine.action_spec(&key.action).ok_or_else(unknown)?;

    let now = deps.clock.now();
    let whose = ActionAttempt {
        key,
        revision: held.revision,
        attempts: held.attempts,
        ready_at: held.ready_at,
        traceparent: held.traceparent.as_deref(),
    };
    let unit = entropy::random_unit(&*deps.entropy);
    let concluded = action::conclude_attempt(&spec.policy, whose, attempt, unit, now, &mut || {
        entropy::event_id(now, &*deps.entropy)
    });
    let outcome = shown_outcome(&concluded);
    let lease = Lease { key: key.clone(), epoch: held.token };
    let settlement = Settlement { lease, event_id: held.event_id, outcome: concluded };
    match deps.reports.settle_task(settlement).await? {
        SettleVerdict::Recorded { event } => {
            deps.handed.forget_task(key);
            deps.board.end_lease(&key.execution.tenant);
            let outcome = match outcome {
                SettledTaskOutcome::Retried => outcome_of_retry(deps, key).await,
                SettledTaskOutcome::Completed
                | SettledTaskOutcome::Failed
                | SettledTaskOutcome::Incident
                | SettledTaskOutcome::Cancelled => outcome,
            };
            Ok(SettledTask { outcome, event_status: event })
        }
        SettleVerdict::Stale => Err(lease_lost(deps, key, held.token).await),
    }
}

/// The outcome after a retry was recorded: the store does not retry an action of an ended execution. If the
/// store cannot be asked, the answer is the recorded decision.
async fn outcome_of_retry(deps: &TaskDeps, key: &ActionKey) -> SettledTaskOutcome {
    match deps.reports.find_task(key.clone()).await {
        Ok(Some(view)) if view.status == ActionStatus::Cancelled => SettledTaskOutcome::Cancelled,
        Ok(_) | Err(_) => SettledTaskOutcome::Retried,
    }
}

const fn shown_outcome(concluded: &SettleOutcome) -> SettledTaskOutcome {
    match concluded {
        SettleOutcome::Succeeded { .. } | SettleOutcome::Awaiting { .. } => SettledTaskOutcome::Completed,
        SettleOutcome::Retry { .. } | SettleOutcome::Postponed { .. } => SettledTaskOutcome::Retried,
        SettleOutcome::Failed { then: AfterFailure::Emit(_) | AfterFailure::Compensate, .. } => {
            SettledTaskOutcome::Failed
        }
        SettleOutcome::Failed { then: AfterFailure::Incident(_), .. } => SettledTaskOutcome::Incident,
    }
}
