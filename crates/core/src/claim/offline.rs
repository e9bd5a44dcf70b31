//! A device was cut off, went on, and comes back with the token that it had.
//!
//! Clocks of devices say nothing. What counts is the order in which the store gave out tokens: a claim that
//! was made online since then stands; of two that were made while cut off the one with the earlier token
//! stands, whichever is submitted first.

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
            // It never lost it.
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
            // It gave it up itself, or has been told already.
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
        let why = format!("{} had been assigned earlier, and was cut off", act.device);
        self.let_go(act.seat, Ended::Superseded, Some(why));
        let mut held = self.give(&act.device);
        held.by = None;
        self.reset_rests(act.seat);
        let line = Line::about(&held);
        self.enter(act.seat, claimed(held, self.now, Some(act.token)), line);
        Ok(Done::Changed)
    }
}
