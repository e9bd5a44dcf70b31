//! Re-decides a graph's history, to detect decisions that this build would make differently.
//!
//! The counterpart of [`machine::redecide`](crate::machine::redecide): each step starts from the recorded
//! state, so that one difference does not cause the next.

use super::create::create;
use super::step::step;
use crate::log::{Decision, Outcome, State};
use crate::machine::{Difference, Recorded, compare, evolve};

/// Compares a whole history, from seq 1 on.
pub fn redecide(history: &[Recorded]) -> Vec<Difference> {
    let mut differences = Vec::new();
    let mut state: Option<State> = None;
    for recorded in history {
        match decide(state.as_ref(), recorded) {
            Ok(decision) => compare(recorded, &decision, &mut differences),
            Err(reason) => differences.push(Difference::not_applied(recorded, reason)),
        }
        state = Some(evolve(state, &recorded.transition));
    }
    differences
}

fn decide(state: Option<&State>, recorded: &Recorded) -> Result<Decision, String> {
    let transition = &recorded.transition;
    let Some(state) = state else {
        let created = transition.decision.graph.as_ref().and_then(|change| change.created.as_deref());
        let created = created.cloned().ok_or("rejected: there is no graph")?;
        let parent = transition.decision.parent.clone();
        return create(created.graph, created.creator, transition.event_id, parent, transition.at)
            .map(|(applied, _)| applied.transition.decision)
            .map_err(|invalid| format!("rejected: {invalid}"));
    };
    match step(state, &recorded.event(), transition.at) {
        Outcome::Applied(applied) => Ok(applied.transition.decision),
        Outcome::Rejected { reason } => Err(format!("rejected: {reason}")),
        Outcome::Deferred => Err("deferred".to_owned()),
    }
}
