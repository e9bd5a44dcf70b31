//! Backoff: all devices decline, none is able, none is left.

use std::time::Duration;

use super::stage::{Stage, assign, at, device, spec, waiting};
use crate::action::Attempt;
use crate::claim::{
    Assign, Backoff, Doing, Due, FailureKind, Input, Outlook, RunSpec, SeatState, Settings, Status, Told,
    Why, Word, due,
};

fn nobody(outlook: Outlook) -> Input {
    Input::NobodyViable { seat: 0, outlook, decision: None }
}

fn short(max_reassignments: u32, rounds: u32) -> Settings {
    let backoff = Backoff { rounds, ..Backoff::default() };
    Settings { max_reassignments, backoff, ..Settings::default() }
}

#[test]
fn when_everybody_has_declined_there_is_a_rest_that_doubles_and_then_all_may_be_asked_again() {
    let mut stage = Stage::new();
    stage.assign("d1").does(Doing::Decline { reason: None });
    assert_eq!(due(&stage.run, 0), Some((at(0), Due::Place)));
    stage.step(&nobody(Outlook::Declined));
    assert_eq!(due(&stage.run, 0), Some((at(5), Due::BackoffOver)));
    assert_eq!(stage.refused(&Input::BackoffOver { seat: 0 }).why, Why::NotDue);
    assert!(stage.run.seats[0].passed_over.contains(&device("d1")));
    stage.pass(5).step(&Input::BackoffOver { seat: 0 });
    assert!(stage.run.seats[0].passed_over.is_empty());
    assert_eq!(due(&stage.run, 0), Some((at(0), Due::Place)));
    stage.assign("d1").does(Doing::Decline { reason: None }).step(&nobody(Outlook::Declined));
    assert_eq!(due(&stage.run, 0), Some((at(15), Due::BackoffOver)), "twice as long");
    stage.pass(10).step(&Input::BackoffOver { seat: 0 }).assign("d1").does(Doing::Accept);
    assert_eq!((stage.run.seats[0].rounds, stage.run.seats[0].waits), (0, 0), "a device has accepted");
}

#[test]
fn after_the_last_rest_the_run_has_failed_and_a_line_of_the_log_says_that_nobody_is_left() {
    let mut stage = Stage::of(RunSpec { settings: short(10, 2), waiting: Some(waiting()), ..spec() });
    for rest in [5, 10] {
        stage.step(&nobody(Outlook::Nobody)).pass(rest).step(&Input::BackoffOver { seat: 0 });
    }
    stage.step(&nobody(Outlook::Nobody));
    assert_eq!(stage.status(), Status::Failed);
    assert_eq!(stage.log.last().unwrap().word, Word::NobodyLeft);
    let Some(Told::Failed { error }) = stage.last.as_ref().unwrap().told.clone() else { panic!() };
    assert_eq!(error.to_string(), "nobody_left: no device is left: no device is able after 2 rests");
    assert!(matches!(Told::Failed { error }.attempt(), Attempt::Permanent { .. }));
}

#[test]
fn devices_that_are_only_busy_are_waited_for_without_end_and_without_filling_the_log() {
    let mut stage = Stage::of(RunSpec { settings: short(10, 1), ..spec() });
    let lines = stage.log.len();
    for _ in 0..500 {
        stage.step(&nobody(Outlook::Busy));
        let SeatState::Reassigning { rest_until: Some(until), .. } = stage.run.seats[0].state else {
            panic!()
        };
        assert!(until.since(stage.now) <= Duration::from_secs(30));
        stage.now = until;
        stage.step(&Input::BackoffOver { seat: 0 });
    }
    assert_eq!((stage.status(), stage.log.len()), (Status::Reassigning, lines + 1));
}

#[test]
fn a_wait_for_room_that_begins_anew_is_in_the_log_again() {
    let mut stage = Stage::new();
    stage.step(&nobody(Outlook::Busy)).pass(30).step(&Input::BackoffOver { seat: 0 });
    stage.assign("d1").pass(60).step(&Input::AssignmentTimeout { seat: 0 });
    let lines = stage.log.len();
    stage.step(&nobody(Outlook::Busy));
    assert_eq!(stage.log.len(), lines + 1);
    assert_eq!(stage.log.last().unwrap().word, Word::NobodyViable);
}

#[test]
fn a_seat_is_reassigned_so_often_and_not_once_more() {
    let mut stage = Stage::of(RunSpec { settings: short(2, 9), ..spec() });
    for device in ["d1", "d2", "d3"] {
        assert!(stage.run.status().is_open(), "{device}");
        stage.assign(device).does(Doing::Decline { reason: Some("busy".to_owned()) });
    }
    let SeatState::Failed { failure, .. } = &stage.run.seats[0].state else { panic!("{:?}", stage.run) };
    assert_eq!(failure.kind, FailureKind::NobodyLeft);
    assert_eq!(failure.message, "no device is left: reassigned 2 times, and then declined (busy)");
    let words: Vec<&str> = stage.log.iter().rev().take(2).map(|entry| entry.word.as_str()).collect();
    assert_eq!(words, ["nobody_left", "decline"]);
}

#[test]
fn pre_emption_is_not_counted() {
    let mut stage = Stage::of(RunSpec { settings: short(0, 9), ..spec() });
    let preempt = Input::Preempt { seat: 0, by: "r-2".parse().unwrap(), priority: 1 };
    for _ in 0..5 {
        stage.assign("d1").does(Doing::Accept).step(&preempt);
    }
    assert_eq!(stage.status(), Status::Reassigning);
    assert!(stage.run.seats[0].passed_over.is_empty(), "it may be asked again once it has capacity");
}

#[test]
fn what_is_assigned_by_hand_waits_for_a_hand() {
    let mut stage = Stage::of(RunSpec { assign: Assign::Manual, settings: short(0, 0), ..spec() });
    assert_eq!(due(&stage.run, 0), None);
    assert_eq!(stage.refused(&nobody(Outlook::Nobody)).why, Why::Manual);
    for _ in 0..3 {
        stage.step(&assign(0, "d1")).pass(60).step(&Input::AssignmentTimeout { seat: 0 });
        assert_eq!((stage.status(), due(&stage.run, 0)), (Status::Reassigning, None));
    }
}
