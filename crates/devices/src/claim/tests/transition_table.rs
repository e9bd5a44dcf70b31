//! The step agrees with the transition table: every legal pair is exercised, every other one refused with the
//! state.

use std::collections::BTreeSet;

use millstream_model::id::{Epoch, RunId};

use super::fixture::{RunFixture, act, assign, device, error, output, progress, self_claim};
use crate::claim::table::{MOVES, SeatTransitionKind, is_legal};
use crate::claim::{
    DeviceAction, RunInput, RunInputKind, RunStepOutcome, SeatAct, SeatLossReason, SeatOutlook, SeatStatus,
    SeatToken,
};

const STORED: [SeatStatus; 7] = [
    SeatStatus::Created,
    SeatStatus::Assigned,
    SeatStatus::Claimed,
    SeatStatus::Processing,
    SeatStatus::Reassigning,
    SeatStatus::Completed,
    SeatStatus::Failed,
];

/// Inputs of this kind that are valid in every other respect, for the current holder.
fn inputs(stage: &RunFixture, word: RunInputKind) -> Vec<RunInput> {
    let reason = None;
    match word {
        RunInputKind::SelfClaim => vec![self_claim("d9")],
        RunInputKind::Assign => vec![assign(0, "d9")],
        RunInputKind::NobodyViable => [SeatOutlook::Busy, SeatOutlook::Declined, SeatOutlook::Nobody]
            .map(|outlook| RunInput::NobodyViable { seat: 0, outlook, decision: None })
            .into(),
        RunInputKind::Accept => vec![stage.by_holder(DeviceAction::Accept)],
        RunInputKind::Decline => vec![stage.by_holder(DeviceAction::Decline { reason })],
        RunInputKind::AssignmentTimeout => vec![RunInput::AssignmentTimeout { seat: 0 }],
        RunInputKind::Start => vec![stage.by_holder(DeviceAction::Start)],
        RunInputKind::ClaimExpiry => vec![RunInput::ClaimExpiry { seat: 0 }],
        RunInputKind::Heartbeat => vec![stage.by_holder(DeviceAction::Heartbeat)],
        RunInputKind::HeartbeatTimeout => vec![RunInput::HeartbeatTimeout { seat: 0 }],
        RunInputKind::Progress => vec![stage.by_holder(DeviceAction::Progress(progress(1)))],
        RunInputKind::Complete => vec![stage.by_holder(DeviceAction::Complete { output: output() })],
        RunInputKind::Fail => [true, false]
            .map(|retryable| stage.by_holder(DeviceAction::Fail { failure: error("no"), retryable }))
            .into(),
        RunInputKind::Release => vec![stage.by_holder(DeviceAction::Release { reason })],
        RunInputKind::Abort => vec![stage.by_holder(DeviceAction::Abort { reason })],
        RunInputKind::BackoffOver => vec![RunInput::BackoffOver { seat: 0 }],
        RunInputKind::DeviceGone => vec![RunInput::DeviceGone { device: device("d1") }],
        RunInputKind::Preempt => {
            vec![RunInput::Preempt { seat: 0, by: RunId::parse("r-9").unwrap(), priority: 9 }]
        }
        RunInputKind::OfflineClaim => {
            let mut claims =
                vec![RunInput::OfflineClaim(SeatAct { device: device("d0"), seat: 0, token: SeatToken(1) })];
            claims.extend(stage.run.seats[0].current_holding().map(|held| {
                RunInput::OfflineClaim(SeatAct { device: held.device.clone(), seat: 0, token: held.token })
            }));
            claims
        }
        RunInputKind::Pause => vec![RunInput::Pause],
        RunInputKind::Resume => vec![RunInput::Resume],
        RunInputKind::Cancel => vec![RunInput::Cancel { reason }],
        RunInputKind::Retry => vec![RunInput::Retry],
        RunInputKind::Adopt => {
            let waiting = crate::claim::WaitingAction { epoch: Epoch(2), ..super::fixture::waiting() };
            vec![RunInput::Adopt { waiting }]
        }
        RunInputKind::Create
        | RunInputKind::Recorded
        | RunInputKind::NobodyLeft
        | RunInputKind::RunFailed => Vec::new(),
    }
}

/// The status in all circumstances under which the input may be legal.
fn circumstances(status: SeatStatus, word: RunInputKind) -> Vec<RunFixture> {
    let mut plain = RunFixture::reach(status);
    let mut stages = Vec::new();
    if word == RunInputKind::Resume && !status.is_ended() {
        plain.step(&RunInput::Pause);
    }
    // The due times for the answer, the beginning, the heartbeat and the rest have passed.
    if word == RunInputKind::BackoffOver && status == SeatStatus::Reassigning {
        plain.step(&RunInput::NobodyViable { seat: 0, outlook: SeatOutlook::Declined, decision: None });
    }
    if word == RunInputKind::Adopt {
        plain.run.waiting = Some(super::fixture::waiting());
    }
    plain.pass(3_600);
    stages.push(plain);
    if word == RunInputKind::OfflineClaim
        && matches!(
            status,
            SeatStatus::Assigned | SeatStatus::Claimed | SeatStatus::Processing | SeatStatus::Reassigning
        )
    {
        stages.push(after_d0_was_silent(status));
        stages.push(after_two_were_cut_off(status));
    }
    if word == RunInputKind::NobodyViable && status.is_open() {
        let mut last = RunFixture::reach(status);
        last.run.seats[0].rounds = last.run.settings.backoff.rounds;
        stages.push(last);
    }
    stages
}

/// `d0` was asked first and did not answer; then the run reached this status with `d1`.
fn after_d0_was_silent(status: SeatStatus) -> RunFixture {
    let mut stage = RunFixture::new();
    stage.assign("d0").pass(60).step(&RunInput::AssignmentTimeout { seat: 0 });
    go_on(stage, status)
}

/// Like the above, and `d1` holds a claim from before its disconnection, but was assigned after `d0`.
fn after_two_were_cut_off(status: SeatStatus) -> RunFixture {
    let mut stage = RunFixture::new();
    stage.assign("d0").pass(60).step(&RunInput::AssignmentTimeout { seat: 0 });
    stage.assign("d1").pass(60).step(&RunInput::AssignmentTimeout { seat: 0 });
    if matches!(status, SeatStatus::Claimed | SeatStatus::Processing) {
        stage.step(&RunInput::OfflineClaim(SeatAct { device: device("d1"), seat: 0, token: SeatToken(2) }));
        if status == SeatStatus::Processing {
            stage.does(DeviceAction::Start);
        }
        return stage;
    }
    go_on(stage, status)
}

fn go_on(mut stage: RunFixture, status: SeatStatus) -> RunFixture {
    if status != SeatStatus::Reassigning {
        stage.assign("d1");
    }
    if matches!(status, SeatStatus::Claimed | SeatStatus::Processing) {
        stage.does(DeviceAction::Accept);
    }
    if status == SeatStatus::Processing {
        stage.does(DeviceAction::Start);
    }
    stage
}

#[test]
fn every_run_transition_is_exercised() {
    let mut taken: BTreeSet<(SeatStatus, RunInputKind, SeatStatus)> = BTreeSet::new();
    for status in STORED {
        for word in RunInputKind::ALL.iter().copied().filter(|word| is_legal(status, *word)) {
            let mut possible = false;
            for stage in circumstances(status, word) {
                for input in inputs(&stage, word) {
                    let mut stage = stage.clone();
                    let lines = stage.log.len();
                    let Ok(RunStepOutcome::Changed(_)) = stage.try_step(&input) else { continue };
                    possible = true;
                    taken.insert((status, word, stage.status()));
                    let written = stage.log[lines..].iter();
                    taken.extend(written.map(|entry| (entry.from.unwrap(), entry.word, entry.to)));
                }
            }
            assert!(possible, "{word} is legal while {status}, and nothing of it was possible");
        }
    }
    taken.extend(of_several_seats());
    let missing: Vec<_> = MOVES
        .iter()
        .filter(|way| way.kind != SeatTransitionKind::Repeat && !taken.contains(&(way.from, way.on, way.to)))
        .collect();
    assert!(missing.is_empty(), "never taken: {missing:?}");
}

/// The effect of another seat's failure on a seat in each status.
fn of_several_seats() -> BTreeSet<(SeatStatus, RunInputKind, SeatStatus)> {
    let mut taken = BTreeSet::new();
    for status in STORED.into_iter().filter(|status| !status.is_ended()) {
        let mut stage = RunFixture::of(crate::claim::RunSpec { devices: 2, ..super::fixture::spec() });
        stage.assign("d1").does(DeviceAction::Accept).does(DeviceAction::Start);
        if status != SeatStatus::Created {
            stage.step(&assign(1, "d2"));
        }
        let follow: &[DeviceAction] = match status {
            SeatStatus::Claimed => &[DeviceAction::Accept],
            SeatStatus::Processing => &[DeviceAction::Accept, DeviceAction::Start],
            SeatStatus::Reassigning => &[DeviceAction::Decline { reason: None }],
            SeatStatus::Created
            | SeatStatus::AssigningToSelf
            | SeatStatus::AssigningToOther
            | SeatStatus::Assigned
            | SeatStatus::Completed
            | SeatStatus::Failed => &[],
        };
        for doing in follow {
            let input = stage.by_holder_of(1, doing.clone());
            stage.step(&input);
        }
        assert_eq!(stage.run.seats[1].status(), status);
        let lines = stage.log.len();
        stage.does(DeviceAction::Fail { failure: error("no"), retryable: false });
        taken.extend(stage.log[lines..].iter().map(|entry| (entry.from.unwrap(), entry.word, entry.to)));
        assert_eq!((stage.status(), stage.run.seats[1].status()), (SeatStatus::Failed, SeatStatus::Failed));
        let told = stage.run.seats[1].previous.last().map(|former| former.reason);
        let expected = status.is_held().then_some(SeatLossReason::Released);
        assert!(status == SeatStatus::Reassigning || told == expected, "{status}: {told:?}");
    }
    taken
}

#[test]
fn illegal_run_inputs_are_refused() {
    for status in STORED {
        for word in RunInputKind::ALL.iter().copied().filter(|word| !is_legal(status, *word)) {
            for stage in circumstances(status, word) {
                for input in inputs(&stage, word) {
                    let is_repeat = MOVES.iter().any(|way| {
                        way.from == status && way.on == word && way.kind == SeatTransitionKind::Repeat
                    });
                    let mut stage = stage.clone();
                    match stage.try_step(&input) {
                        Err(refusal) => {
                            assert_eq!((refusal.status, refusal.input), (status, word));
                            assert!(refusal.to_string().contains(status.as_str()), "{refusal}");
                        }
                        Ok(stepped) => {
                            assert!(is_repeat && stepped == RunStepOutcome::Already, "{status}, {input:?}")
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn repeated_device_act_succeeds() {
    for (status, doing) in [
        (SeatStatus::Claimed, DeviceAction::Accept),
        (SeatStatus::Processing, DeviceAction::Accept),
        (SeatStatus::Processing, DeviceAction::Start),
        (SeatStatus::Completed, DeviceAction::Complete { output: output() }),
        (SeatStatus::Failed, DeviceAction::Fail { failure: error("no"), retryable: false }),
    ] {
        let mut stage = RunFixture::reach(status);
        stage.already(&act("d1", 1, doing.clone()));
        let refusal = stage.refused(&act("d2", 1, doing.clone()));
        assert_eq!(refusal.status, status);
        stage.refused(&act("d1", 7, doing));
    }
    let mut stage = RunFixture::new();
    stage.step(&self_claim("d1"));
    stage.already(&self_claim("d1"));
    stage.step(&RunInput::Cancel { reason: None });
    stage.already(&RunInput::Cancel { reason: None });
}
