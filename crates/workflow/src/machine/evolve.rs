//! The fold: applies a transition to a state.
//!
//! The fold is total. It evaluates nothing and refuses nothing, so that a log written by any earlier build
//! always folds to the same state.

use millstream_model::context::ExecutionContext;

use crate::graph;
use crate::log::{ExecutionState, FORMAT, StateEntry, Transition};

/// The state after `transition`; `state` is `None` before creation.
pub fn evolve(state: Option<ExecutionState>, transition: &Transition) -> ExecutionState {
    let mut state = state.unwrap_or_else(|| ExecutionState {
        format: FORMAT,
        seq: transition.seq,
        state: transition.decision.to.clone(),
        entered_seq: transition.seq,
        phase: transition.decision.phase,
        reason: None,
        context: ExecutionContext::new(),
        at: transition.at,
        parent: None,
        correlation: None,
        graph: None,
    });
    fold_transition(&mut state, transition);
    state
}

/// [`evolve`] in place.
pub(crate) fn fold_transition(state: &mut ExecutionState, transition: &Transition) {
    let decision = &transition.decision;
    state.format = FORMAT;
    state.seq = transition.seq;
    state.at = transition.at;
    state.state.clone_from(&decision.to);
    match decision.entered {
        StateEntry::Entered => state.entered_seq = transition.seq,
        StateEntry::Stayed => {}
    }
    state.phase = decision.phase;
    state.reason.clone_from(&decision.reason);
    for (key, value) in &decision.set {
        state.context.insert(key.clone(), value.clone());
    }
    if decision.parent.is_some() {
        state.parent.clone_from(&decision.parent);
    }
    if decision.correlation.is_some() {
        state.correlation.clone_from(&decision.correlation);
    }
    if let Some(change) = &decision.graph {
        graph::fold_change(&mut state.graph, change);
    }
}
