//! The step function: decides one event in one state.
//!
//! Pure: the same machine, state, event and time give the same outcome, on any worker. Every data error
//! (a failing condition, a context over its size limit) is a rejection with the reason, never a crash and
//! never a partial transition.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;

use super::compile::{Handler, Machine};
use super::correlation::correlation;
use super::plan::{at_the_end, plan};
use super::turn::ENDED;
use crate::definition::{Alternative, Ending, StateKind};
use crate::expr::{Budget, EventScope, Scope, Value};
use crate::id::{Name, Seq};
use crate::log::{
    Applied, ArmedTimer, Context, Decision, Entry, FORMAT, MAX_CONTEXT_BYTES, Origin, Outcome, PlannedAction,
    State, Transition, Waiting, context_bytes,
};
use crate::planted::{self, Bug};
use crate::raw::RawJson;
use crate::status::Phase;
use crate::time::Timestamp;

static NO_RESULTS: BTreeMap<Name, RawJson> = BTreeMap::new();

/// Decides one event. `now` is the store's time; the transition gets this time, or the time of the previous
/// transition if that is later.
pub fn step(machine: &Machine, state: &State, event: &Waiting, now: Timestamp) -> Outcome {
    step_within(machine, state, event, now, &Budget::default())
}

/// Decides one event and charges all its expressions to one budget. An event that exceeds it is rejected,
/// even if its expressions handled the error. If the stop rule stopped the budget, the outcome is meaningless
/// and must be discarded.
pub fn step_within(
    machine: &Machine,
    state: &State,
    event: &Waiting,
    now: Timestamp,
    budget: &Budget<'_>,
) -> Outcome {
    let outcome = decide(machine, state, event, now, budget);
    match (budget.end(), &outcome) {
        (Some(end), Outcome::Applied(_)) => rejected(end.reason()),
        (Some(_) | None, Outcome::Applied(_) | Outcome::Rejected { .. } | Outcome::Deferred) => outcome,
    }
}

fn decide(machine: &Machine, state: &State, event: &Waiting, now: Timestamp, budget: &Budget<'_>) -> Outcome {
    if state.phase.is_ended() {
        return rejected(ENDED);
    }
    let at = now.max(state.at);
    match event.origin {
        Origin::Timer { armed_seq } if armed_seq == ArmedTimer::EXECUTION_TIMEOUT => {
            let reason = Some(timed_out(machine));
            return end(state, event, at, Phase::Failed, reason, machine.starts_children());
        }
        Origin::Timer { armed_seq } if armed_seq != state.entered_seq && !planted::is(Bug::StaleTimer) => {
            return rejected(format!(
                "stale timer: the entry at seq {armed_seq} that armed {:?} has been left",
                event.name.as_str()
            ));
        }
        Origin::Timer { .. } | Origin::Posted => {}
    }
    if event.name.is_end() {
        return end_by_request(state, event, now, machine.starts_children());
    }
    let Some(alternatives) = machine.alternatives(&state.state, &event.name) else {
        return unhandled(machine, state, event);
    };
    let scope = Scope {
        context: &state.context,
        event: EventScope { name: event.name.as_str(), payload: &event.payload, time: event.accepted_at },
        now: at,
        results: &NO_RESULTS,
        response: None,
        budget,
    };
    for (branch, (alternative, handler)) in alternatives.into_iter().enumerate() {
        match holds(handler, &scope) {
            Ok(false) => {}
            Ok(true) => {
                return apply(machine, state, event, &scope, Chosen { branch, alternative, handler })
                    .unwrap_or_else(rejected);
            }
            Err(reason) => {
                return rejected(format!(
                    "the condition of {:?}[{branch}] in state {:?} failed: {reason}",
                    event.name.as_str(),
                    state.state.as_str()
                ));
            }
        }
    }
    rejected(format!("no condition of {:?} holds in state {:?}", event.name.as_str(), state.state.as_str()))
}

/// Ends an active execution by request (cancel or fail): the only decision that needs no definition.
pub(super) fn end_by_request(
    state: &State,
    event: &Waiting,
    now: Timestamp,
    may_have_children: bool,
) -> Outcome {
    let phase = if event.name == Name::fail() { Phase::Failed } else { Phase::Cancelled };
    end(state, event, now.max(state.at), phase, given_reason(&event.payload), may_have_children)
}

fn rejected(reason: impl Into<String>) -> Outcome {
    Outcome::Rejected { reason: reason.into() }
}

fn unhandled(machine: &Machine, state: &State, event: &Waiting) -> Outcome {
    if machine.handles(&state.state, &event.name) {
        return Outcome::Deferred;
    }
    rejected(format!("state {:?} does not handle {:?}", state.state.as_str(), event.name.as_str()))
}

fn holds(handler: &Handler, scope: &Scope<'_>) -> Result<bool, String> {
    let Some(guard) = &handler.guard else { return Ok(true) };
    match guard.evaluate(scope) {
        Ok(Value::Bool(truth)) => Ok(truth),
        Ok(other) => Err(format!("true or false is needed, not {}", other.kind())),
        Err(error) => Err(error.to_string()),
    }
}

/// The selected alternative.
struct Chosen<'a> {
    branch: usize,
    alternative: &'a Alternative,
    handler: &'a Handler,
}

fn apply(
    machine: &Machine,
    state: &State,
    event: &Waiting,
    scope: &Scope<'_>,
    chosen: Chosen<'_>,
) -> Result<Outcome, String> {
    let set = changes(state, scope, chosen.handler)?;
    let seq = state.seq.next();
    let (to, entered) = match &chosen.alternative.to {
        Some(to) => (to, Entry::Entered),
        None => (&state.state, Entry::Stayed),
    };
    let phase = match entered {
        Entry::Entered => phase_of(machine, to),
        Entry::Stayed => state.phase,
    };
    let tells_parent = phase.is_ended() && state.parent.is_some();
    let is_read = !chosen.alternative.actions.is_empty() || machine.correlate().is_some() || tells_parent;
    let after = if !set.is_empty() && is_read {
        let mut context = state.context.clone();
        context.extend(set.iter().map(|(key, value)| (key.clone(), value.clone())));
        Cow::Owned(context)
    } else {
        Cow::Borrowed(&state.context)
    };
    let correlation = if set.is_empty() { None } else { correlation(machine, &after, scope.budget)? };
    let mut actions = plan(machine, &chosen.alternative.actions, &Scope { context: &after, ..*scope })
        .map_err(|error| error.to_string())?;
    if tells_parent || (phase.is_ended() && machine.starts_children()) {
        let ended =
            State { phase, state: to.clone(), context: after.into_owned(), reason: None, ..state.clone() };
        at_the_end(&ended, &mut actions, machine.starts_children());
    }
    let decision = Decision {
        format: FORMAT,
        branch: u32::try_from(chosen.branch).unwrap_or(u32::MAX),
        from: Some(state.state.clone()),
        to: to.clone(),
        entered,
        set,
        phase,
        reason: None,
        timers: match entered {
            Entry::Entered => arm(machine, to, seq, scope.now),
            Entry::Stayed => Vec::new(),
        },
        actions: chosen.alternative.actions.clone(),
        parent: None,
        correlation: correlation.filter(|found| state.correlation.as_ref() != Some(found)),
        graph: None,
    };
    Ok(applied(seq, event, scope.now, decision, actions))
}

fn applied(
    seq: Seq,
    event: &Waiting,
    at: Timestamp,
    decision: Decision,
    actions: Vec<PlannedAction>,
) -> Outcome {
    let transition = Transition { seq, event_id: event.event_id, name: event.name.clone(), at, decision };
    Outcome::Applied(Box::new(Applied { transition, actions }))
}

/// Evaluates `set`. All values read the context before the transition; the new context is limited in size.
fn changes(state: &State, scope: &Scope<'_>, handler: &Handler) -> Result<Context, String> {
    let mut set = Context::new();
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
fn end(
    state: &State,
    event: &Waiting,
    at: Timestamp,
    phase: Phase,
    reason: Option<String>,
    may_have_children: bool,
) -> Outcome {
    let decision = Decision {
        format: FORMAT,
        branch: 0,
        from: Some(state.state.clone()),
        to: state.state.clone(),
        entered: Entry::Stayed,
        set: Context::new(),
        phase,
        reason,
        timers: Vec::new(),
        actions: Vec::new(),
        parent: None,
        correlation: None,
        graph: None,
    };
    let after = State { phase, reason: decision.reason.clone(), ..state.clone() };
    let mut actions = Vec::new();
    at_the_end(&after, &mut actions, may_have_children);
    applied(state.seq.next(), event, at, decision, actions)
}

fn timed_out(machine: &Machine) -> String {
    match machine.definition().timeout() {
        Some(timeout) => format!("timed out after {}", crate::duration::format(timeout)),
        None => "timed out".to_owned(),
    }
}

pub(crate) fn given_reason(payload: &RawJson) -> Option<String> {
    #[derive(Deserialize)]
    struct Given {
        reason: Option<String>,
    }
    const LONGEST: usize = 1_000;
    let given: Given = payload.decode().ok()?;
    given.reason.map(|reason| reason.chars().take(LONGEST).collect())
}

/// The phase after entering a state.
pub(super) fn phase_of(machine: &Machine, state: &Name) -> Phase {
    match machine.definition().states().get(state).map(|state| state.kind) {
        Some(StateKind::Final(Ending::Completed)) => Phase::Completed,
        Some(StateKind::Final(Ending::Failed)) => Phase::Failed,
        Some(StateKind::Working) | None => Phase::Active,
    }
}

/// The timers that are armed on entering a state.
pub(super) fn arm(machine: &Machine, state: &Name, seq: Seq, at: Timestamp) -> Vec<ArmedTimer> {
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
