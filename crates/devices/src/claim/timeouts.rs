//! Timeouts and lost devices, as found by the monitor.

use millstream_model::id::DeviceId;

use super::due::{SeatDue, due_time_of};
use super::refusal::RunRefusalReason;
use super::seat::{SeatLossReason, SeatState};
use super::step::{RunLogDetails, RunStepEffect, RunStepResult, RunStepper};

impl RunStepper<'_> {
    pub(super) fn expire_assignment(&mut self, number: u16) -> RunStepResult {
        self.check_due(number, SeatDue::AssignmentTimeout)?;
        self.end_assignment(number, SeatLossReason::Timeout, Some("no answer in time".to_owned()));
        Ok(RunStepEffect::Changed)
    }

    pub(super) fn expire_claim(&mut self, number: u16) -> RunStepResult {
        self.check_due(number, SeatDue::ClaimExpiry)?;
        self.end_assignment(number, SeatLossReason::Timeout, Some("not begun in time".to_owned()));
        Ok(RunStepEffect::Changed)
    }

    /// Valid only if no heartbeat arrives before the commit: see [`Change::unheard`](super::RunChange).
    pub(super) fn expire_heartbeat(&mut self, number: u16) -> RunStepResult {
        let heard_at = self.check_seat(number)?.heard_at();
        self.check_due(number, SeatDue::HeartbeatTimeout)?;
        self.unheard.extend(heard_at.map(|at| (number, at)));
        let silent = heard_at.map(|at| format!("not heard of since {at}"));
        self.end_assignment(number, SeatLossReason::Heartbeat, silent);
        Ok(RunStepEffect::Changed)
    }

    pub(super) fn end_backoff(&mut self, number: u16) -> RunStepResult {
        let since = match self.check_seat(number)?.state {
            SeatState::Reassigning { since, .. } => since,
            SeatState::Created
            | SeatState::Assigned { .. }
            | SeatState::Claimed { .. }
            | SeatState::Processing { .. }
            | SeatState::Completed { .. }
            | SeatState::Failed { .. } => self.now,
        };
        self.check_due(number, SeatDue::BackoffOver)?;
        let Some(seat) = self.run.seats.get_mut(usize::from(number)) else {
            return Ok(RunStepEffect::Already);
        };
        let state = SeatState::Reassigning { since, rest_until: None };
        if seat.passed_over.is_empty() {
            seat.state = state;
        } else {
            seat.passed_over.clear();
            self.enter_state(number, state, RunLogDetails::default());
        }
        Ok(RunStepEffect::Changed)
    }

    pub(super) fn lose_device(&mut self, device: &DeviceId) -> RunStepResult {
        let has_it = self
            .run
            .numbered_seats()
            .find(|(_, seat)| seat.current_holding().is_some_and(|held| held.device == *device));
        let Some((number, _)) = has_it else { return Err(self.refuse_input(None, RunRefusalReason::NotNow)) };
        self.check_seat(number)?;
        self.end_assignment(
            number,
            SeatLossReason::Gone,
            Some("the device is no longer registered".to_owned()),
        );
        Ok(RunStepEffect::Changed)
    }

    fn check_due(&self, number: u16, what: SeatDue) -> RunStepResult {
        self.check_seat(number)?;
        let is_due = due_time_of(&self.run, number, what).is_some_and(|at| at <= self.now);
        if is_due {
            return Ok(RunStepEffect::Changed);
        }
        let stands_still = self.run.is_paused() && what != SeatDue::HeartbeatTimeout;
        Err(self.refuse_input(
            Some(number),
            if stands_still { RunRefusalReason::Paused } else { RunRefusalReason::NotDue },
        ))
    }
}
