//! Acts of a device on the seat that it holds: accept, decline, begin, heartbeat, complete, fail, release.

use super::input::{Act, Doing};
use super::refusal::Why;
use super::seat::{Ended, FailureKind, Holding, Seat, SeatState, Token};
use super::step::{Done, Line, Step, Stepping};
use super::table;
use crate::planted::{self, Bug};
use crate::time::Timestamp;

impl Stepping<'_> {
    pub(super) fn act(&mut self, act: &Act, doing: &Doing) -> Step {
        let seat = self.seat(act.seat)?;
        if is_done(seat, act, doing) {
            return Ok(Done::Already);
        }
        let is_theirs = seat.held().is_some_and(|held| {
            held.device == act.device && held.token == act.token || planted::is(Bug::ClaimWithoutToken)
        });
        if !is_theirs && (seat.held().is_some() || act.token <= self.run.token && seat.has_known(act)) {
            return Err(self.refuse(Some(act.seat), Why::StaleToken));
        }
        if !table::is_legal(seat.status(), self.word) || !is_theirs {
            return Err(self.refuse(Some(act.seat), Why::NotNow));
        }
        let paused = self.run.is_paused();
        match doing {
            Doing::Start if paused => return Err(self.refuse(Some(act.seat), Why::Paused)),
            Doing::Accept => self.claim(act.seat, None),
            Doing::Start => self.begin(act.seat),
            Doing::Heartbeat => self.hear(act.seat),
            Doing::Progress(progress) => {
                self.hear(act.seat);
                if let Some(seat) = self.run.seats.get_mut(usize::from(act.seat)) {
                    seat.progress = Some(progress.clone());
                }
            }
            Doing::Complete { output } => {
                if let Some(held) = self.held(act.seat) {
                    let line = Line::about(&held);
                    let state = SeatState::Completed { held, at: self.now, output: output.clone() };
                    self.enter(act.seat, state, line);
                }
            }
            Doing::Fail { failure, retryable: true } => {
                self.let_go(act.seat, Ended::Failed, Some(failure.message.clone()));
            }
            Doing::Fail { failure, retryable: false } => {
                let line = self.held(act.seat).map(|held| Line::about(&held)).unwrap_or_default();
                self.fail_seat(self.word, act.seat, failure.clone(), line);
            }
            Doing::Decline { reason } => self.let_go(act.seat, Ended::Declined, reason.clone()),
            Doing::Release { reason } | Doing::Abort { reason } => {
                self.let_go(act.seat, Ended::Released, reason.clone());
            }
        }
        Ok(Done::Changed)
    }

    fn held(&self, number: u16) -> Option<Holding> {
        self.run.seat(number)?.held().cloned()
    }

    fn hear(&mut self, number: u16) {
        let now = self.now;
        if let Some(seat) = self.run.seats.get_mut(usize::from(number)) {
            seat.hear(now);
        }
    }

    /// The assigned device becomes the holder of the claim.
    pub(super) fn claim(&mut self, number: u16, offline: Option<Token>) {
        let Some(held) = self.held(number) else { return };
        let (line, now) = (Line::about(&held), self.now);
        self.reset_rests(number);
        self.enter(number, claimed(held, now, offline), line);
    }

    pub(super) fn reset_rests(&mut self, number: u16) {
        if let Some(seat) = self.run.seats.get_mut(usize::from(number)) {
            (seat.rounds, seat.waits) = (0, 0);
        }
    }

    fn begin(&mut self, number: u16) {
        let Some(SeatState::Claimed { held, claimed_at, heard_at, offline, .. }) =
            self.run.seat(number).map(|seat| seat.state.clone())
        else {
            return;
        };
        let line = Line::about(&held);
        let heard_at = heard_at.max(self.now);
        let state = SeatState::Processing { held, claimed_at, started_at: self.now, heard_at, offline };
        self.enter(number, state, line);
    }
}

pub(super) fn claimed(held: Holding, now: Timestamp, offline: Option<Token>) -> SeatState {
    SeatState::Claimed { held, claimed_at: now, counted_from: now, heard_at: now, offline }
}

impl Seat {
    /// Whether the device held the seat under this token at any time.
    fn has_known(&self, act: &Act) -> bool {
        self.previous.iter().any(|former| former.token == act.token)
    }
}

/// Whether this act is a repetition: the first response was lost.
fn is_done(seat: &Seat, act: &Act, doing: &Doing) -> bool {
    let is_theirs = |held: &Holding| held.device == act.device && held.token == act.token;
    let ended = |reason: Ended| {
        let mut former = seat.previous.iter();
        former.any(|one| one.device == act.device && one.token == act.token && one.reason == reason)
    };
    match (doing, &seat.state) {
        (Doing::Accept, SeatState::Claimed { held, .. } | SeatState::Processing { held, .. })
        | (Doing::Start, SeatState::Processing { held, .. })
        | (Doing::Complete { .. }, SeatState::Completed { held, .. }) => is_theirs(held),
        (Doing::Fail { .. }, SeatState::Failed { last: Some(last), failure, .. })
            if failure.kind == FailureKind::Error && is_theirs(last) =>
        {
            true
        }
        (Doing::Fail { .. }, _) => ended(Ended::Failed),
        (Doing::Decline { .. }, _) => ended(Ended::Declined),
        (Doing::Release { .. } | Doing::Abort { .. }, _) => ended(Ended::Released),
        (
            Doing::Accept | Doing::Start | Doing::Heartbeat | Doing::Progress(_) | Doing::Complete { .. },
            _,
        ) => false,
    }
}
