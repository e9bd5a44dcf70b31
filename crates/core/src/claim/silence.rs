//! Timeouts and lost devices, as found by the monitor.

use super::due::{Due, due_of};
use super::refusal::Why;
use super::seat::{Ended, SeatState};
use super::step::{Done, Line, Step, Stepping};
use crate::id::DeviceId;

impl Stepping<'_> {
    pub(super) fn assignment_timeout(&mut self, number: u16) -> Step {
        self.check_due(number, Due::AssignmentTimeout)?;
        self.let_go(number, Ended::Timeout, Some("no answer in time".to_owned()));
        Ok(Done::Changed)
    }

    pub(super) fn claim_expiry(&mut self, number: u16) -> Step {
        self.check_due(number, Due::ClaimExpiry)?;
        self.let_go(number, Ended::Timeout, Some("not begun in time".to_owned()));
        Ok(Done::Changed)
    }

    /// Valid only if no heartbeat arrives before the commit: see [`Change::unheard`](super::Change).
    pub(super) fn heartbeat_timeout(&mut self, number: u16) -> Step {
        let heard_at = self.check(number)?.heard_at();
        self.check_due(number, Due::HeartbeatTimeout)?;
        self.unheard.extend(heard_at.map(|at| (number, at)));
        let silent = heard_at.map(|at| format!("not heard of since {at}"));
        self.let_go(number, Ended::Heartbeat, silent);
        Ok(Done::Changed)
    }

    pub(super) fn backoff_over(&mut self, number: u16) -> Step {
        let since = match self.check(number)?.state {
            SeatState::Reassigning { since, .. } => since,
            SeatState::Created
            | SeatState::Assigned { .. }
            | SeatState::Claimed { .. }
            | SeatState::Processing { .. }
            | SeatState::Completed { .. }
            | SeatState::Failed { .. } => self.now,
        };
        self.check_due(number, Due::BackoffOver)?;
        let Some(seat) = self.run.seats.get_mut(usize::from(number)) else { return Ok(Done::Already) };
        let state = SeatState::Reassigning { since, rest_until: None };
        if seat.passed_over.is_empty() {
            seat.state = state;
        } else {
            seat.passed_over.clear();
            self.enter(number, state, Line::default());
        }
        Ok(Done::Changed)
    }

    pub(super) fn device_gone(&mut self, device: &DeviceId) -> Step {
        let has_it =
            self.run.numbered().find(|(_, seat)| seat.held().is_some_and(|held| held.device == *device));
        let Some((number, _)) = has_it else { return Err(self.refuse(None, Why::NotNow)) };
        self.check(number)?;
        self.let_go(number, Ended::Gone, Some("the device is no longer registered".to_owned()));
        Ok(Done::Changed)
    }

    fn check_due(&self, number: u16, what: Due) -> Step {
        self.check(number)?;
        let is_due = due_of(&self.run, number, what).is_some_and(|at| at <= self.now);
        if is_due {
            return Ok(Done::Changed);
        }
        let stands_still = self.run.is_paused() && what != Due::HeartbeatTimeout;
        Err(self.refuse(Some(number), if stands_still { Why::Paused } else { Why::NotDue }))
    }
}
