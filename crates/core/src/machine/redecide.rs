//! Re-decision of history: compares the decisions of this build with the recorded ones.
//!
//! Replay never does this. An operator runs it before an upgrade, and the result is a list of differences;
//! each step starts from the recorded state, so one difference does not cause the next.

use super::compile::Machine;
use super::create::create_within;
use super::evolve::evolve;
use super::step::step;
use crate::expr::Budget;
use crate::id::{AcceptNo, Name, Seq};
use crate::log::{ArmedTimer, Decision, Kept, Origin, Outcome, State, Transition, Waiting};
use crate::raw::RawJson;
use crate::time::Timestamp;

/// An applied event from the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    pub transition: Transition,
    pub payload: RawJson,
    /// `event.time`.
    pub accepted_at: Timestamp,
}

/// One difference between the recorded and the new decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub seq: Seq,
    /// The part of the decision: `branch`, `to`, `set` and so on, or `outcome` if this build would not apply
    /// the event.
    pub part: &'static str,
    pub recorded: String,
    pub decided: String,
}

impl Recorded {
    /// The event as it was in the mailbox, as far as the decision depends on it.
    pub(crate) fn event(&self) -> Waiting {
        let transition = &self.transition;
        // An applied timer event was not stale, so only the execution timeout needs its origin.
        let origin = if transition.name == Name::timeout() {
            Origin::Timer { armed_seq: ArmedTimer::EXECUTION_TIMEOUT }
        } else {
            Origin::Posted
        };
        Waiting {
            event_id: transition.event_id,
            accept_no: AcceptNo(0),
            name: transition.name.clone(),
            payload: self.payload.clone(),
            accepted_at: self.accepted_at,
            origin,
            kept: Kept::Undecided,
            attempts: 0,
            traceparent: None,
        }
    }
}

impl Difference {
    pub(crate) fn not_applied(recorded: &Recorded, reason: String) -> Self {
        let seq = recorded.transition.seq;
        Self { seq, part: "outcome", recorded: "applied".to_owned(), decided: reason }
    }
}

/// Re-decides a whole history, starting at seq 1.
pub fn redecide(machine: &Machine, history: &[Recorded]) -> Vec<Difference> {
    let mut differences = Vec::new();
    let mut state: Option<State> = None;
    for recorded in history {
        match decide(machine, state.as_ref(), recorded) {
            Ok(decision) => compare(recorded, &decision, &mut differences),
            Err(reason) => differences.push(Difference::not_applied(recorded, reason)),
        }
        state = Some(evolve(state, &recorded.transition));
    }
    differences
}

fn decide(machine: &Machine, state: Option<&State>, recorded: &Recorded) -> Result<Decision, String> {
    let transition = &recorded.transition;
    let Some(state) = state else {
        let parent = transition.decision.parent.clone();
        let (payload, budget) = (&recorded.payload, Budget::default());
        return create_within(machine, transition.event_id, payload, parent, transition.at, &budget)
            .map(|(applied, _)| applied.transition.decision)
            .map_err(|rejection| format!("rejected: {rejection}"));
    };
    match step(machine, state, &recorded.event(), transition.at) {
        Outcome::Applied(applied) => Ok(applied.transition.decision),
        Outcome::Rejected { reason } => Err(format!("rejected: {reason}")),
        Outcome::Deferred => Err("deferred".to_owned()),
    }
}

pub(crate) fn compare(recorded: &Recorded, decided: &Decision, differences: &mut Vec<Difference>) {
    let was = &recorded.transition.decision;
    let mut part = |part: &'static str, recorded_text: String, decided_text: String| {
        if recorded_text != decided_text {
            differences.push(Difference {
                seq: recorded.transition.seq,
                part,
                recorded: recorded_text,
                decided: decided_text,
            });
        }
    };
    part("branch", was.branch.to_string(), decided.branch.to_string());
    part("from", json(&was.from), json(&decided.from));
    part("to", json(&was.to), json(&decided.to));
    part("entered", json(&was.entered), json(&decided.entered));
    part("set", json(&was.set), json(&decided.set));
    part("phase", json(&was.phase), json(&decided.phase));
    part("reason", json(&was.reason), json(&decided.reason));
    part("timers", json(&was.timers), json(&decided.timers));
    part("actions", json(&was.actions), json(&decided.actions));
    part("graph", json(&was.graph), json(&decided.graph));
}

fn json<T: serde::Serialize>(value: &T) -> String {
    RawJson::of(value).as_str().to_owned()
}
