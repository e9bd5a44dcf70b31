//! The step function: decides one event in one state.
//!
//! Pure: the same machine, state, event and time give the same outcome, on any worker. Every data error
//! (a failing condition, a context over its size limit) is a rejection with the reason, never a crash and
//! never a partial transition.

use std::borrow::Cow;
use std::collections::BTreeMap;

use millstream_expr::{CelValue, EventScope, ExprBudget, ExprScope};
use millstream_model::context::{ExecutionContext, MAX_CONTEXT_BYTES, context_bytes};
use millstream_model::id::{Name, Seq};
use millstream_model::mutation::{self, Mutation};
use millstream_model::raw::RawJson;
use millstream_model::status::ExecutionPhase;
use millstream_model::time::Timestamp;
use serde::Deserialize;

use super::compile::{CompiledAlternative, Machine};
use super::correlation::evaluate_correlation;
use super::mailbox_visit::ENDED;
use super::plan::{plan_actions, plan_end_actions};
use crate::definition::{FinalStateKind, StateKind, TransitionAlternative};
use crate::log::{
    AppliedEvent, ArmedTimer, EventOrigin, EventOutcome, ExecutionState, FORMAT, MailboxEvent, PlannedAction,
    StateEntry, Transition, TransitionDecision,
};

static NO_RESULTS: BTreeMap<Name, RawJson> = BTreeMap::new();

/// Decides one event. `now` is the store's time; the transition gets this time, or the time of the previous
/// transition if that is later.
pub fn step(machine: &Machine, state: &ExecutionState, event: &MailboxEvent, now: Timestamp) -> EventOutcome {
    step_within(machine, state, event, now, &ExprBudget::default())
}

/// Decides one event and charges all its expressions to one budget. An event that exceeds it is rejected,
/// even if its expressions handled the error. If the stop rule stopped the budget, the outcome is meaningless
/// and must be discarded.
pub fn step_within(
    machine: &Machine,
    state: &ExecutionState,
    event: &MailboxEvent,
    now: Timestamp,
    budget: &ExprBudget<'_>,
) -> EventOutcome {
    let outcome = decide_event(machine, state, event, now, budget);
    match (budget.end(), &outcome) {
        (Some(end), EventOutcome::Applied(_)) => rejected_outcome(end.reason()),
        (
            Some(_) | None,
            EventOutcome::Applied(_) | EventOutcome::Rejected { .. } | EventOutcome::Deferred,
        ) => outcome,
    }
}

fn decide_event(
    machine: &Machine,
    state: &ExecutionState,
    event: &MailboxEvent,
    now: Timestamp,
    budget: &ExprBudget<'_>,
) -> EventOutcome {
    if state.phase.is_ended() {
        return rejected_outcome(ENDED);
    }
    let at = now.max(state.at);
    match event.origin {
        EventOrigin::Timer { armed_seq } if armed_seq == ArmedTimer::EXECUTION_TIMEOUT => {
            let reason = Some(timeout_reason(machine));
            return end_execution(state, event, at, ExecutionPhase::Failed, reason, machine.has_dependents());
        }
        EventOrigin::Timer { armed_seq }
            if armed_seq != state.entered_seq && !mutation::is_active(Mutation::StaleTimer) =>
        {
            return rejected_outcome(format!(
                "stale timer: the entry at seq {armed_seq} that armed {:?} has been left",
                event.name.as_str()
            ));
        }
        EventOrigin::Timer { .. } | EventOrigin::Posted => {}
    }
    if event.name.is_end() {
        return end_by_request(state, event, now, machine.has_dependents());
    }
    let Some(alternatives) = machine.alternatives_of(&state.state, &event.name) else {
        return unhandled_outcome(machine, state, event);
    };
    let scope = ExprScope {
        context: &state.context,
        event: EventScope { name: event.name.as_str(), payload: &event.payload, time: event.accepted_at },
        now: at,
        results: &NO_RESULTS,
        response: None,
        budget,
    };
    for (branch, (alternative, handler)) in alternatives.into_iter().enumerate() {
        match guard_holds(handler, &scope) {
            Ok(false) => {}
            Ok(true) => {
                return apply_alternative(
                    machine,
                    state,
                    event,
                    &scope,
                    ChosenAlternative { branch, alternative, handler },
                )
                .unwrap_or_else(rejected_outcome);
            }
            Err(reason) => {
                return rejected_outcome(format!(
                    "the condition of {:?}[{branch}] in state {:?} failed: {reason}",
                    event.name.as_str(),
                    state.state.as_str()
                ));
            }
        }
    }
    rejected_outcome(format!(
        "no condition of {:?} holds in state {:?}",
        event.name.as_str(),
        state.state.as_str()
    ))
}

/// Ends an active execution by request (cancel or fail): the only decision that needs no definition.
pub(super) fn end_by_request(
    state: &ExecutionState,
    event: &MailboxEvent,
    now: Timestamp,
    may_have_children: bool,
) -> EventOutcome {
    let phase =
        if event.name == Name::fail_event() { ExecutionPhase::Failed } else { ExecutionPhase::Cancelled };
    end_execution(state, event, now.max(state.at), phase, requested_reason(&event.payload), may_have_children)
}

fn rejected_outcome(reason: impl Into<String>) -> EventOutcome {
    EventOutcome::Rejected { reason: reason.into() }
}

fn unhandled_outcome(machine: &Machine, state: &ExecutionState, event: &MailboxEvent) -> EventOutcome {
    if machine.handles_event(&state.state, &event.name) {
        return EventOutcome::Deferred;
    }
    rejected_outcome(format!("state {:?} does not handle {:?}", state.state.as_str(), event.name.as_str()))
}

fn guard_holds(handler: &CompiledAlternative, scope: &ExprScope<'_>) -> Result<bool, String> {
    let Some(guard) = &handler.guard else { return Ok(true) };
    match guard.evaluate(scope) {
        Ok(CelValue::Bool(truth)) => Ok(truth),
        Ok(other) => Err(format!("true or false is needed, not {}", other.kind())),
        Err(error) => Err(error.to_string()),
    }
}

/// The selected alternative.
struct ChosenAlternative<'a> {
    branch: usize,
    alternative: &'a TransitionAlternative,
    handler: &'a CompiledAlternative,
}

fn apply_alternative(
    machine: &Machine,
    state: &ExecutionState,
    event: &MailboxEvent,
    scope: &ExprScope<'_>,
    chosen: ChosenAlternative<'_>,
) -> Result<EventOutcome, String> {
    let set = evaluate_set(state, scope, chosen.handler)?;
    let seq = state.seq.next();
    let (to, entered) = match &chosen.alternative.to {
        Some(to) => (to, StateEntry::Entered),
        None => (&state.state, StateEntry::Stayed),
    };
    let phase = match entered {
        StateEntry::Entered => phase_of(machine, to),
        StateEntry::Stayed => state.phase,
    };
    let tells_parent = phase.is_ended() && state.parent.is_some();
    let is_read =
        !chosen.alternative.actions.is_empty() || machine.correlate_program().is_some() || tells_parent;
    let after = if !set.is_empty() && is_read {
        let mut context = state.context.clone();
        context.extend(set.iter().map(|(key, value)| (key.clone(), value.clone())));
        Cow::Owned(context)
    } else {
        Cow::Borrowed(&state.context)
    };
    let correlation =
        if set.is_empty() { None } else { evaluate_correlation(machine, &after, scope.budget)? };
    let mut actions =
        plan_actions(machine, &chosen.alternative.actions, &ExprScope { context: &after, ..*scope })
            .map_err(|error| error.to_string())?;
    if tells_parent || (phase.is_ended() && machine.has_dependents()) {
        let ended = ExecutionState {
            phase,
            state: to.clone(),
            context: after.into_owned(),
            reason: None,
            ..state.clone()
        };
        plan_end_actions(&ended, &mut actions, machine.has_dependents());
    }
    let decision = TransitionDecision {
        format: FORMAT,
        branch: u32::try_from(chosen.branch).unwrap_or(u32::MAX),
        from: Some(state.state.clone()),
        to: to.clone(),
        entered,
        set,
        phase,
        reason: None,
        timers: match entered {
            StateEntry::Entered => arm_timers(machine, to, seq, scope.now),
            StateEntry::Stayed => Vec::new(),
        },
        actions: chosen.alternative.actions.clone(),
        parent: None,
        correlation: correlation.filter(|found| state.correlation.as_ref() != Some(found)),
        graph: None,
    };
    Ok(applied_outcome(seq, event, scope.now, decision, actions))
}

fn applied_outcome(
    seq: Seq,
    event: &MailboxEvent,
    at: Timestamp,
    decision: TransitionDecision,
    actions: Vec<PlannedAction>,
) -> EventOutcome {
    let transition = Transition { seq, event_id: event.event_id, name: event.name.clone(), at, decision };
    EventOutcome::Applied(Box::new(AppliedEvent { transition, actions }))
}

/// Evaluates `set`. All values read the context before the transition; the new context is limited in size.
fn evaluate_set(
    state: &ExecutionState,
    scope: &ExprScope<'_>,
    handler: &CompiledAlternative,
) -> Result<ExecutionContext, String> {
    let mut set = ExecutionContext::new();
    for (key, value) in &handler.set {
        let value = value.render(scope, "").map_err(|error| {
            format!("setting {key:?} failed: {}", error.to_string().trim_start_matches(": "))
        })?;
        set.insert(key.clone(), value);
    }
    if set.is_empty() {
        return Ok(set);
    }
    let replaced = state.context.iter().filter(|(key, _)| set.contains_key(*key));
    let replaced: usize = replaced.map(|(key, value)| key.len() + value.len() + 4).sum();
    let size = state.context_bytes() - replaced + context_bytes(&set) - 2;
    if size > MAX_CONTEXT_BYTES {
        return Err(format!("the context would be larger than {} KiB", MAX_CONTEXT_BYTES / 1024));
    }
    Ok(set)
}

/// Ends the execution in its current state, by an event of the engine.
fn end_execution(
    state: &ExecutionState,
    event: &MailboxEvent,
    at: Timestamp,
    phase: ExecutionPhase,
    reason: Option<String>,
    may_have_children: bool,
) -> EventOutcome {
    let decision = TransitionDecision {
        format: FORMAT,
        branch: 0,
        from: Some(state.state.clone()),
        to: state.state.clone(),
        entered: StateEntry::Stayed,
        set: ExecutionContext::new(),
        phase,
        reason,
        timers: Vec::new(),
        actions: Vec::new(),
        parent: None,
        correlation: None,
        graph: None,
    };
    let after = ExecutionState { phase, reason: decision.reason.clone(), ..state.clone() };
    let mut actions = Vec::new();
    plan_end_actions(&after, &mut actions, may_have_children);
    applied_outcome(state.seq.next(), event, at, decision, actions)
}

fn timeout_reason(machine: &Machine) -> String {
    match machine.definition().timeout() {
        Some(timeout) => format!("timed out after {}", millstream_model::duration::format_duration(timeout)),
        None => "timed out".to_owned(),
    }
}

pub(crate) fn requested_reason(payload: &RawJson) -> Option<String> {
    #[derive(Deserialize)]
    struct EndRequestPayload {
        reason: Option<String>,
    }
    const LONGEST: usize = 1_000;
    let given: EndRequestPayload = payload.decode().ok()?;
    given.reason.map(|reason| reason.chars().take(LONGEST).collect())
}

/// The phase after entering a state.
pub(super) fn phase_of(machine: &Machine, state: &Name) -> ExecutionPhase {
    match machine.definition().states().get(state).map(|state| state.kind) {
        Some(StateKind::Final(FinalStateKind::Completed)) => ExecutionPhase::Completed,
        Some(StateKind::Final(FinalStateKind::Failed)) => ExecutionPhase::Failed,
        Some(StateKind::Working) | None => ExecutionPhase::Active,
    }
}

/// The timers that are armed on entering a state.
pub(super) fn arm_timers(machine: &Machine, state: &Name, seq: Seq, at: Timestamp) -> Vec<ArmedTimer> {
    let Some(spec) = machine.definition().states().get(state) else { return Vec::new() };
    spec.after
        .iter()
        .enumerate()
        .map(|(ordinal, timer)| ArmedTimer {
            armed_seq: seq,
            ordinal: i32::try_from(ordinal).unwrap_or(i32::MAX),
            fire_at: at.plus(timer.delay),
            send: timer.send.clone(),
        })
        .collect()
}
