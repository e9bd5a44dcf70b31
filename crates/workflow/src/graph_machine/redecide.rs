//! Re-decides a graph's history, to detect decisions that this build would make differently.
//!
//! The counterpart of [`machine::redecide_graph`](crate::machine::redecide_history): each step starts from the recorded
//! state, so that one difference does not cause the next.

use super::create::create_graph;
use super::step::step_graph;
use crate::log::{EventOutcome, ExecutionState, TransitionDecision};
use crate::machine::{DecisionDifference, RecordedTransition, compare_decisions, evolve};

/// Compares a whole history, from seq 1 on.
pub fn redecide_graph(history: &[RecordedTransition]) -> Vec<DecisionDifference> {
    let mut differences = Vec::new();
    let mut state: Option<ExecutionState> = None;
    for recorded in history {
        match decide_recorded(state.as_ref(), recorded) {
            Ok(decision) => compare_decisions(recorded, &decision, &mut differences),
            Err(reason) => differences.push(DecisionDifference::not_applied(recorded, reason)),
        }
        state = Some(evolve(state, &recorded.transition));
    }
    differences
}

fn decide_recorded(
    state: Option<&ExecutionState>,
    recorded: &RecordedTransition,
) -> Result<TransitionDecision, String> {
    let transition = &recorded.transition;
    let Some(state) = state else {
        let created = transition.decision.graph.as_ref().and_then(|change| change.created.as_deref());
        let created = created.cloned().ok_or("rejected: there is no graph")?;
        let parent = transition.decision.parent.clone();
        return create_graph(created.graph, created.creator, transition.event_id, parent, transition.at)
            .map(|(applied, _)| applied.transition.decision)
            .map_err(|invalid| format!("rejected: {invalid}"));
    };
    match step_graph(state, &recorded.to_mailbox_event(), transition.at) {
        EventOutcome::Applied(applied) => Ok(applied.transition.decision),
        EventOutcome::Rejected { reason } => Err(format!("rejected: {reason}")),
        EventOutcome::Deferred => Err("deferred".to_owned()),
    }
}
