//! Notices of runs to the outbound sinks.

use super::stage::{Stage, assign, error, name, output, spec, waiting};
use crate::claim::{Backoff, Doing, Failure, Input, Outlook, RunSpec, Settings, Stepped, notices, step};
use crate::id::RunId;
use crate::notice::{Kind, Notice};

/// The notices of the last change.
fn told(stage: &Stage) -> Vec<Notice> {
    let change = stage.last.as_ref().unwrap();
    notices(&RunId::parse("r-1").unwrap(), &change.run, &change.log)
}

fn kinds(stage: &Stage) -> Vec<Kind> {
    told(stage).iter().map(|notice| notice.kind).collect()
}

fn once() -> Settings {
    let backoff = Backoff { rounds: 0, ..Settings::default().backoff };
    Settings { max_reassignments: 0, backoff, ..Settings::default() }
}

fn nobody(seat: u16) -> Input {
    Input::NobodyViable { seat, outlook: Outlook::Nobody, decision: None }
}

#[test]
fn a_run_for_which_nobody_is_left_is_told_with_its_reason_and_who_waits_for_it() {
    let mut stage = Stage::of(RunSpec { settings: once(), waiting: Some(waiting()), ..spec() });
    stage.assign("d1").does(Doing::Decline { reason: Some("busy".to_owned()) });
    let told = told(&stage);
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].kind, told[0].subject.as_str()), (Kind::RunNobodyLeft, "r-1"));
    assert_eq!(
        told[0].data.as_str(),
        concat!(
            r#"{"type":"run.nobody_left","run_id":"r-1","at":"1970-01-01T00:00:00.000Z","kind":"render","#,
            r#""reason":"no device is left: reassigned 0 times, and then declined (busy)","seat":0,"#,
            r#""execution_id":"e-1"}"#
        )
    );
}

#[test]
fn nobody_is_left_as_well_where_nobody_was_ever_there() {
    let mut stage = Stage::of(RunSpec { settings: once(), ..spec() });
    stage.step(&nobody(0));
    assert_eq!(kinds(&stage), [Kind::RunNobodyLeft]);
}

#[test]
fn a_run_that_a_device_cannot_do_is_told_in_the_words_of_the_device() {
    let mut stage = Stage::new();
    let failure = Failure { class: Some(name("broken_lens")), ..error("it is dark") };
    stage.assign("d1").does(Doing::Accept).does(Doing::Start);
    stage.does(Doing::Fail { failure, retryable: false });
    let told = told(&stage);
    assert_eq!(kinds(&stage), [Kind::RunFailed]);
    assert!(told[0].data.as_str().contains(r#""reason":"it is dark","class":"broken_lens""#), "{told:?}");
}

#[test]
fn of_a_run_with_many_seats_only_the_one_that_failed_is_told() {
    let mut stage = Stage::of(RunSpec { devices: 3, settings: once(), ..spec() });
    stage.step(&assign(1, "d1")).step(&nobody(2));
    assert_eq!(kinds(&stage), [Kind::RunNobodyLeft]);
    assert!(told(&stage)[0].data.as_str().contains(r#""seat":2"#));
}

#[test]
fn what_goes_well_or_goes_on_or_was_asked_for_is_not_told() {
    let mut stage = Stage::new();
    assert_eq!(kinds(&stage), []);
    for doing in [Doing::Accept, Doing::Start, Doing::Fail { failure: error("once more"), retryable: true }] {
        if stage.run.seats[0].held().is_none() {
            stage.assign("d1");
        }
        stage.does(doing);
        assert_eq!(kinds(&stage), []);
    }
    stage.assign("d2").does(Doing::Accept).does(Doing::Start).does(Doing::Complete { output: output() });
    assert_eq!(kinds(&stage), []);
    let mut stage = Stage::of(RunSpec { devices: 2, ..spec() });
    stage.step(&Input::Cancel { reason: Some("not needed".to_owned()) });
    assert_eq!(kinds(&stage), []);
}

#[test]
fn a_run_that_is_tried_again_is_told_again_when_it_fails_again() {
    let mut stage = Stage::of(RunSpec { settings: once(), ..spec() });
    stage.step(&nobody(0));
    assert_eq!(kinds(&stage), [Kind::RunNobodyLeft]);
    stage.step(&Input::Retry);
    assert_eq!(kinds(&stage), []);
    stage.step(&nobody(0));
    assert_eq!(kinds(&stage), [Kind::RunNobodyLeft]);
}

#[test]
fn a_failure_is_told_when_it_is_written_with_what_came_before_it() {
    let stage = Stage::of(RunSpec { settings: once(), ..spec() });
    let change = stage.last.unwrap();
    let next = step(change.run.clone(), &nobody(0), None, stage.now).unwrap();
    assert!(matches!(next, Stepped::Changed(_)));
    let both = change.then(next);
    assert_eq!(notices(&RunId::parse("r-1").unwrap(), &both.run, &both.log).len(), 1);
}
