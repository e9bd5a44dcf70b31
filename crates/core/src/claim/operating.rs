//! Operator commands on a run, and pre-emption by a run of higher priority.

use super::refusal::{Refusal, Why};
use super::row::WaitingAction;
use super::seat::{Ended, Failure, FailureKind, SeatState};
use super::status::Status;
use super::step::{Done, Line, Step, Stepping};
use super::table;
use crate::id::RunId;

impl Stepping<'_> {
    pub(super) fn pause(&mut self) -> Step {
        let status = self.check_run()?;
        if self.run.is_paused() {
            return Ok(Done::Already);
        }
        self.run.paused_at = Some(self.now);
        self.line(self.word, None, status, status, Line::default());
        Ok(Done::Changed)
    }

    /// The timeouts of devices that were asked, or have not begun, start over.
    pub(super) fn resume(&mut self) -> Step {
        let status = self.check_run()?;
        if !self.run.is_paused() {
            return Ok(Done::Already);
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
        self.line(self.word, None, status, status, Line::default());
        Ok(Done::Changed)
    }

    pub(super) fn cancel(&mut self, reason: Option<&str>) -> Step {
        let was_cancelled = self.run.seats.iter().any(|seat| match &seat.state {
            SeatState::Failed { failure, .. } => failure.kind == FailureKind::Cancelled,
            SeatState::Created
            | SeatState::Assigned { .. }
            | SeatState::Claimed { .. }
            | SeatState::Processing { .. }
            | SeatState::Reassigning { .. }
            | SeatState::Completed { .. } => false,
        });
        if was_cancelled {
            return Ok(Done::Already);
        }
        self.check_run()?;
        let message = reason.unwrap_or("cancelled").to_owned();
        for number in self.seats_that(|status| !status.is_ended()) {
            let line = self.remember(number, Ended::Released, Some(message.clone())).unwrap_or_default();
            let failure = Failure { kind: FailureKind::Cancelled, message: message.clone(), class: None };
            self.end_seat(self.word, number, failure, line);
        }
        Ok(Done::Changed)
    }

    /// Completed seats stay completed; the others start over, and every device may be asked.
    pub(super) fn retry(&mut self) -> Step {
        self.check_run()?;
        if let Some(waiting) = &self.run.waiting {
            return Err(self.refuse(None, Why::BelongsTo(waiting.key.execution.clone())));
        }
        self.begin_again();
        Ok(Done::Changed)
    }

    fn begin_again(&mut self) {
        for number in self.seats_that(|status| status == Status::Failed) {
            self.enter(number, SeatState::Reassigning { since: self.now, rest_until: None }, Line::default());
            if let Some(seat) = self.run.seats.get_mut(usize::from(number)) {
                seat.passed_over.clear();
                (seat.reassignments, seat.rounds, seat.waits) = (0, 0, 0);
            }
        }
    }

    pub(super) fn adopt(&mut self, waiting: &WaitingAction) -> Step {
        let status = self.check_run()?;
        match &self.run.waiting {
            Some(known) if known == waiting => return Ok(Done::Already),
            Some(known) if known.key != waiting.key => {
                return Err(self.refuse(None, Why::BelongsTo(known.key.execution.clone())));
            }
            Some(known) if known.epoch > waiting.epoch => {
                return Err(self.refuse(None, Why::StaleToken));
            }
            Some(_) => {}
            None => return Err(self.refuse(None, Why::NotNow)),
        }
        self.run.waiting = Some(waiting.clone());
        if status == Status::Failed {
            self.begin_again();
        } else {
            self.line(self.word, None, status, status, Line::default());
        }
        Ok(Done::Changed)
    }

    pub(super) fn preempt(&mut self, number: u16, by: &RunId, priority: i32) -> Step {
        self.check(number)?;
        if priority <= self.run.priority {
            return Err(self.refuse(Some(number), Why::NotHigher));
        }
        self.let_go(number, Ended::Preempted, Some(format!("for {by}, which has priority {priority}")));
        Ok(Done::Changed)
    }

    /// Checks that the table permits the input in the status of the run.
    fn check_run(&self) -> Result<Status, Refusal> {
        let status = self.run.status();
        if table::is_legal(status, self.word) { Ok(status) } else { Err(self.refuse(None, Why::NotNow)) }
    }

    fn seats_that(&self, meant: impl Fn(Status) -> bool) -> Vec<u16> {
        let seats = self.run.numbered().filter(|(_, seat)| meant(seat.status()));
        seats.map(|(number, _)| number).collect()
    }
}
