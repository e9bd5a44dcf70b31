//! Operator commands on a run, and pre-emption by a run of higher priority.

use millstream_model::id::RunId;

use super::refusal::{RunRefusal, RunRefusalReason};
use super::run::WaitingAction;
use super::seat::{SeatFailure, SeatFailureKind, SeatLossReason, SeatState};
use super::status::SeatStatus;
use super::step::{RunLogDetails, RunStepEffect, RunStepResult, RunStepper};
use super::table;

impl RunStepper<'_> {
    pub(super) fn pause_run(&mut self) -> RunStepResult {
        let status = self.check_run()?;
        if self.run.is_paused() {
            return Ok(RunStepEffect::Already);
        }
        self.run.paused_at = Some(self.now);
        self.write_log(self.word, None, status, status, RunLogDetails::default());
        Ok(RunStepEffect::Changed)
    }

    /// The timeouts of devices that were asked, or have not begun, start over.
    pub(super) fn resume_run(&mut self) -> RunStepResult {
        let status = self.check_run()?;
        if !self.run.is_paused() {
            return Ok(RunStepEffect::Already);
        }
        self.run.paused_at = None;
        let now = self.now;
        for seat in &mut self.run.seats {
            match &mut seat.state {
                SeatState::Assigned { asked_at: from, .. }
                | SeatState::Claimed { counted_from: from, .. } => *from = now,
                SeatState::Created
                | SeatState::Processing { .. }
                | SeatState::Reassigning { .. }
                | SeatState::Completed { .. }
                | SeatState::Failed { .. } => {}
            }
        }
        self.write_log(self.word, None, status, status, RunLogDetails::default());
        Ok(RunStepEffect::Changed)
    }

    pub(super) fn cancel_run(&mut self, reason: Option<&str>) -> RunStepResult {
        let was_cancelled = self.run.seats.iter().any(|seat| match &seat.state {
            SeatState::Failed { failure, .. } => failure.kind == SeatFailureKind::Cancelled,
            SeatState::Created
            | SeatState::Assigned { .. }
            | SeatState::Claimed { .. }
            | SeatState::Processing { .. }
            | SeatState::Reassigning { .. }
            | SeatState::Completed { .. } => false,
        });
        if was_cancelled {
            return Ok(RunStepEffect::Already);
        }
        self.check_run()?;
        let message = reason.unwrap_or("cancelled").to_owned();
        for number in self.seats_where(|status| !status.is_ended()) {
            let line = self
                .record_former_holder(number, SeatLossReason::Released, Some(message.clone()))
                .unwrap_or_default();
            let failure =
                SeatFailure { kind: SeatFailureKind::Cancelled, message: message.clone(), class: None };
            self.end_seat(self.word, number, failure, line);
        }
        Ok(RunStepEffect::Changed)
    }

    /// Completed seats stay completed; the others start over, and every device may be asked.
    pub(super) fn retry_run(&mut self) -> RunStepResult {
        self.check_run()?;
        if let Some(waiting) = &self.run.waiting {
            return Err(self.refuse_input(None, RunRefusalReason::BelongsTo(waiting.key.execution.clone())));
        }
        self.restart_run();
        Ok(RunStepEffect::Changed)
    }

    fn restart_run(&mut self) {
        for number in self.seats_where(|status| status == SeatStatus::Failed) {
            self.enter_state(
                number,
                SeatState::Reassigning { since: self.now, rest_until: None },
                RunLogDetails::default(),
            );
            if let Some(seat) = self.run.seats.get_mut(usize::from(number)) {
                seat.passed_over.clear();
                (seat.reassignments, seat.rounds, seat.waits) = (0, 0, 0);
            }
        }
    }

    pub(super) fn adopt_lease(&mut self, waiting: &WaitingAction) -> RunStepResult {
        let status = self.check_run()?;
        match &self.run.waiting {
            Some(known) if known == waiting => return Ok(RunStepEffect::Already),
            Some(known) if known.key != waiting.key => {
                return Err(self.refuse_input(None, RunRefusalReason::BelongsTo(known.key.execution.clone())));
            }
            Some(known) if known.epoch > waiting.epoch => {
                return Err(self.refuse_input(None, RunRefusalReason::StaleToken));
            }
            Some(_) => {}
            None => return Err(self.refuse_input(None, RunRefusalReason::NotNow)),
        }
        self.run.waiting = Some(waiting.clone());
        if status == SeatStatus::Failed {
            self.restart_run();
        } else {
            self.write_log(self.word, None, status, status, RunLogDetails::default());
        }
        Ok(RunStepEffect::Changed)
    }

    pub(super) fn preempt_seat(&mut self, number: u16, by: &RunId, priority: i32) -> RunStepResult {
        self.check_seat(number)?;
        if priority <= self.run.priority {
            return Err(self.refuse_input(Some(number), RunRefusalReason::NotHigher));
        }
        self.end_assignment(
            number,
            SeatLossReason::Preempted,
            Some(format!("for {by}, which has priority {priority}")),
        );
        Ok(RunStepEffect::Changed)
    }

    /// Checks that the table permits the input in the status of the run.
    fn check_run(&self) -> Result<SeatStatus, RunRefusal> {
        let status = self.run.status();
        if table::is_legal(status, self.word) {
            Ok(status)
        } else {
            Err(self.refuse_input(None, RunRefusalReason::NotNow))
        }
    }

    fn seats_where(&self, meant: impl Fn(SeatStatus) -> bool) -> Vec<u16> {
        let seats = self.run.numbered_seats().filter(|(_, seat)| meant(seat.status()));
        seats.map(|(number, _)| number).collect()
    }
}
