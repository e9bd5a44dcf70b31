//! What can be decided about an execution whose definition this build cannot use: its end.
//!
//! A cancellation needs the state and nothing else, and what comes after the end is rejected whatever
//! the definition says. Everything else waits for somebody who can read the definition; events that
//! stand before the cancellation do not hold it up, as in a pause.

use super::evolve::fold;
use super::step::end_by_request;
use super::turn::ENDED;
use crate::log::{Kept, Outcome, State, Turn, Waiting};
use crate::time::Timestamp;

/// Decides the first cancellation in the mailbox, if the execution has not ended, and rejects the rest
/// once it has. Without outcomes there is nothing that can be decided.
pub fn closing(mut state: State, mailbox: &[Waiting], now: Timestamp) -> Turn {
    let mut outcomes = Vec::new();
    if !state.phase.is_ended() {
        let is_end = |event: &&Waiting| event.kept == Kept::Undecided && event.name.is_end();
        let Some(event) = mailbox.iter().find(is_end) else {
            return Turn { outcomes, state, unfinished: None };
        };
        // Nobody can read whether the definition starts children.
        let outcome = end_by_request(&state, event, now, true);
        match &outcome {
            Outcome::Applied(applied) => fold(&mut state, &applied.transition),
            Outcome::Rejected { .. } | Outcome::Deferred => {}
        }
        outcomes.push((event.event_id, outcome));
    }
    let decided: Vec<_> = outcomes.iter().map(|(event_id, _)| *event_id).collect();
    let late = mailbox.iter().filter(|event| !decided.contains(&event.event_id));
    outcomes.extend(late.map(|event| (event.event_id, Outcome::Rejected { reason: ENDED.to_owned() })));
    Turn { outcomes, state, unfinished: None }
}
