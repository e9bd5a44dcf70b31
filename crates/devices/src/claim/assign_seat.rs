//! Assignment of a free seat to a device, or a rest (backoff) if no device is viable.

use millstream_model::id::DeviceId;
use millstream_model::raw::RawJson;

use super::device_acts::claimed_state;
use super::eligibility::DeviceIneligibility;
use super::input_kind::RunInputKind;
use super::refusal::{RunRefusal, RunRefusalReason};
use super::run::RunAssignMode;
use super::seat::{SeatFailure, SeatState};
use super::select_device::{DeviceDecision, SeatOutlook};
use super::settings::SeatBackoff;
use super::status::SeatStatus;
use super::step::{RunLogDetails, RunStepEffect, RunStepResult, RunStepper};

impl RunStepper<'_> {
    pub(super) fn assign_device(
        &mut self,
        number: u16,
        device: &DeviceId,
        decision: Option<&DeviceDecision>,
    ) -> RunStepResult {
        let from = self.check_seat(number)?.status();
        self.check_free(number, device)?;
        let held = self.issue_token(device);
        let detail = decision.map(RawJson::from_value);
        let mut line = RunLogDetails { detail, ..RunLogDetails::of_holding(&held) };
        let mut word = self.word;
        if from == SeatStatus::Created {
            self.write_log(word, Some(number), from, SeatStatus::AssigningToOther, line);
            (word, line) = (RunInputKind::Recorded, RunLogDetails::of_holding(&held));
        }
        self.enter_state_by(word, number, SeatState::Assigned { held, asked_at: self.now }, line);
        if from == SeatStatus::Created {
            self.set_origin(SeatStatus::AssigningToOther);
        }
        Ok(RunStepEffect::Changed)
    }

    pub(super) fn self_claim(
        &mut self,
        seat: Option<u16>,
        device: &DeviceId,
        fitness: &Result<(), DeviceIneligibility>,
        decision: Option<&DeviceDecision>,
    ) -> RunStepResult {
        let of_theirs = self.run.numbered_seats().find(|(_, seat)| match &seat.state {
            SeatState::Claimed { held, .. } => held.device == *device,
            SeatState::Created
            | SeatState::Assigned { .. }
            | SeatState::Processing { .. }
            | SeatState::Reassigning { .. }
            | SeatState::Completed { .. }
            | SeatState::Failed { .. } => false,
        });
        if of_theirs.is_some_and(|(number, _)| seat.is_none_or(|asked| asked == number)) {
            return Ok(RunStepEffect::Already);
        }
        let first_open = || self.run.numbered_seats().find(|(_, seat)| seat.status().is_open());
        let number = seat.or_else(|| first_open().map(|(number, _)| number)).unwrap_or(0);
        let from = self.check_seat(number)?.status();
        self.check_free(number, device)?;
        if let Err(unfit) = fitness {
            return Err(self.refuse_input(Some(number), RunRefusalReason::Unfit(unfit.clone())));
        }
        let mut held = self.issue_token(device);
        held.by = None;
        let line =
            RunLogDetails { detail: decision.map(RawJson::from_value), ..RunLogDetails::of_holding(&held) };
        self.write_log(self.word, Some(number), from, SeatStatus::AssigningToSelf, line);
        self.reset_rests(number);
        let line = RunLogDetails::of_holding(&held);
        self.enter_state_by(RunInputKind::Recorded, number, claimed_state(held, self.now, None), line);
        self.set_origin(SeatStatus::AssigningToSelf);
        Ok(RunStepEffect::Changed)
    }

    /// Sets the origin of the last log entry to a status that is never stored.
    fn set_origin(&mut self, status: SeatStatus) {
        if let Some(last) = self.log.last_mut() {
            last.from = Some(status);
        }
    }

    /// Checks that the run is not paused and that the device has no other seat of it.
    fn check_free(&self, number: u16, device: &DeviceId) -> Result<(), RunRefusal> {
        if self.run.is_paused() {
            return Err(self.refuse_input(Some(number), RunRefusalReason::Paused));
        }
        if self.run.seat_of_device(device).is_some() {
            return Err(self.refuse_input(Some(number), RunRefusalReason::OnAnotherSeat));
        }
        Ok(())
    }

    pub(super) fn back_off(
        &mut self,
        number: u16,
        outlook: SeatOutlook,
        decision: Option<&DeviceDecision>,
    ) -> RunStepResult {
        self.check_seat(number)?;
        if self.run.is_paused() {
            return Err(self.refuse_input(Some(number), RunRefusalReason::Paused));
        }
        if self.run.assign == RunAssignMode::Manual {
            return Err(self.refuse_input(Some(number), RunRefusalReason::Manual));
        }
        let backoff = self.run.settings.backoff;
        let now = self.now;
        let detail = decision.map(RawJson::from_value);
        let Some(seat) = self.run.seats.get_mut(usize::from(number)) else {
            return Ok(RunStepEffect::Already);
        };
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
            SeatOutlook::Busy => {
                seat.waits = seat.waits.saturating_add(1);
                let rest = backoff.rest_after(seat.waits - 1).min(SeatBackoff::LONGEST_WHILE_BUSY);
                // A seat that waits for hours gets one log line, not one per attempt; a new waiting period
                // gets its own.
                (rest, seat.waits == 1 || since == now)
            }
            SeatOutlook::Declined | SeatOutlook::Nobody if seat.rounds >= backoff.rounds => {
                let times = seat.rounds;
                let message = format!("no device is left: {outlook} after {times} rests");
                let line = RunLogDetails { detail, ..RunLogDetails::default() };
                self.fail_seat(RunInputKind::NobodyLeft, number, SeatFailure::no_device_left(message), line);
                return Ok(RunStepEffect::Changed);
            }
            SeatOutlook::Declined | SeatOutlook::Nobody => {
                seat.rounds += 1;
                (backoff.rest_after(seat.rounds - 1), true)
            }
        };
        let state = SeatState::Reassigning { since, rest_until: Some(now.plus(rest)) };
        if is_news {
            let line = RunLogDetails { why: Some(outlook.to_string()), detail, ..RunLogDetails::default() };
            self.enter_state(number, state, line);
        } else {
            seat.state = state;
        }
        Ok(RunStepEffect::Changed)
    }
}
