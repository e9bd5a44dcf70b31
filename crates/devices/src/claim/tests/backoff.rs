//! Backoff: all devices decline, none is able, none is left.

use std::time::Duration;

use millstream_model::attempt::AttemptOutcome;

use super::fixture::{RunFixture, assign, at, device, spec, waiting};
use crate::claim::{
    DeviceAction, RunAssignMode, RunInput, RunInputKind, RunOutcome, RunRefusalReason, RunSettings, RunSpec,
    SeatBackoff, SeatDue, SeatFailureKind, SeatOutlook, SeatState, SeatStatus, next_due,
};

fn no_viable_device(outlook: SeatOutlook) -> RunInput {
    RunInput::NobodyViable { seat: 0, outlook, decision: None }
}

fn short(max_reassignments: u32, rounds: u32) -> RunSettings {
    let backoff = SeatBackoff { rounds, ..SeatBackoff::default() };
    RunSettings { max_reassignments, backoff, ..RunSettings::default() }
}

#[test]
fn declined_seat_rests_with_doubling_backoff() {
    let mut stage = RunFixture::new();
    stage.assign("d1").does(DeviceAction::Decline { reason: None });
    assert_eq!(next_due(&stage.run, 0), Some((at(0), SeatDue::Place)));
    stage.step(&no_viable_device(SeatOutlook::Declined));
    assert_eq!(next_due(&stage.run, 0), Some((at(5), SeatDue::BackoffOver)));
    assert_eq!(stage.refused(&RunInput::BackoffOver { seat: 0 }).why, RunRefusalReason::NotDue);
    assert!(stage.run.seats[0].passed_over.contains(&device("d1")));
    stage.pass(5).step(&RunInput::BackoffOver { seat: 0 });
    assert!(stage.run.seats[0].passed_over.is_empty());
    assert_eq!(next_due(&stage.run, 0), Some((at(0), SeatDue::Place)));
    stage
        .assign("d1")
        .does(DeviceAction::Decline { reason: None })
        .step(&no_viable_device(SeatOutlook::Declined));
    assert_eq!(next_due(&stage.run, 0), Some((at(15), SeatDue::BackoffOver)), "twice as long");
    stage.pass(10).step(&RunInput::BackoffOver { seat: 0 }).assign("d1").does(DeviceAction::Accept);
    assert_eq!((stage.run.seats[0].rounds, stage.run.seats[0].waits), (0, 0), "a device has accepted");
}

#[test]
fn run_fails_after_last_rest() {
    let mut stage = RunFixture::of(RunSpec { settings: short(10, 2), waiting: Some(waiting()), ..spec() });
    for rest in [5, 10] {
        stage
            .step(&no_viable_device(SeatOutlook::Nobody))
            .pass(rest)
            .step(&RunInput::BackoffOver { seat: 0 });
    }
    stage.step(&no_viable_device(SeatOutlook::Nobody));
    assert_eq!(stage.status(), SeatStatus::Failed);
    assert_eq!(stage.log.last().unwrap().word, RunInputKind::NobodyLeft);
    let Some(RunOutcome::Failed { error }) = stage.last.as_ref().unwrap().told.clone() else { panic!() };
    assert_eq!(error.to_string(), "nobody_left: no device is left: no device is able after 2 rests");
    assert!(matches!(RunOutcome::Failed { error }.to_attempt(), AttemptOutcome::Permanent { .. }));
}

#[test]
fn busy_devices_are_awaited_without_limit() {
    let mut stage = RunFixture::of(RunSpec { settings: short(10, 1), ..spec() });
    let lines = stage.log.len();
    for _ in 0..500 {
        stage.step(&no_viable_device(SeatOutlook::Busy));
        let SeatState::Reassigning { rest_until: Some(until), .. } = stage.run.seats[0].state else {
            panic!()
        };
        assert!(until.since(stage.now) <= Duration::from_secs(30));
        stage.now = until;
        stage.step(&RunInput::BackoffOver { seat: 0 });
    }
    assert_eq!((stage.status(), stage.log.len()), (SeatStatus::Reassigning, lines + 1));
}

#[test]
fn new_wait_for_capacity_is_logged() {
    let mut stage = RunFixture::new();
    stage.step(&no_viable_device(SeatOutlook::Busy)).pass(30).step(&RunInput::BackoffOver { seat: 0 });
    stage.assign("d1").pass(60).step(&RunInput::AssignmentTimeout { seat: 0 });
    let lines = stage.log.len();
    stage.step(&no_viable_device(SeatOutlook::Busy));
    assert_eq!(stage.log.len(), lines + 1);
    assert_eq!(stage.log.last().unwrap().word, RunInputKind::NobodyViable);
}

#[test]
fn seat_reassignments_are_limited() {
    let mut stage = RunFixture::of(RunSpec { settings: short(2, 9), ..spec() });
    for device in ["d1", "d2", "d3"] {
        assert!(stage.run.status().is_open(), "{device}");
        stage.assign(device).does(DeviceAction::Decline { reason: Some("busy".to_owned()) });
    }
    let SeatState::Failed { failure, .. } = &stage.run.seats[0].state else { panic!("{:?}", stage.run) };
    assert_eq!(failure.kind, SeatFailureKind::NobodyLeft);
    assert_eq!(failure.message, "no device is left: reassigned 2 times, and then declined (busy)");
    let words: Vec<&str> = stage.log.iter().rev().take(2).map(|entry| entry.word.as_str()).collect();
    assert_eq!(words, ["nobody_left", "decline"]);
}

#[test]
fn preemption_is_no_reassignment() {
    let mut stage = RunFixture::of(RunSpec { settings: short(0, 9), ..spec() });
    let preempt = RunInput::Preempt { seat: 0, by: "r-2".parse().unwrap(), priority: 1 };
    for _ in 0..5 {
        stage.assign("d1").does(DeviceAction::Accept).step(&preempt);
    }
    assert_eq!(stage.status(), SeatStatus::Reassigning);
    assert!(stage.run.seats[0].passed_over.is_empty(), "it may be asked again once it has capacity");
}

#[test]
fn manual_run_waits_for_operator() {
    let mut stage =
        RunFixture::of(RunSpec { assign: RunAssignMode::Manual, settings: short(0, 0), ..spec() });
    assert_eq!(next_due(&stage.run, 0), None);
    assert_eq!(stage.refused(&no_viable_device(SeatOutlook::Nobody)).why, RunRefusalReason::Manual);
    for _ in 0..3 {
        stage.step(&assign(0, "d1")).pass(60).step(&RunInput::AssignmentTimeout { seat: 0 });
        assert_eq!((stage.status(), next_due(&stage.run, 0)), (SeatStatus::Reassigning, None));
    }
}
