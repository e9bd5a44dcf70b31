//! Assignment of a free seat to a device, or a rest (backoff) if no device is viable.

use super::acts::claimed;
use super::choose::{Decision, Outlook};
use super::fit::Unfit;
use super::refusal::{Refusal, Why};
use super::row::Assign;
use super::seat::{Failure, SeatState};
use super::settings::Backoff;
use super::status::Status;
use super::step::{Done, Line, Step, Stepping};
use super::word::Word;
use crate::id::DeviceId;
use crate::raw::RawJson;

impl Stepping<'_> {
    pub(super) fn assign(&mut self, number: u16, device: &DeviceId, decision: Option<&Decision>) -> Step {
        let from = self.check(number)?.status();
        self.check_free(number, device)?;
        let held = self.give(device);
        let detail = decision.map(RawJson::of);
        let mut line = Line { detail, ..Line::about(&held) };
        let mut word = self.word;
        if from == Status::Created {
            self.line(word, Some(number), from, Status::AssigningToOther, line);
            (word, line) = (Word::Recorded, Line::about(&held));
        }
        self.enter_by(word, number, SeatState::Assigned { held, asked_at: self.now }, line);
        if from == Status::Created {
            self.passed_through(Status::AssigningToOther);
        }
        Ok(Done::Changed)
    }

    pub(super) fn self_claim(
        &mut self,
        seat: Option<u16>,
        device: &DeviceId,
        fitness: &Result<(), Unfit>,
        decision: Option<&Decision>,
    ) -> Step {
        let of_theirs = self.run.numbered().find(|(_, seat)| match &seat.state {
            SeatState::Claimed { held, .. } => held.device == *device,
            SeatState::Created
            | SeatState::Assigned { .. }
            | SeatState::Processing { .. }
            | SeatState::Reassigning { .. }
            | SeatState::Completed { .. }
            | SeatState::Failed { .. } => false,
        });
        if of_theirs.is_some_and(|(number, _)| seat.is_none_or(|asked| asked == number)) {
            return Ok(Done::Already);
        }
        let first_open = || self.run.numbered().find(|(_, seat)| seat.status().is_open());
        let number = seat.or_else(|| first_open().map(|(number, _)| number)).unwrap_or(0);
        let from = self.check(number)?.status();
        self.check_free(number, device)?;
        if let Err(unfit) = fitness {
            return Err(self.refuse(Some(number), Why::Unfit(unfit.clone())));
        }
        let mut held = self.give(device);
        held.by = None;
        let line = Line { detail: decision.map(RawJson::of), ..Line::about(&held) };
        self.line(self.word, Some(number), from, Status::AssigningToSelf, line);
        self.reset_rests(number);
        let line = Line::about(&held);
        self.enter_by(Word::Recorded, number, claimed(held, self.now, None), line);
        self.passed_through(Status::AssigningToSelf);
        Ok(Done::Changed)
    }

    /// Sets the origin of the last log entry to a status that is never stored.
    fn passed_through(&mut self, status: Status) {
        if let Some(last) = self.log.last_mut() {
            last.from = Some(status);
        }
    }

    /// Checks that the run is not paused and that the device has no other seat of it.
    fn check_free(&self, number: u16, device: &DeviceId) -> Result<(), Refusal> {
        if self.run.is_paused() {
            return Err(self.refuse(Some(number), Why::Paused));
        }
        if self.run.seat_of(device).is_some() {
            return Err(self.refuse(Some(number), Why::OnAnotherSeat));
        }
        Ok(())
    }

    pub(super) fn nobody_viable(
        &mut self,
        number: u16,
        outlook: Outlook,
        decision: Option<&Decision>,
    ) -> Step {
        self.check(number)?;
        if self.run.is_paused() {
            return Err(self.refuse(Some(number), Why::Paused));
        }
        if self.run.assign == Assign::Manual {
            return Err(self.refuse(Some(number), Why::Manual));
        }
        let backoff = self.run.settings.backoff;
        let now = self.now;
        let detail = decision.map(RawJson::of);
        let Some(seat) = self.run.seats.get_mut(usize::from(number)) else { return Ok(Done::Already) };
        let since = match &seat.state {
            SeatState::Reassigning { since, .. } => *since,
            SeatState::Created
            | SeatState::Assigned { .. }
            | SeatState::Claimed { .. }
            | SeatState::Processing { .. }
            | SeatState::Completed { .. }
            | SeatState::Failed { .. } => now,
        };
        let (rest, is_news) = match outlook {
            Outlook::Busy => {
                seat.waits = seat.waits.saturating_add(1);
                let rest = backoff.rest(seat.waits - 1).min(Backoff::LONGEST_WHILE_BUSY);
                // A seat that waits for hours gets one log line, not one per attempt; a new waiting period
                // gets its own.
                (rest, seat.waits == 1 || since == now)
            }
            Outlook::Declined | Outlook::Nobody if seat.rounds >= backoff.rounds => {
                let times = seat.rounds;
                let message = format!("no device is left: {outlook} after {times} rests");
                let line = Line { detail, ..Line::default() };
                self.fail_seat(Word::NobodyLeft, number, Failure::nobody_left(message), line);
                return Ok(Done::Changed);
            }
            Outlook::Declined | Outlook::Nobody => {
                seat.rounds += 1;
                (backoff.rest(seat.rounds - 1), true)
            }
        };
        let state = SeatState::Reassigning { since, rest_until: Some(now.plus(rest)) };
        if is_news {
            let line = Line { why: Some(outlook.to_string()), detail, ..Line::default() };
            self.enter(number, state, line);
        } else {
            seat.state = state;
        }
        Ok(Done::Changed)
    }
}
