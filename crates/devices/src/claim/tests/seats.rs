//! Runs with several seats.

use super::fixture::{RunFixture, assign, device, error, output, self_claim, spec, waiting};
use crate::claim::{
    DeviceAction, RunInput, RunOutcome, RunRefusalReason, RunSpec, SeatFailureKind, SeatLossReason,
    SeatState, SeatStatus, create_run,
};

fn pair() -> RunFixture {
    RunFixture::of(RunSpec { devices: 2, waiting: Some(waiting()), ..spec() })
}

#[test]
fn device_gets_one_seat_per_run() {
    let mut stage = pair();
    stage.assign("d1");
    assert_eq!(stage.refused(&assign(1, "d1")).why, RunRefusalReason::OnAnotherSeat);
    stage
        .does(DeviceAction::Accept)
        .does(DeviceAction::Start)
        .does(DeviceAction::Complete { output: output() });
    assert_eq!(stage.refused(&assign(1, "d1")).why, RunRefusalReason::OnAnotherSeat);
    let claim = RunInput::SelfClaim { device: device("d1"), seat: Some(1), fitness: Ok(()), decision: None };
    assert_eq!(stage.refused(&claim).why, RunRefusalReason::OnAnotherSeat);
    stage.step(&assign(1, "d2"));
}

#[test]
fn self_claim_takes_first_free_seat() {
    let mut stage = pair();
    stage.step(&self_claim("d1")).step(&self_claim("d2"));
    let holders: Vec<_> =
        stage.run.seats.iter().map(|seat| seat.current_holding().unwrap().device.clone()).collect();
    assert_eq!(holders, [device("d1"), device("d2")]);
    assert_eq!(stage.refused(&self_claim("d3")).why, RunRefusalReason::Taken);
}

#[test]
fn run_status_follows_least_advanced_seat() {
    let mut stage = pair();
    stage
        .assign("d1")
        .does(DeviceAction::Accept)
        .does(DeviceAction::Start)
        .does(DeviceAction::Complete { output: output() });
    assert_eq!(stage.status(), SeatStatus::Created);
    stage.step(&assign(1, "d2"));
    assert_eq!((stage.status(), stage.run.ended_at()), (SeatStatus::Assigned, None));
    for doing in [DeviceAction::Accept, DeviceAction::Start, DeviceAction::Complete { output: output() }] {
        let input = stage.by_holder_of(1, doing);
        stage.step(&input);
    }
    assert_eq!(stage.status(), SeatStatus::Completed);
}

#[test]
fn failed_seat_releases_other_seats() {
    let mut stage = pair();
    stage.assign("d1").does(DeviceAction::Accept).step(&assign(1, "d2"));
    stage.does(DeviceAction::Fail { failure: error("no disk"), retryable: false });
    let SeatState::Failed { failure, .. } = &stage.run.seats[1].state else { panic!("{:?}", stage.run) };
    assert_eq!(failure.kind, SeatFailureKind::OtherSeat);
    assert_eq!(stage.run.seats[1].previous[0].reason, SeatLossReason::Released);
    let Some(RunOutcome::Failed { error }) = stage.last.as_ref().unwrap().told.clone() else { panic!() };
    assert_eq!(error.to_string(), "device: no disk");
    assert_eq!(stage.last.as_ref().unwrap().affected_devices().len(), 2, "both devices are affected");
}

#[test]
fn run_retry_keeps_completed_seats() {
    let mut stage = RunFixture::of(RunSpec { devices: 2, ..spec() });
    stage
        .assign("d1")
        .does(DeviceAction::Accept)
        .does(DeviceAction::Start)
        .does(DeviceAction::Complete { output: output() });
    stage.step(&assign(1, "d2"));
    stage.step(&RunInput::Cancel { reason: None }).step(&RunInput::Retry);
    let statuses: Vec<SeatStatus> = stage.run.seats.iter().map(|seat| seat.status()).collect();
    assert_eq!(statuses, [SeatStatus::Completed, SeatStatus::Reassigning]);
}

#[test]
fn invalid_device_count_is_a_problem() {
    for (devices, seats) in [(0, 1), (101, 100)] {
        let wrong = RunSpec { devices, min_battery: Some(101), ..spec() };
        let paths: Vec<String> = wrong.find_problems().into_iter().map(|problem| problem.path).collect();
        assert_eq!(paths, ["devices", "min_battery"]);
        assert_eq!(create_run(wrong, None, super::fixture::at(0)).run.seats.len(), seats);
    }
    assert_eq!(spec().find_problems(), []);
    let mut stage = RunFixture::new();
    assert_eq!(stage.refused(&assign(1, "d1")).why, RunRefusalReason::NoSuchSeat);
}
