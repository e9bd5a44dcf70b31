//! Due times of a run: when the monitor must act on it.

use millstream_model::time::Timestamp;
use millstream_model::words;

use super::run::{RunAssignMode, RunRecord};
use super::seat::SeatState;

words! {
    /// The action that is due.
    SeatDue {
        /// A device is to be selected.
        Place = "place",
        AssignmentTimeout = "assignment_timeout",
        ClaimExpiry = "claim_expiry",
        HeartbeatTimeout = "heartbeat_timeout",
        BackoffOver = "backoff_over",
    }
}

/// The next due time of a seat, and its action. `None` if the run is paused, assigned manually or has ended;
/// the heartbeat timeout of a claim is watched in any case.
pub fn next_due(run: &RunRecord, seat: u16) -> Option<(Timestamp, SeatDue)> {
    let all = SeatDue::ALL.iter().filter_map(|what| Some((due_time_of(run, seat, *what)?, *what)));
    all.min()
}

/// All actions of a run that are due.
pub fn overdue_seats(run: &RunRecord, now: Timestamp) -> Vec<(u16, SeatDue)> {
    let seats = run.numbered_seats().map(|(number, _)| number);
    let next = seats.filter_map(|number| next_due(run, number).map(|(at, what)| (number, at, what)));
    next.filter(|(_, at, _)| *at <= now).map(|(number, _, what)| (number, what)).collect()
}

/// The due time of this action for a seat, if there is one.
pub fn due_time_of(run: &RunRecord, number: u16, what: SeatDue) -> Option<Timestamp> {
    let settings = &run.settings;
    let runs = !run.is_paused();
    let is_placed_here = runs && run.assign == RunAssignMode::Auto;
    match (&run.seat(number)?.state, what) {
        (SeatState::Created, SeatDue::Place) => is_placed_here.then_some(run.created_at),
        (SeatState::Assigned { asked_at, .. }, SeatDue::AssignmentTimeout) => {
            runs.then(|| asked_at.plus(settings.assignment_timeout))
        }
        (SeatState::Claimed { counted_from, .. }, SeatDue::ClaimExpiry) => {
            runs.then(|| counted_from.plus(settings.claim_timeout))
        }
        (
            SeatState::Claimed { heard_at, .. } | SeatState::Processing { heard_at, .. },
            SeatDue::HeartbeatTimeout,
        ) => Some(heard_at.plus(settings.heartbeat_timeout)),
        (SeatState::Reassigning { since, rest_until: None }, SeatDue::Place) => {
            is_placed_here.then_some(*since)
        }
        (SeatState::Reassigning { rest_until: Some(until), .. }, SeatDue::BackoffOver) => {
            is_placed_here.then_some(*until)
        }
        (
            SeatState::Created
            | SeatState::Assigned { .. }
            | SeatState::Claimed { .. }
            | SeatState::Processing { .. }
            | SeatState::Reassigning { .. }
            | SeatState::Completed { .. }
            | SeatState::Failed { .. },
            SeatDue::Place
            | SeatDue::AssignmentTimeout
            | SeatDue::ClaimExpiry
            | SeatDue::HeartbeatTimeout
            | SeatDue::BackoffOver,
        ) => None,
    }
}
