//! Acts of a device on the seat that it holds: accept, decline, begin, heartbeat, complete, fail, release.

use millstream_model::mutation::{self, Mutation};
use millstream_model::time::Timestamp;

use super::input::{DeviceAction, SeatAct};
use super::refusal::RunRefusalReason;
use super::seat::{RunSeat, SeatFailureKind, SeatHolding, SeatLossReason, SeatState, SeatToken};
use super::step::{RunLogDetails, RunStepEffect, RunStepResult, RunStepper};
use super::table;

impl RunStepper<'_> {
    pub(super) fn apply_act(&mut self, act: &SeatAct, doing: &DeviceAction) -> RunStepResult {
        let seat = self.seat(act.seat)?;
        if is_repetition(seat, act, doing) {
            return Ok(RunStepEffect::Already);
        }
        let is_theirs = seat.current_holding().is_some_and(|held| {
            held.device == act.device && held.token == act.token
                || mutation::is_active(Mutation::ClaimWithoutToken)
        });
        if !is_theirs
            && (seat.current_holding().is_some() || act.token <= self.run.token && seat.was_held_under(act))
        {
            return Err(self.refuse_input(Some(act.seat), RunRefusalReason::StaleToken));
        }
        if !table::is_legal(seat.status(), self.word) || !is_theirs {
            return Err(self.refuse_input(Some(act.seat), RunRefusalReason::NotNow));
        }
        let paused = self.run.is_paused();
        match doing {
            DeviceAction::Start if paused => {
                return Err(self.refuse_input(Some(act.seat), RunRefusalReason::Paused));
            }
            DeviceAction::Accept => self.claim_seat(act.seat, None),
            DeviceAction::Start => self.begin_work(act.seat),
            DeviceAction::Heartbeat => self.record_heartbeat(act.seat),
            DeviceAction::Progress(progress) => {
                self.record_heartbeat(act.seat);
                if let Some(seat) = self.run.seats.get_mut(usize::from(act.seat)) {
                    seat.progress = Some(progress.clone());
                }
            }
            DeviceAction::Complete { output } => {
                if let Some(held) = self.current_holding(act.seat) {
                    let line = RunLogDetails::of_holding(&held);
                    let state = SeatState::Completed { held, at: self.now, output: output.clone() };
                    self.enter_state(act.seat, state, line);
                }
            }
            DeviceAction::Fail { failure, retryable: true } => {
                self.end_assignment(act.seat, SeatLossReason::Failed, Some(failure.message.clone()));
            }
            DeviceAction::Fail { failure, retryable: false } => {
                let line = self
                    .current_holding(act.seat)
                    .map(|held| RunLogDetails::of_holding(&held))
                    .unwrap_or_default();
                self.fail_seat(self.word, act.seat, failure.clone(), line);
            }
            DeviceAction::Decline { reason } => {
                self.end_assignment(act.seat, SeatLossReason::Declined, reason.clone())
            }
            DeviceAction::Release { reason } | DeviceAction::Abort { reason } => {
                self.end_assignment(act.seat, SeatLossReason::Released, reason.clone());
            }
        }
        Ok(RunStepEffect::Changed)
    }

    fn current_holding(&self, number: u16) -> Option<SeatHolding> {
        self.run.seat(number)?.current_holding().cloned()
    }

    fn record_heartbeat(&mut self, number: u16) {
        let now = self.now;
        if let Some(seat) = self.run.seats.get_mut(usize::from(number)) {
            seat.record_heartbeat(now);
        }
    }

    /// The assigned device becomes the holder of the claim.
    pub(super) fn claim_seat(&mut self, number: u16, offline: Option<SeatToken>) {
        let Some(held) = self.current_holding(number) else { return };
        let (line, now) = (RunLogDetails::of_holding(&held), self.now);
        self.reset_rests(number);
        self.enter_state(number, claimed_state(held, now, offline), line);
    }

    pub(super) fn reset_rests(&mut self, number: u16) {
        if let Some(seat) = self.run.seats.get_mut(usize::from(number)) {
            (seat.rounds, seat.waits) = (0, 0);
        }
    }

    fn begin_work(&mut self, number: u16) {
        let Some(SeatState::Claimed { held, claimed_at, heard_at, offline, .. }) =
            self.run.seat(number).map(|seat| seat.state.clone())
        else {
            return;
        };
        let line = RunLogDetails::of_holding(&held);
        let heard_at = heard_at.max(self.now);
        let state = SeatState::Processing { held, claimed_at, started_at: self.now, heard_at, offline };
        self.enter_state(number, state, line);
    }
}

pub(super) fn claimed_state(held: SeatHolding, now: Timestamp, offline: Option<SeatToken>) -> SeatState {
    SeatState::Claimed { held, claimed_at: now, counted_from: now, heard_at: now, offline }
}

impl RunSeat {
    /// Whether the device held the seat under this token at any time.
    fn was_held_under(&self, act: &SeatAct) -> bool {
        self.previous.iter().any(|former| former.token == act.token)
    }
}

/// Whether this act is a repetition: the first response was lost.
fn is_repetition(seat: &RunSeat, act: &SeatAct, doing: &DeviceAction) -> bool {
    let is_theirs = |held: &SeatHolding| held.device == act.device && held.token == act.token;
    let ended = |reason: SeatLossReason| {
        let mut former = seat.previous.iter();
        former.any(|one| one.device == act.device && one.token == act.token && one.reason == reason)
    };
    match (doing, &seat.state) {
        (DeviceAction::Accept, SeatState::Claimed { held, .. } | SeatState::Processing { held, .. })
        | (DeviceAction::Start, SeatState::Processing { held, .. })
        | (DeviceAction::Complete { .. }, SeatState::Completed { held, .. }) => is_theirs(held),
        (DeviceAction::Fail { .. }, SeatState::Failed { last: Some(last), failure, .. })
            if failure.kind == SeatFailureKind::Error && is_theirs(last) =>
        {
            true
        }
        (DeviceAction::Fail { .. }, _) => ended(SeatLossReason::Failed),
        (DeviceAction::Decline { .. }, _) => ended(SeatLossReason::Declined),
        (DeviceAction::Release { .. } | DeviceAction::Abort { .. }, _) => ended(SeatLossReason::Released),
        (
            DeviceAction::Accept
            | DeviceAction::Start
            | DeviceAction::Heartbeat
            | DeviceAction::Progress(_)
            | DeviceAction::Complete { .. },
            _,
        ) => false,
    }
}
