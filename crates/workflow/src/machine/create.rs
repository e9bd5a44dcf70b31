//! The first transition of an execution: seq 1, `millstream.start`.

use std::sync::Arc;

use millstream_expr::{BudgetEnd, ExprBudget, StopRule};
use millstream_model::context::{ExecutionContext, MAX_CONTEXT_BYTES, context_bytes};
use millstream_model::id::{EventId, Name, Seq};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;

use super::compile::Machine;
use super::correlation::evaluate_correlation;
use super::evolve::evolve;
use super::step::{arm_timers, phase_of};
use crate::log::{
    AppliedEvent, ArmedTimer, ExecutionParent, ExecutionState, FORMAT, StateEntry, Transition,
    TransitionDecision,
};
use crate::visit_limits::VisitLimits;

/// Why the execution was not created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CreationError {
    /// Rejected by the definition or the input: deterministic, every worker rejects the same start.
    #[error("{0}")]
    Rejected(String),
    /// Abandoned by the stop rule: to be decided again, on another thread or later.
    #[error("the stop rule ended the decision")]
    Stopped,
}

/// A first transition, and the state after it.
pub type FirstTransition = (AppliedEvent, ExecutionState);

/// A creation to decide.
#[derive(Debug, Clone)]
pub struct ExecutionCreation {
    pub machine: Arc<Machine>,
    pub event_id: EventId,
    pub input: RawJson,
    pub now: Timestamp,
}

/// Decides the creation of a root execution, without a parent; see [`create_execution_within`].
pub fn create_execution(
    machine: &Machine,
    event_id: EventId,
    input: &RawJson,
    now: Timestamp,
) -> Result<FirstTransition, CreationError> {
    create_execution_within(machine, event_id, input, None, now, &ExprBudget::default())
}

/// Decides creations in order, each within the budget of a step, until a limit ends the visit. Returns the
/// decided prefix; the rest stays undecided. A rejection does not depend on the earlier creations.
pub fn create_executions(
    creations: &[ExecutionCreation],
    limits: VisitLimits<'_>,
) -> Vec<Result<FirstTransition, String>> {
    let mut spent: u64 = 0;
    let mut decided = Vec::with_capacity(creations.len());
    for ExecutionCreation { machine, event_id, input, now } in creations {
        if spent >= limits.units {
            break;
        }
        let stop = StopRule { units: limits.stop.units.saturating_sub(spent), ..limits.stop };
        let budget = ExprBudget::of_step(stop);
        match create_execution_within(machine, *event_id, input, None, *now, &budget) {
            Ok(created) => decided.push(Ok(created)),
            Err(CreationError::Rejected(reason)) => decided.push(Err(reason)),
            Err(CreationError::Stopped) => break,
        }
        spent = spent.saturating_add(budget.spent());
    }
    decided
}

/// Decides the creation of an execution. `input` is an object, merged over the definition's context key by
/// key, or null. A child whose initial state is final is rejected, because it could not notify its parent.
pub fn create_execution_within(
    machine: &Machine,
    event_id: EventId,
    input: &RawJson,
    parent: Option<ExecutionParent>,
    now: Timestamp,
    budget: &ExprBudget<'_>,
) -> Result<FirstTransition, CreationError> {
    let rejected = |reason: &str| CreationError::Rejected(reason.to_owned());
    let definition = machine.definition();
    let mut context = definition.context().clone();
    let input: Option<ExecutionContext> =
        input.decode().map_err(|_| rejected("the input must be an object"))?;
    context.extend(input.unwrap_or_default());
    if context_bytes(&context) > MAX_CONTEXT_BYTES {
        let reason = format!("the context would be larger than {} KiB", MAX_CONTEXT_BYTES / 1024);
        return Err(CreationError::Rejected(reason));
    }
    let correlation = evaluate_correlation(machine, &context, budget);
    let correlation = match budget.end() {
        Some(BudgetEnd::Stopped) => return Err(CreationError::Stopped),
        // Rejects even if the expression handled the error.
        Some(end @ (BudgetEnd::Work | BudgetEnd::Bytes)) => {
            return Err(CreationError::Rejected(format!("correlate: {}", end.reason())));
        }
        None => correlation.map_err(CreationError::Rejected)?,
    };
    let initial = definition.initial();
    let phase = phase_of(machine, initial);
    if phase.is_ended() && parent.is_some() {
        return Err(rejected("the initial state is final, which is not allowed for a child execution"));
    }
    let mut timers = Vec::new();
    if !phase.is_ended() {
        if let Some(timeout) = definition.timeout() {
            timers.push(ArmedTimer {
                armed_seq: ArmedTimer::EXECUTION_TIMEOUT,
                ordinal: 0,
                fire_at: now.plus(timeout),
                send: Name::timeout_event(),
            });
        }
        timers.extend(arm_timers(machine, initial, Seq::FIRST, now));
    }
    let transition = Transition {
        seq: Seq::FIRST,
        event_id,
        name: Name::start_event(),
        at: now,
        decision: TransitionDecision {
            format: FORMAT,
            branch: 0,
            from: None,
            to: initial.clone(),
            entered: StateEntry::Entered,
            set: context,
            phase,
            reason: None,
            timers,
            actions: Vec::new(),
            parent,
            correlation,
            graph: None,
        },
    };
    let state = evolve(None, &transition);
    Ok((AppliedEvent { transition, actions: Vec::new() }, state))
}
