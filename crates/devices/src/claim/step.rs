//! The pure step of a run: applies one input.

use millstream_model::id::DeviceId;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;

use super::change::{RunChange, RunLogEntry, RunStepOutcome};
use super::input::RunInput;
use super::input_kind::RunInputKind;
use super::refusal::{CurrentSeatHolder, RunRefusal, RunRefusalReason};
use super::run::{RunAssignMode, RunRecord};
use super::run_outcome::RunOutcome;
use super::seat::{
    FormerHolding, MAX_PREVIOUS, RunSeat, SeatFailure, SeatFailureKind, SeatHolding, SeatLossReason,
    SeatState, SeatToken,
};
use super::status::SeatStatus;
use super::table;

/// Decides. `by` is the actor if it is not the acting device; `now` is the time of the store.
pub fn step_run(
    run: RunRecord,
    input: &RunInput,
    by: Option<&str>,
    now: Timestamp,
) -> Result<RunStepOutcome, RunRefusal> {
    let mut stepping =
        RunStepper { run, log: Vec::new(), word: input.input_kind(), by, now, unheard: Vec::new() };
    let done = match input {
        RunInput::Assign { seat, device, decision } => {
            stepping.assign_device(*seat, device, decision.as_deref())
        }
        RunInput::SelfClaim { device, seat, fitness, decision } => {
            stepping.self_claim(*seat, device, fitness, decision.as_deref())
        }
        RunInput::NobodyViable { seat, outlook, decision } => {
            stepping.back_off(*seat, *outlook, decision.as_deref())
        }
        RunInput::Act(act, doing) => stepping.apply_act(act, doing),
        RunInput::AssignmentTimeout { seat } => stepping.expire_assignment(*seat),
        RunInput::ClaimExpiry { seat } => stepping.expire_claim(*seat),
        RunInput::HeartbeatTimeout { seat } => stepping.expire_heartbeat(*seat),
        RunInput::BackoffOver { seat } => stepping.end_backoff(*seat),
        RunInput::DeviceGone { device } => stepping.lose_device(device),
        RunInput::Preempt { seat, by, priority } => stepping.preempt_seat(*seat, by, *priority),
        RunInput::OfflineClaim(act) => stepping.claim_offline(act),
        RunInput::Pause => stepping.pause_run(),
        RunInput::Resume => stepping.resume_run(),
        RunInput::Cancel { reason } => stepping.cancel_run(reason.as_deref()),
        RunInput::Retry => stepping.retry_run(),
        RunInput::Adopt { waiting } => stepping.adopt_lease(waiting),
    }?;
    Ok(match done {
        RunStepEffect::Changed => RunStepOutcome::Changed(Box::new(stepping.into_change())),
        RunStepEffect::Already => RunStepOutcome::Already,
    })
}

/// The result of an accepted input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunStepEffect {
    Changed,
    Already,
}

pub(super) type RunStepResult = Result<RunStepEffect, RunRefusal>;

/// A run while a step changes it.
pub(super) struct RunStepper<'a> {
    pub(super) run: RunRecord,
    pub(super) log: Vec<RunLogEntry>,
    pub(super) word: RunInputKind,
    pub(super) by: Option<&'a str>,
    pub(super) now: Timestamp,
    pub(super) unheard: Vec<(u16, Timestamp)>,
}

/// The particulars of a log entry beside the status change.
#[derive(Debug, Default)]
pub(super) struct RunLogDetails {
    pub(super) device: Option<DeviceId>,
    pub(super) token: Option<SeatToken>,
    pub(super) ended: Option<SeatLossReason>,
    pub(super) why: Option<String>,
    pub(super) detail: Option<RawJson>,
}

impl RunLogDetails {
    pub(super) fn of_holding(held: &SeatHolding) -> Self {
        Self { device: Some(held.device.clone()), token: Some(held.token), ..Self::default() }
    }
}

impl RunStepper<'_> {
    fn into_change(mut self) -> RunChange {
        if self.run.status().is_ended() {
            self.run.paused_at = None;
        }
        let told = RunOutcome::from_run(&self.run);
        RunChange { run: self.run, log: self.log, told, unheard: self.unheard }
    }

    /// Builds a refusal about a seat, or about the run.
    pub(super) fn refuse_input(&self, seat: Option<u16>, why: RunRefusalReason) -> RunRefusal {
        let seat = seat.and_then(|number| self.run.seat(number));
        let status = seat.map_or_else(|| self.run.status(), RunSeat::status);
        let holder = seat.or_else(|| self.run.seats.iter().find(|seat| seat.current_holding().is_some()));
        let holder = holder.and_then(|seat| {
            let held = seat.current_holding()?;
            Some(CurrentSeatHolder {
                device: held.device.clone(),
                since: held.assigned_at,
                status: seat.status(),
            })
        });
        RunRefusal { status, input: self.word, why, holder }
    }

    pub(super) fn seat(&self, number: u16) -> Result<&RunSeat, RunRefusal> {
        self.run.seat(number).ok_or_else(|| self.refuse_input(None, RunRefusalReason::NoSuchSeat))
    }

    /// Checks that the seat exists and that the table permits the input.
    pub(super) fn check_seat(&self, number: u16) -> Result<&RunSeat, RunRefusal> {
        let seat = self.seat(number)?;
        if table::is_legal(seat.status(), self.word) {
            return Ok(seat);
        }
        let is_wanted = matches!(self.word, RunInputKind::SelfClaim | RunInputKind::Assign);
        let why = if is_wanted && seat.status().is_held() {
            RunRefusalReason::Taken
        } else {
            RunRefusalReason::NotNow
        };
        Err(self.refuse_input(Some(number), why))
    }

    pub(super) fn write_log(
        &mut self,
        word: RunInputKind,
        seat: Option<u16>,
        from: SeatStatus,
        to: SeatStatus,
        line: RunLogDetails,
    ) {
        self.log.push(RunLogEntry {
            at: self.now,
            seat,
            word,
            from: Some(from),
            to,
            device: line.device,
            token: line.token,
            ended: line.ended,
            why: line.why,
            by: self.by.map(str::to_owned),
            detail: line.detail,
        });
    }

    /// Changes the state of a seat and logs the transition.
    pub(super) fn enter_state(&mut self, number: u16, state: SeatState, line: RunLogDetails) {
        self.enter_state_by(self.word, number, state, line);
    }

    pub(super) fn enter_state_by(
        &mut self,
        word: RunInputKind,
        number: u16,
        state: SeatState,
        line: RunLogDetails,
    ) {
        let Some(seat) = self.run.seats.get_mut(usize::from(number)) else { return };
        let from = seat.status();
        seat.state = state;
        let to = seat.status();
        self.write_log(word, Some(number), from, to, line);
    }

    /// Issues the next token to a device that gets a seat.
    pub(super) fn issue_token(&mut self, device: &DeviceId) -> SeatHolding {
        self.run.token = SeatToken(self.run.token.0 + 1);
        SeatHolding {
            device: device.clone(),
            token: self.run.token,
            assigned_at: self.now,
            by: self.by.map(str::to_owned),
        }
    }

    /// Ends the assignment: the seat is free, or the run fails because the limit of reassignments is
    /// exceeded.
    pub(super) fn end_assignment(&mut self, number: u16, reason: SeatLossReason, why: Option<String>) {
        let now = self.now;
        let Some(line) = self.record_former_holder(number, reason, why.clone()) else { return };
        self.enter_state(number, SeatState::Reassigning { since: now, rest_until: None }, line);
        let Some(seat) = self.run.seats.get_mut(usize::from(number)) else { return };
        match reason {
            SeatLossReason::Preempted | SeatLossReason::Superseded => return,
            SeatLossReason::Timeout
            | SeatLossReason::Declined
            | SeatLossReason::Failed
            | SeatLossReason::Released
            | SeatLossReason::Heartbeat
            | SeatLossReason::Gone => seat.reassignments += 1,
        }
        let (times, most) = (seat.reassignments, self.run.settings.max_reassignments);
        if times > most && self.run.assign == RunAssignMode::Auto {
            let last = why.map_or_else(String::new, |why| format!(" ({why})"));
            let message = format!("no device is left: reassigned {most} times, and then {reason}{last}");
            self.fail_seat(
                RunInputKind::NobodyLeft,
                number,
                SeatFailure::no_device_left(message),
                RunLogDetails::default(),
            );
        }
    }

    /// Records a former holder; returns the log particulars.
    pub(super) fn record_former_holder(
        &mut self,
        number: u16,
        reason: SeatLossReason,
        why: Option<String>,
    ) -> Option<RunLogDetails> {
        let seat = self.run.seats.get_mut(usize::from(number))?;
        let held = seat.current_holding()?.clone();
        let line = RunLogDetails {
            ended: Some(reason),
            why: why.clone(),
            detail: seat.progress.as_ref().map(RawJson::from_value),
            ..RunLogDetails::of_holding(&held)
        };
        match reason {
            SeatLossReason::Preempted | SeatLossReason::Superseded => {}
            SeatLossReason::Timeout
            | SeatLossReason::Declined
            | SeatLossReason::Failed
            | SeatLossReason::Released
            | SeatLossReason::Heartbeat
            | SeatLossReason::Gone => {
                seat.passed_over.insert(held.device.clone());
            }
        }
        let SeatHolding { device, token, assigned_at, by: _ } = held;
        let progress = seat.progress.clone();
        seat.previous.push(FormerHolding {
            device,
            token,
            assigned_at,
            ended_at: self.now,
            reason,
            why,
            progress,
        });
        let beyond = seat.previous.len().saturating_sub(MAX_PREVIOUS);
        seat.previous.drain(..beyond);
        Some(line)
    }

    /// Fails a seat and, with it, the run: the other devices release theirs.
    pub(super) fn fail_seat(
        &mut self,
        word: RunInputKind,
        number: u16,
        failure: SeatFailure,
        line: RunLogDetails,
    ) {
        let message = failure.message.clone();
        self.end_seat(word, number, failure, line);
        let others: Vec<u16> = self.run.numbered_seats().map(|(other, _)| other).collect();
        for other in others.into_iter().filter(|other| *other != number) {
            if self.run.seat(other).is_some_and(|seat| !seat.status().is_ended()) {
                let why = format!("seat {number} has failed: {message}");
                let line = self
                    .record_former_holder(other, SeatLossReason::Released, Some(why.clone()))
                    .unwrap_or_default();
                let failure = SeatFailure { kind: SeatFailureKind::OtherSeat, message: why, class: None };
                self.end_seat(RunInputKind::RunFailed, other, failure, line);
            }
        }
    }

    pub(super) fn end_seat(
        &mut self,
        word: RunInputKind,
        number: u16,
        failure: SeatFailure,
        line: RunLogDetails,
    ) {
        let last = self.run.seat(number).and_then(|seat| seat.current_holding().cloned());
        let why = line.why.clone().or_else(|| Some(failure.message.clone()));
        let state = SeatState::Failed { at: self.now, failure, last };
        self.enter_state_by(word, number, state, RunLogDetails { why, ..line });
    }
}

impl SeatFailure {
    pub(super) fn no_device_left(message: String) -> Self {
        Self { kind: SeatFailureKind::NobodyLeft, message, class: None }
    }
}
