//! One visit to a graph's mailbox. Graphs defer nothing: every event is decided in order.

use std::collections::VecDeque;

use millstream_model::status::{ExecutionStatus, PauseState};
use millstream_model::time::Timestamp;

use super::step::step_graph_within;
use crate::log::{EventOutcome, ExecutionState, MailboxEvent, VisitDecisions};
use crate::machine::fold_transition;
use crate::visit_limits::{VisitEffort, VisitLimits};

/// Decides a slice of a mailbox, in order. While the graph is paused, only its cancellation is decided, and
/// after that all the rest.
pub fn decide_mailbox(
    state: ExecutionState,
    mailbox: &[MailboxEvent],
    pause: PauseState,
    now: Timestamp,
) -> VisitDecisions {
    decide_mailbox_within(state, mailbox, pause, now, VisitLimits::NONE)
}

/// Like [`decide_mailbox`], within limits that may end it early.
pub fn decide_mailbox_within(
    mut state: ExecutionState,
    mailbox: &[MailboxEvent],
    pause: PauseState,
    now: Timestamp,
    limits: VisitLimits<'_>,
) -> VisitDecisions {
    let mut waiting: VecDeque<&MailboxEvent> = mailbox.iter().collect();
    match ExecutionStatus::of_phase(state.phase, pause) {
        ExecutionStatus::Paused => {
            let end = waiting.iter().position(|event| event.name.is_end());
            let Some(event) = end.and_then(|at| waiting.remove(at)) else {
                return VisitDecisions { outcomes: Vec::new(), state, unfinished: None };
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
        let decided =
            effort.decide_event(event.event_id, |budget| step_graph_within(&state, event, now, budget));
        let Some(outcome) = decided else { break };
        match &outcome {
            EventOutcome::Applied(applied) => fold_transition(&mut state, &applied.transition),
            EventOutcome::Rejected { .. } | EventOutcome::Deferred => {}
        }
        outcomes.push((event.event_id, outcome));
    }
    VisitDecisions { outcomes, state, unfinished: effort.unfinished_reason() }
}
