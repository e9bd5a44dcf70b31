//! The fold: what a transition makes of a state.
//!
//! Total and without judgement. It evaluates nothing and refuses nothing, so that a log written by any
//! earlier build folds to the same state for ever.

use crate::log::{Entry, FORMAT, State, Transition};

/// The state after `transition`. `None` before creation.
pub fn evolve(state: Option<State>, transition: &Transition) -> State {
    let decision = &transition.decision;
    let (entered_seq, mut context) = match state {
        None => (transition.seq, Default::default()),
        Some(state) => (state.entered_seq, state.context),
    };
    for (key, value) in &decision.set {
        context.insert(key.clone(), value.clone());
    }
    State {
        format: FORMAT,
        seq: transition.seq,
        state: decision.to.clone(),
        entered_seq: match decision.entered {
            Entry::Entered => transition.seq,
            Entry::Stayed => entered_seq,
        },
        phase: decision.phase,
        reason: decision.reason.clone(),
        context,
        at: transition.at,
    }
}
