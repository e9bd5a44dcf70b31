//! One visit to a graph's mailbox. Graphs defer nothing: every event is decided in order.

use std::collections::VecDeque;

use super::step::step_within;
use crate::effort::{VisitEffort, VisitLimits};
use crate::log::{Outcome, State, Turn, Waiting};
use crate::machine::fold;
use crate::status::{ExecutionStatus, PauseState};
use crate::time::Timestamp;

/// Decides a slice of a mailbox, in order. While the graph is paused, only its cancellation is decided, and
/// after that all the rest.
pub fn turn(state: State, mailbox: &[Waiting], pause: PauseState, now: Timestamp) -> Turn {
    turn_within(state, mailbox, pause, now, VisitLimits::NONE)
}

/// Like [`turn`], within limits that may end it early.
pub fn turn_within(
    mut state: State,
    mailbox: &[Waiting],
    pause: PauseState,
    now: Timestamp,
    limits: VisitLimits<'_>,
) -> Turn {
    let mut waiting: VecDeque<&Waiting> = mailbox.iter().collect();
    match ExecutionStatus::of(state.phase, pause) {
        ExecutionStatus::Paused => {
            let end = waiting.iter().position(|event| event.name.is_end());
            let Some(event) = end.and_then(|at| waiting.remove(at)) else {
                return Turn { outcomes: Vec::new(), state, unfinished: None };
            };
            waiting.push_front(event);
        }
        ExecutionStatus::Active
        | ExecutionStatus::Completed
        | ExecutionStatus::Failed
        | ExecutionStatus::Cancelled => {}
    }
    let mut outcomes = Vec::with_capacity(waiting.len());
    let mut effort = VisitEffort::new(limits);
    for event in waiting {
        if effort.has_ended() {
            break;
        }
        let decided = effort.decide(event.event_id, |budget| step_within(&state, event, now, budget));
        let Some(outcome) = decided else { break };
        match &outcome {
            Outcome::Applied(applied) => fold(&mut state, &applied.transition),
            Outcome::Rejected { .. } | Outcome::Deferred => {}
        }
        outcomes.push((event.event_id, outcome));
    }
    Turn { outcomes, state, unfinished: effort.unfinished() }
}
