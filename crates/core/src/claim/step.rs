//! The pure step of a run: applies one input.

use super::change::{Change, Entry, Stepped};
use super::input::Input;
use super::refusal::{Holder, Refusal, Why};
use super::row::{Assign, Run};
use super::seat::{Ended, Failure, FailureKind, Holding, MAX_PREVIOUS, Previous, Seat, SeatState, Token};
use super::status::Status;
use super::table;
use super::told::Told;
use super::word::Word;
use crate::id::DeviceId;
use crate::raw::RawJson;
use crate::time::Timestamp;

/// Decides. `by` is the actor if it is not the acting device; `now` is the time of the store.
pub fn step(run: Run, input: &Input, by: Option<&str>, now: Timestamp) -> Result<Stepped, Refusal> {
    let mut stepping = Stepping { run, log: Vec::new(), word: input.word(), by, now, unheard: Vec::new() };
    let done = match input {
        Input::Assign { seat, device, decision } => stepping.assign(*seat, device, decision.as_deref()),
        Input::SelfClaim { device, seat, fitness, decision } => {
            stepping.self_claim(*seat, device, fitness, decision.as_deref())
        }
        Input::NobodyViable { seat, outlook, decision } => {
            stepping.nobody_viable(*seat, *outlook, decision.as_deref())
        }
        Input::Act(act, doing) => stepping.act(act, doing),
        Input::AssignmentTimeout { seat } => stepping.assignment_timeout(*seat),
        Input::ClaimExpiry { seat } => stepping.claim_expiry(*seat),
        Input::HeartbeatTimeout { seat } => stepping.heartbeat_timeout(*seat),
        Input::BackoffOver { seat } => stepping.backoff_over(*seat),
        Input::DeviceGone { device } => stepping.device_gone(device),
        Input::Preempt { seat, by, priority } => stepping.preempt(*seat, by, *priority),
        Input::OfflineClaim(act) => stepping.offline_claim(act),
        Input::Pause => stepping.pause(),
        Input::Resume => stepping.resume(),
        Input::Cancel { reason } => stepping.cancel(reason.as_deref()),
        Input::Retry => stepping.retry(),
        Input::Adopt { waiting } => stepping.adopt(waiting),
    }?;
    Ok(match done {
        Done::Changed => Stepped::Changed(Box::new(stepping.finish())),
        Done::Already => Stepped::Already,
    })
}

/// The result of an accepted input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Done {
    Changed,
    Already,
}

pub(super) type Step = Result<Done, Refusal>;

/// A run while a step changes it.
pub(super) struct Stepping<'a> {
    pub(super) run: Run,
    pub(super) log: Vec<Entry>,
    pub(super) word: Word,
    pub(super) by: Option<&'a str>,
    pub(super) now: Timestamp,
    pub(super) unheard: Vec<(u16, Timestamp)>,
}

/// The particulars of a log entry beside the status change.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) device: Option<DeviceId>,
    pub(super) token: Option<Token>,
    pub(super) ended: Option<Ended>,
    pub(super) why: Option<String>,
    pub(super) detail: Option<RawJson>,
}

impl Line {
    pub(super) fn about(held: &Holding) -> Self {
        Self { device: Some(held.device.clone()), token: Some(held.token), ..Self::default() }
    }
}

impl Stepping<'_> {
    fn finish(mut self) -> Change {
        if self.run.status().is_ended() {
            self.run.paused_at = None;
        }
        let told = Told::of(&self.run);
        Change { run: self.run, log: self.log, told, unheard: self.unheard }
    }

    /// Builds a refusal about a seat, or about the run.
    pub(super) fn refuse(&self, seat: Option<u16>, why: Why) -> Refusal {
        let seat = seat.and_then(|number| self.run.seat(number));
        let status = seat.map_or_else(|| self.run.status(), Seat::status);
        let holder = seat.or_else(|| self.run.seats.iter().find(|seat| seat.held().is_some()));
        let holder = holder.and_then(|seat| {
            let held = seat.held()?;
            Some(Holder { device: held.device.clone(), since: held.assigned_at, status: seat.status() })
        });
        Refusal { status, input: self.word, why, holder }
    }

    pub(super) fn seat(&self, number: u16) -> Result<&Seat, Refusal> {
        self.run.seat(number).ok_or_else(|| self.refuse(None, Why::NoSuchSeat))
    }

    /// Checks that the seat exists and that the table permits the input.
    pub(super) fn check(&self, number: u16) -> Result<&Seat, Refusal> {
        let seat = self.seat(number)?;
        if table::is_legal(seat.status(), self.word) {
            return Ok(seat);
        }
        let is_wanted = matches!(self.word, Word::SelfClaim | Word::Assign);
        let why = if is_wanted && seat.status().is_held() { Why::Taken } else { Why::NotNow };
        Err(self.refuse(Some(number), why))
    }

    pub(super) fn line(&mut self, word: Word, seat: Option<u16>, from: Status, to: Status, line: Line) {
        self.log.push(Entry {
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
    pub(super) fn enter(&mut self, number: u16, state: SeatState, line: Line) {
        self.enter_by(self.word, number, state, line);
    }

    pub(super) fn enter_by(&mut self, word: Word, number: u16, state: SeatState, line: Line) {
        let Some(seat) = self.run.seats.get_mut(usize::from(number)) else { return };
        let from = seat.status();
        seat.state = state;
        let to = seat.status();
        self.line(word, Some(number), from, to, line);
    }

    /// Issues the next token to a device that gets a seat.
    pub(super) fn give(&mut self, device: &DeviceId) -> Holding {
        self.run.token = Token(self.run.token.0 + 1);
        Holding {
            device: device.clone(),
            token: self.run.token,
            assigned_at: self.now,
            by: self.by.map(str::to_owned),
        }
    }

    /// Ends the assignment: the seat is free, or the run fails because the limit of reassignments is
    /// exceeded.
    pub(super) fn let_go(&mut self, number: u16, reason: Ended, why: Option<String>) {
        let now = self.now;
        let Some(line) = self.remember(number, reason, why.clone()) else { return };
        self.enter(number, SeatState::Reassigning { since: now, rest_until: None }, line);
        let Some(seat) = self.run.seats.get_mut(usize::from(number)) else { return };
        match reason {
            Ended::Preempted | Ended::Superseded => return,
            Ended::Timeout
            | Ended::Declined
            | Ended::Failed
            | Ended::Released
            | Ended::Heartbeat
            | Ended::Gone => seat.reassignments += 1,
        }
        let (times, most) = (seat.reassignments, self.run.settings.max_reassignments);
        if times > most && self.run.assign == Assign::Auto {
            let last = why.map_or_else(String::new, |why| format!(" ({why})"));
            let message = format!("no device is left: reassigned {most} times, and then {reason}{last}");
            self.fail_seat(Word::NobodyLeft, number, Failure::nobody_left(message), Line::default());
        }
    }

    /// Records a former holder; returns the log particulars.
    pub(super) fn remember(&mut self, number: u16, reason: Ended, why: Option<String>) -> Option<Line> {
        let seat = self.run.seats.get_mut(usize::from(number))?;
        let held = seat.held()?.clone();
        let line = Line {
            ended: Some(reason),
            why: why.clone(),
            detail: seat.progress.as_ref().map(RawJson::of),
            ..Line::about(&held)
        };
        match reason {
            Ended::Preempted | Ended::Superseded => {}
            Ended::Timeout
            | Ended::Declined
            | Ended::Failed
            | Ended::Released
            | Ended::Heartbeat
            | Ended::Gone => {
                seat.passed_over.insert(held.device.clone());
            }
        }
        let Holding { device, token, assigned_at, by: _ } = held;
        let progress = seat.progress.clone();
        seat.previous.push(Previous {
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
    pub(super) fn fail_seat(&mut self, word: Word, number: u16, failure: Failure, line: Line) {
        let message = failure.message.clone();
        self.end_seat(word, number, failure, line);
        let others: Vec<u16> = self.run.numbered().map(|(other, _)| other).collect();
        for other in others.into_iter().filter(|other| *other != number) {
            if self.run.seat(other).is_some_and(|seat| !seat.status().is_ended()) {
                let why = format!("seat {number} has failed: {message}");
                let line = self.remember(other, Ended::Released, Some(why.clone())).unwrap_or_default();
                let failure = Failure { kind: FailureKind::OtherSeat, message: why, class: None };
                self.end_seat(Word::RunFailed, other, failure, line);
            }
        }
    }

    pub(super) fn end_seat(&mut self, word: Word, number: u16, failure: Failure, line: Line) {
        let last = self.run.seat(number).and_then(|seat| seat.held().cloned());
        let why = line.why.clone().or_else(|| Some(failure.message.clone()));
        let state = SeatState::Failed { at: self.now, failure, last };
        self.enter_by(word, number, state, Line { why, ..line });
    }
}

impl Failure {
    pub(super) fn nobody_left(message: String) -> Self {
        Self { kind: FailureKind::NobodyLeft, message, class: None }
    }
}
