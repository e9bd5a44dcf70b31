//! Offline claims: a device continued while disconnected and returns with the token of its former assignment.
//!
//! Device clocks are ignored. The order of token assignment by the store decides: a claim made online since
//! then wins; between two offline claims the one with the earlier token wins, in whichever order they are
//! submitted.

use super::device_acts::claimed_state;
use super::input::SeatAct;
use super::refusal::RunRefusalReason;
use super::seat::{SeatLossReason, SeatState};
use super::step::{RunLogDetails, RunStepEffect, RunStepResult, RunStepper};

impl RunStepper<'_> {
    pub(super) fn claim_offline(&mut self, act: &SeatAct) -> RunStepResult {
        let seat = self.check_seat(act.seat)?;
        if let Some(held) = seat.current_holding()
            && (&held.device, held.token) == (&act.device, act.token)
        {
            // The device still holds the seat.
            return match &seat.state {
                SeatState::Assigned { .. } => {
                    self.claim_seat(act.seat, None);
                    Ok(RunStepEffect::Changed)
                }
                SeatState::Created
                | SeatState::Claimed { .. }
                | SeatState::Processing { .. }
                | SeatState::Reassigning { .. }
                | SeatState::Completed { .. }
                | SeatState::Failed { .. } => Ok(RunStepEffect::Already),
            };
        }
        let former = seat.previous.iter().find(|one| one.device == act.device && one.token == act.token);
        let Some(former) = former else {
            return Err(self.refuse_input(Some(act.seat), RunRefusalReason::StaleToken));
        };
        match former.reason {
            SeatLossReason::Timeout | SeatLossReason::Heartbeat | SeatLossReason::Gone => {}
            // The device gave the seat up itself, or has been notified of the loss.
            SeatLossReason::Declined
            | SeatLossReason::Failed
            | SeatLossReason::Released
            | SeatLossReason::Preempted
            | SeatLossReason::Superseded => {
                return Err(self.refuse_input(Some(act.seat), RunRefusalReason::StaleToken));
            }
        }
        match &seat.state {
            SeatState::Claimed { held, offline: Some(token), .. }
            | SeatState::Processing { held, offline: Some(token), .. } => {
                if (&held.device, *token) == (&act.device, act.token) {
                    return Ok(RunStepEffect::Already);
                }
                if *token <= act.token {
                    return Err(self.refuse_input(Some(act.seat), RunRefusalReason::Release));
                }
            }
            SeatState::Claimed { offline: None, .. } | SeatState::Processing { offline: None, .. } => {
                return Err(self.refuse_input(Some(act.seat), RunRefusalReason::Release));
            }
            SeatState::Created
            | SeatState::Assigned { .. }
            | SeatState::Reassigning { .. }
            | SeatState::Completed { .. }
            | SeatState::Failed { .. } => {}
        }
        if self.run.is_paused() {
            return Err(self.refuse_input(Some(act.seat), RunRefusalReason::Paused));
        }
        let other = self.run.seat_of_device(&act.device).is_some_and(|number| number != act.seat);
        if other {
            return Err(self.refuse_input(Some(act.seat), RunRefusalReason::OnAnotherSeat));
        }
        let why = format!("{} had an earlier assignment and was disconnected", act.device);
        self.end_assignment(act.seat, SeatLossReason::Superseded, Some(why));
        let mut held = self.issue_token(&act.device);
        held.by = None;
        self.reset_rests(act.seat);
        let line = RunLogDetails::of_holding(&held);
        self.enter_state(act.seat, claimed_state(held, self.now, Some(act.token)), line);
        Ok(RunStepEffect::Changed)
    }
}
