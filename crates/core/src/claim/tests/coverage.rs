//! The step agrees with the transition table: every legal pair is exercised, every other one refused with the
//! state.

use std::collections::BTreeSet;

use super::stage::{Stage, act, assign, device, error, output, progress, self_claim};
use crate::claim::table::{Kind, MOVES, is_legal};
use crate::claim::{Act, Doing, Ended, Input, Outlook, Status, Stepped, Token, Word};
use crate::id::{Epoch, RunId};

const STORED: [Status; 7] = [
    Status::Created,
    Status::Assigned,
    Status::Claimed,
    Status::Processing,
    Status::Reassigning,
    Status::Completed,
    Status::Failed,
];

/// Inputs of this kind that are valid in every other respect, for the current holder.
fn inputs(stage: &Stage, word: Word) -> Vec<Input> {
    let reason = None;
    match word {
        Word::SelfClaim => vec![self_claim("d9")],
        Word::Assign => vec![assign(0, "d9")],
        Word::NobodyViable => [Outlook::Busy, Outlook::Declined, Outlook::Nobody]
            .map(|outlook| Input::NobodyViable { seat: 0, outlook, decision: None })
            .into(),
        Word::Accept => vec![stage.by_holder(Doing::Accept)],
        Word::Decline => vec![stage.by_holder(Doing::Decline { reason })],
        Word::AssignmentTimeout => vec![Input::AssignmentTimeout { seat: 0 }],
        Word::Start => vec![stage.by_holder(Doing::Start)],
        Word::ClaimExpiry => vec![Input::ClaimExpiry { seat: 0 }],
        Word::Heartbeat => vec![stage.by_holder(Doing::Heartbeat)],
        Word::HeartbeatTimeout => vec![Input::HeartbeatTimeout { seat: 0 }],
        Word::Progress => vec![stage.by_holder(Doing::Progress(progress(1)))],
        Word::Complete => vec![stage.by_holder(Doing::Complete { output: output() })],
        Word::Fail => [true, false]
            .map(|retryable| stage.by_holder(Doing::Fail { failure: error("no"), retryable }))
            .into(),
        Word::Release => vec![stage.by_holder(Doing::Release { reason })],
        Word::Abort => vec![stage.by_holder(Doing::Abort { reason })],
        Word::BackoffOver => vec![Input::BackoffOver { seat: 0 }],
        Word::DeviceGone => vec![Input::DeviceGone { device: device("d1") }],
        Word::Preempt => {
            vec![Input::Preempt { seat: 0, by: RunId::parse("r-9").unwrap(), priority: 9 }]
        }
        Word::OfflineClaim => {
            let mut claims =
                vec![Input::OfflineClaim(Act { device: device("d0"), seat: 0, token: Token(1) })];
            claims.extend(stage.run.seats[0].held().map(|held| {
                Input::OfflineClaim(Act { device: held.device.clone(), seat: 0, token: held.token })
            }));
            claims
        }
        Word::Pause => vec![Input::Pause],
        Word::Resume => vec![Input::Resume],
        Word::Cancel => vec![Input::Cancel { reason }],
        Word::Retry => vec![Input::Retry],
        Word::Adopt => {
            let waiting = crate::claim::WaitingAction { epoch: Epoch(2), ..super::stage::waiting() };
            vec![Input::Adopt { waiting }]
        }
        Word::Create | Word::Recorded | Word::NobodyLeft | Word::RunFailed => Vec::new(),
    }
}

/// The status in all circumstances under which the input may be legal.
fn circumstances(status: Status, word: Word) -> Vec<Stage> {
    let mut plain = Stage::reach(status);
    let mut stages = Vec::new();
    if word == Word::Resume && !status.is_ended() {
        plain.step(&Input::Pause);
    }
    // The due times for the answer, the beginning, the heartbeat and the rest have passed.
    if word == Word::BackoffOver && status == Status::Reassigning {
        plain.step(&Input::NobodyViable { seat: 0, outlook: Outlook::Declined, decision: None });
    }
    if word == Word::Adopt {
        plain.run.waiting = Some(super::stage::waiting());
    }
    plain.pass(3_600);
    stages.push(plain);
    if word == Word::OfflineClaim
        && matches!(status, Status::Assigned | Status::Claimed | Status::Processing | Status::Reassigning)
    {
        stages.push(after_d0_was_silent(status));
        stages.push(after_two_were_cut_off(status));
    }
    if word == Word::NobodyViable && status.is_open() {
        let mut last = Stage::reach(status);
        last.run.seats[0].rounds = last.run.settings.backoff.rounds;
        stages.push(last);
    }
    stages
}

/// `d0` was asked first and did not answer; then the run reached this status with `d1`.
fn after_d0_was_silent(status: Status) -> Stage {
    let mut stage = Stage::new();
    stage.assign("d0").pass(60).step(&Input::AssignmentTimeout { seat: 0 });
    go_on(stage, status)
}

/// Like the above, and `d1` holds a claim from before its disconnection, but was assigned after `d0`.
fn after_two_were_cut_off(status: Status) -> Stage {
    let mut stage = Stage::new();
    stage.assign("d0").pass(60).step(&Input::AssignmentTimeout { seat: 0 });
    stage.assign("d1").pass(60).step(&Input::AssignmentTimeout { seat: 0 });
    if matches!(status, Status::Claimed | Status::Processing) {
        stage.step(&Input::OfflineClaim(Act { device: device("d1"), seat: 0, token: Token(2) }));
        if status == Status::Processing {
            stage.does(Doing::Start);
        }
        return stage;
    }
    go_on(stage, status)
}

fn go_on(mut stage: Stage, status: Status) -> Stage {
    if status != Status::Reassigning {
        stage.assign("d1");
    }
    if matches!(status, Status::Claimed | Status::Processing) {
        stage.does(Doing::Accept);
    }
    if status == Status::Processing {
        stage.does(Doing::Start);
    }
    stage
}

#[test]
fn every_legal_pair_is_possible_and_every_way_of_the_table_is_taken() {
    let mut taken: BTreeSet<(Status, Word, Status)> = BTreeSet::new();
    for status in STORED {
        for word in Word::ALL.iter().copied().filter(|word| is_legal(status, *word)) {
            let mut possible = false;
            for stage in circumstances(status, word) {
                for input in inputs(&stage, word) {
                    let mut stage = stage.clone();
                    let lines = stage.log.len();
                    let Ok(Stepped::Changed(_)) = stage.try_step(&input) else { continue };
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
        .filter(|way| way.kind != Kind::Repeat && !taken.contains(&(way.from, way.on, way.to)))
        .collect();
    assert!(missing.is_empty(), "never taken: {missing:?}");
}

/// The effect of another seat's failure on a seat in each status.
fn of_several_seats() -> BTreeSet<(Status, Word, Status)> {
    let mut taken = BTreeSet::new();
    for status in STORED.into_iter().filter(|status| !status.is_ended()) {
        let mut stage = Stage::of(crate::claim::RunSpec { devices: 2, ..super::stage::spec() });
        stage.assign("d1").does(Doing::Accept).does(Doing::Start);
        if status != Status::Created {
            stage.step(&assign(1, "d2"));
        }
        let follow: &[Doing] = match status {
            Status::Claimed => &[Doing::Accept],
            Status::Processing => &[Doing::Accept, Doing::Start],
            Status::Reassigning => &[Doing::Decline { reason: None }],
            Status::Created
            | Status::AssigningToSelf
            | Status::AssigningToOther
            | Status::Assigned
            | Status::Completed
            | Status::Failed => &[],
        };
        for doing in follow {
            let input = stage.by_holder_of(1, doing.clone());
            stage.step(&input);
        }
        assert_eq!(stage.run.seats[1].status(), status);
        let lines = stage.log.len();
        stage.does(Doing::Fail { failure: error("no"), retryable: false });
        taken.extend(stage.log[lines..].iter().map(|entry| (entry.from.unwrap(), entry.word, entry.to)));
        assert_eq!((stage.status(), stage.run.seats[1].status()), (Status::Failed, Status::Failed));
        let told = stage.run.seats[1].previous.last().map(|former| former.reason);
        let expected = status.is_held().then_some(Ended::Released);
        assert!(status == Status::Reassigning || told == expected, "{status}: {told:?}");
    }
    taken
}

#[test]
fn every_pair_that_is_not_in_the_table_is_refused_and_the_state_is_named() {
    for status in STORED {
        for word in Word::ALL.iter().copied().filter(|word| !is_legal(status, *word)) {
            for stage in circumstances(status, word) {
                for input in inputs(&stage, word) {
                    let is_repeat = MOVES
                        .iter()
                        .any(|way| way.from == status && way.on == word && way.kind == Kind::Repeat);
                    let mut stage = stage.clone();
                    match stage.try_step(&input) {
                        Err(refusal) => {
                            assert_eq!((refusal.status, refusal.input), (status, word));
                            assert!(refusal.to_string().contains(status.as_str()), "{refusal}");
                        }
                        Ok(stepped) => {
                            assert!(is_repeat && stepped == Stepped::Already, "{status}, {input:?}")
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn what_was_done_is_answered_as_done_for_whoever_did_it() {
    for (status, doing) in [
        (Status::Claimed, Doing::Accept),
        (Status::Processing, Doing::Accept),
        (Status::Processing, Doing::Start),
        (Status::Completed, Doing::Complete { output: output() }),
        (Status::Failed, Doing::Fail { failure: error("no"), retryable: false }),
    ] {
        let mut stage = Stage::reach(status);
        stage.already(&act("d1", 1, doing.clone()));
        let refusal = stage.refused(&act("d2", 1, doing.clone()));
        assert_eq!(refusal.status, status);
        stage.refused(&act("d1", 7, doing));
    }
    let mut stage = Stage::new();
    stage.step(&self_claim("d1"));
    stage.already(&self_claim("d1"));
    stage.step(&Input::Cancel { reason: None });
    stage.already(&Input::Cancel { reason: None });
}
