//! Runs with several seats.

use super::stage::{Stage, assign, device, error, output, self_claim, spec, waiting};
use crate::claim::{Doing, Ended, FailureKind, Input, RunSpec, SeatState, Status, Told, Why, create};

fn pair() -> Stage {
    Stage::of(RunSpec { devices: 2, waiting: Some(waiting()), ..spec() })
}

#[test]
fn no_device_has_two_seats_of_a_run_not_even_one_after_the_other() {
    let mut stage = pair();
    stage.assign("d1");
    assert_eq!(stage.refused(&assign(1, "d1")).why, Why::OnAnotherSeat);
    stage.does(Doing::Accept).does(Doing::Start).does(Doing::Complete { output: output() });
    assert_eq!(stage.refused(&assign(1, "d1")).why, Why::OnAnotherSeat);
    let claim = Input::SelfClaim { device: device("d1"), seat: Some(1), fitness: Ok(()), decision: None };
    assert_eq!(stage.refused(&claim).why, Why::OnAnotherSeat);
    stage.step(&assign(1, "d2"));
}

#[test]
fn a_device_that_helps_itself_gets_the_first_seat_that_is_free() {
    let mut stage = pair();
    stage.step(&self_claim("d1")).step(&self_claim("d2"));
    let holders: Vec<_> = stage.run.seats.iter().map(|seat| seat.held().unwrap().device.clone()).collect();
    assert_eq!(holders, [device("d1"), device("d2")]);
    assert_eq!(stage.refused(&self_claim("d3")).why, Why::Taken);
}

#[test]
fn a_run_stands_where_its_last_seat_stands_and_is_complete_when_all_are() {
    let mut stage = pair();
    stage.assign("d1").does(Doing::Accept).does(Doing::Start).does(Doing::Complete { output: output() });
    assert_eq!(stage.status(), Status::Created);
    stage.step(&assign(1, "d2"));
    assert_eq!((stage.status(), stage.run.ended_at()), (Status::Assigned, None));
    for doing in [Doing::Accept, Doing::Start, Doing::Complete { output: output() }] {
        let input = stage.by_holder_of(1, doing);
        stage.step(&input);
    }
    assert_eq!(stage.status(), Status::Completed);
}

#[test]
fn when_one_has_failed_for_good_the_others_are_released_and_the_reason_is_told() {
    let mut stage = pair();
    stage.assign("d1").does(Doing::Accept).step(&assign(1, "d2"));
    stage.does(Doing::Fail { failure: error("no disk"), retryable: false });
    let SeatState::Failed { failure, .. } = &stage.run.seats[1].state else { panic!("{:?}", stage.run) };
    assert_eq!(failure.kind, FailureKind::OtherSeat);
    assert_eq!(stage.run.seats[1].previous[0].reason, Ended::Released);
    let Some(Told::Failed { error }) = stage.last.as_ref().unwrap().told.clone() else { panic!() };
    assert_eq!(error.to_string(), "device: no disk");
    assert_eq!(stage.last.as_ref().unwrap().devices().len(), 2, "both devices are affected");
}

#[test]
fn a_retry_leaves_what_was_completed_as_it_is() {
    let mut stage = Stage::of(RunSpec { devices: 2, ..spec() });
    stage.assign("d1").does(Doing::Accept).does(Doing::Start).does(Doing::Complete { output: output() });
    stage.step(&assign(1, "d2"));
    stage.step(&Input::Cancel { reason: None }).step(&Input::Retry);
    let statuses: Vec<Status> = stage.run.seats.iter().map(|seat| seat.status()).collect();
    assert_eq!(statuses, [Status::Completed, Status::Reassigning]);
}

#[test]
fn a_number_of_devices_that_makes_no_sense_is_a_problem_with_a_place() {
    for (devices, seats) in [(0, 1), (101, 100)] {
        let wrong = RunSpec { devices, min_battery: Some(101), ..spec() };
        let paths: Vec<String> = wrong.problems().into_iter().map(|problem| problem.path).collect();
        assert_eq!(paths, ["devices", "min_battery"]);
        assert_eq!(create(wrong, None, super::stage::at(0)).run.seats.len(), seats);
    }
    assert_eq!(spec().problems(), []);
    let mut stage = Stage::new();
    assert_eq!(stage.refused(&assign(1, "d1")).why, Why::NoSuchSeat);
}
