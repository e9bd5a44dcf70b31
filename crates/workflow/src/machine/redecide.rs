//! Re-decision of history: compares the decisions of this build with the recorded ones.
//!
//! Replay never does this. An operator runs it before an upgrade, and the result is a list of differences;
//! each step starts from the recorded state, so one difference does not cause the next.

use millstream_expr::ExprBudget;
use millstream_model::id::{AcceptNo, Name, Seq};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;

use super::compile::Machine;
use super::create::create_execution_within;
use super::evolve::evolve;
use super::step::step;
use crate::log::{
    ArmedTimer, EventOrigin, EventOutcome, ExecutionState, MailboxEvent, MailboxState, Transition,
    TransitionDecision,
};

/// An applied event from the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedTransition {
    pub transition: Transition,
    pub payload: RawJson,
    /// `event.time`.
    pub accepted_at: Timestamp,
}

/// One difference between the recorded and the new decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionDifference {
    pub seq: Seq,
    /// The part of the decision: `branch`, `to`, `set` and so on, or `outcome` if this build would not apply
    /// the event.
    pub part: &'static str,
    pub recorded: String,
    pub decided: String,
}

impl RecordedTransition {
    /// The event as it was in the mailbox, as far as the decision depends on it.
    pub(crate) fn to_mailbox_event(&self) -> MailboxEvent {
        let transition = &self.transition;
        // An applied timer event was not stale, so only the execution timeout needs its origin.
        let origin = if transition.name == Name::timeout_event() {
            EventOrigin::Timer { armed_seq: ArmedTimer::EXECUTION_TIMEOUT }
        } else {
            EventOrigin::Posted
        };
        MailboxEvent {
            event_id: transition.event_id,
            accept_no: AcceptNo(0),
            name: transition.name.clone(),
            payload: self.payload.clone(),
            accepted_at: self.accepted_at,
            origin,
            kept: MailboxState::Undecided,
            attempts: 0,
            traceparent: None,
        }
    }
}

impl DecisionDifference {
    pub(crate) fn not_applied(recorded: &RecordedTransition, reason: String) -> Self {
        let seq = recorded.transition.seq;
        Self { seq, part: "outcome", recorded: "applied".to_owned(), decided: reason }
    }
}

/// Re-decides a whole history, starting at seq 1.
pub fn redecide_history(machine: &Machine, history: &[RecordedTransition]) -> Vec<DecisionDifference> {
    let mut differences = Vec::new();
    let mut state: Option<ExecutionState> = None;
    for recorded in history {
        match decide_recorded(machine, state.as_ref(), recorded) {
            Ok(decision) => compare_decisions(recorded, &decision, &mut differences),
            Err(reason) => differences.push(DecisionDifference::not_applied(recorded, reason)),
        }
        state = Some(evolve(state, &recorded.transition));
    }
    differences
}

fn decide_recorded(
    machine: &Machine,
    state: Option<&ExecutionState>,
    recorded: &RecordedTransition,
) -> Result<TransitionDecision, String> {
    let transition = &recorded.transition;
    let Some(state) = state else {
        let parent = transition.decision.parent.clone();
        let (payload, budget) = (&recorded.payload, ExprBudget::default());
        return create_execution_within(
            machine,
            transition.event_id,
            payload,
            parent,
            transition.at,
            &budget,
        )
        .map(|(applied, _)| applied.transition.decision)
        .map_err(|rejection| format!("rejected: {rejection}"));
    };
    match step(machine, state, &recorded.to_mailbox_event(), transition.at) {
        EventOutcome::Applied(applied) => Ok(applied.transition.decision),
        EventOutcome::Rejected { reason } => Err(format!("rejected: {reason}")),
        EventOutcome::Deferred => Err("deferred".to_owned()),
    }
}

pub(crate) fn compare_decisions(
    recorded: &RecordedTransition,
    decided: &TransitionDecision,
    differences: &mut Vec<DecisionDifference>,
) {
    let was = &recorded.transition.decision;
    let mut part = |part: &'static str, recorded_text: String, decided_text: String| {
        if recorded_text != decided_text {
            differences.push(DecisionDifference {
                seq: recorded.transition.seq,
                part,
                recorded: recorded_text,
                decided: decided_text,
            });
        }
    };
    part("branch", was.branch.to_string(), decided.branch.to_string());
    part("from", json_text(&was.from), json_text(&decided.from));
    part("to", json_text(&was.to), json_text(&decided.to));
    part("entered", json_text(&was.entered), json_text(&decided.entered));
    part("set", json_text(&was.set), json_text(&decided.set));
    part("phase", json_text(&was.phase), json_text(&decided.phase));
    part("reason", json_text(&was.reason), json_text(&decided.reason));
    part("timers", json_text(&was.timers), json_text(&decided.timers));
    part("actions", json_text(&was.actions), json_text(&decided.actions));
    part("graph", json_text(&was.graph), json_text(&decided.graph));
}

fn json_text<T: serde::Serialize>(value: &T) -> String {
    RawJson::from_value(value).as_str().to_owned()
}
