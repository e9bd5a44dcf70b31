//! Offline claims: a device continued while disconnected and returns with the token of its former assignment.
//!
//! Device clocks are ignored. The order of token assignment by the store decides: a claim made online since
//! then wins; between two offline claims the one with the earlier token wins, in whichever order they are
//! submitted.

use super::acts::claimed;
use super::input::Act;
use super::refusal::Why;
use super::seat::{Ended, SeatState};
use super::step::{Done, Line, Step, Stepping};

impl Stepping<'_> {
    pub(super) fn offline_claim(&mut self, act: &Act) -> Step {
        let seat = self.check(act.seat)?;
        if let Some(held) = seat.held()
            && (&held.device, held.token) == (&act.device, act.token)
        {
            // The device still holds the seat.
            return match &seat.state {
                SeatState::Assigned { .. } => {
                    self.claim(act.seat, None);
                    Ok(Done::Changed)
                }
                SeatState::Created
                | SeatState::Claimed { .. }
                | SeatState::Processing { .. }
                | SeatState::Reassigning { .. }
                | SeatState::Completed { .. }
                | SeatState::Failed { .. } => Ok(Done::Already),
            };
        }
        let former = seat.previous.iter().find(|one| one.device == act.device && one.token == act.token);
        let Some(former) = former else { return Err(self.refuse(Some(act.seat), Why::StaleToken)) };
        match former.reason {
            Ended::Timeout | Ended::Heartbeat | Ended::Gone => {}
            // The device gave the seat up itself, or has been notified of the loss.
            Ended::Declined | Ended::Failed | Ended::Released | Ended::Preempted | Ended::Superseded => {
                return Err(self.refuse(Some(act.seat), Why::StaleToken));
            }
        }
        match &seat.state {
            SeatState::Claimed { held, offline: Some(token), .. }
            | SeatState::Processing { held, offline: Some(token), .. } => {
                if (&held.device, *token) == (&act.device, act.token) {
                    return Ok(Done::Already);
                }
                if *token <= act.token {
                    return Err(self.refuse(Some(act.seat), Why::Release));
                }
            }
            SeatState::Claimed { offline: None, .. } | SeatState::Processing { offline: None, .. } => {
                return Err(self.refuse(Some(act.seat), Why::Release));
            }
            SeatState::Created
            | SeatState::Assigned { .. }
            | SeatState::Reassigning { .. }
            | SeatState::Completed { .. }
            | SeatState::Failed { .. } => {}
        }
        if self.run.is_paused() {
            return Err(self.refuse(Some(act.seat), Why::Paused));
        }
        let other = self.run.seat_of(&act.device).is_some_and(|number| number != act.seat);
        if other {
            return Err(self.refuse(Some(act.seat), Why::OnAnotherSeat));
        }
        let why = format!("{} had an earlier assignment and was disconnected", act.device);
        self.let_go(act.seat, Ended::Superseded, Some(why));
        let mut held = self.give(&act.device);
        held.by = None;
        self.reset_rests(act.seat);
        let line = Line::about(&held);
        self.enter(act.seat, claimed(held, self.now, Some(act.token)), line);
        Ok(Done::Changed)
    }
}
