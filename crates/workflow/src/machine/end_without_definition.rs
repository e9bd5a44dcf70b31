//! Decisions for an execution whose definition this build cannot compile: its end by request.
//!
//! A cancellation needs only the state, and events after the end are rejected whatever the definition says.
//! All other events wait for a build that can compile the definition. As in a pause, earlier events do not
//! block the cancellation.

use millstream_model::time::Timestamp;

use super::evolve::fold_transition;
use super::mailbox_visit::ENDED;
use super::step::end_by_request;
use crate::log::{EventOutcome, ExecutionState, MailboxEvent, MailboxState, VisitDecisions};

/// Decides the first cancellation in the mailbox, if the execution has not ended, and rejects the other
/// events once it has. Returns no outcomes if nothing can be decided.
pub fn decide_without_definition(
    mut state: ExecutionState,
    mailbox: &[MailboxEvent],
    now: Timestamp,
) -> VisitDecisions {
    let mut outcomes = Vec::new();
    if !state.phase.is_ended() {
        let is_end = |event: &&MailboxEvent| event.kept == MailboxState::Undecided && event.name.is_end();
        let Some(event) = mailbox.iter().find(is_end) else {
            return VisitDecisions { outcomes, state, unfinished: None };
        };
        // The definition is unreadable, so assume that it may have started children.
        let outcome = end_by_request(&state, event, now, true);
        match &outcome {
            EventOutcome::Applied(applied) => fold_transition(&mut state, &applied.transition),
            EventOutcome::Rejected { .. } | EventOutcome::Deferred => {}
        }
        outcomes.push((event.event_id, outcome));
    }
    let decided: Vec<_> = outcomes.iter().map(|(event_id, _)| *event_id).collect();
    let late = mailbox.iter().filter(|event| !decided.contains(&event.event_id));
    outcomes.extend(late.map(|event| (event.event_id, EventOutcome::Rejected { reason: ENDED.to_owned() })));
    VisitDecisions { outcomes, state, unfinished: None }
}
