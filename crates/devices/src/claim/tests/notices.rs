//! Notices of runs to the outbound sinks.

use millstream_model::id::RunId;
use millstream_model::notice::{Notice, NoticeKind};

use super::fixture::{RunFixture, assign, error, name, output, spec, waiting};
use crate::claim::{
    DeviceAction, RunInput, RunSettings, RunSpec, RunStepOutcome, SeatBackoff, SeatFailure, SeatOutlook,
    run_notices, step_run,
};

/// The notices of the last change.
fn told(stage: &RunFixture) -> Vec<Notice> {
    let change = stage.last.as_ref().unwrap();
    run_notices(&RunId::parse("r-1").unwrap(), &change.run, &change.log)
}

fn kinds(stage: &RunFixture) -> Vec<NoticeKind> {
    told(stage).iter().map(|notice| notice.kind).collect()
}

fn once() -> RunSettings {
    let backoff = SeatBackoff { rounds: 0, ..RunSettings::default().backoff };
    RunSettings { max_reassignments: 0, backoff, ..RunSettings::default() }
}

fn no_viable_device(seat: u16) -> RunInput {
    RunInput::NobodyViable { seat, outlook: SeatOutlook::Nobody, decision: None }
}

#[test]
fn run_without_device_left_causes_notice() {
    let mut stage = RunFixture::of(RunSpec { settings: once(), waiting: Some(waiting()), ..spec() });
    stage.assign("d1").does(DeviceAction::Decline { reason: Some("busy".to_owned()) });
    let told = told(&stage);
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].kind, told[0].subject.as_str()), (NoticeKind::RunNobodyLeft, "r-1"));
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
fn run_without_any_device_causes_notice() {
    let mut stage = RunFixture::of(RunSpec { settings: once(), ..spec() });
    stage.step(&no_viable_device(0));
    assert_eq!(kinds(&stage), [NoticeKind::RunNobodyLeft]);
}

#[test]
fn failed_run_notice_keeps_device_error() {
    let mut stage = RunFixture::new();
    let failure = SeatFailure { class: Some(name("broken_lens")), ..error("it is dark") };
    stage.assign("d1").does(DeviceAction::Accept).does(DeviceAction::Start);
    stage.does(DeviceAction::Fail { failure, retryable: false });
    let told = told(&stage);
    assert_eq!(kinds(&stage), [NoticeKind::RunFailed]);
    assert!(told[0].data.as_str().contains(r#""reason":"it is dark","class":"broken_lens""#), "{told:?}");
}

#[test]
fn only_the_failed_seat_causes_notice() {
    let mut stage = RunFixture::of(RunSpec { devices: 3, settings: once(), ..spec() });
    stage.step(&assign(1, "d1")).step(&no_viable_device(2));
    assert_eq!(kinds(&stage), [NoticeKind::RunNobodyLeft]);
    assert!(told(&stage)[0].data.as_str().contains(r#""seat":2"#));
}

#[test]
fn successful_and_cancelled_runs_cause_no_notice() {
    let mut stage = RunFixture::new();
    assert_eq!(kinds(&stage), []);
    for doing in [
        DeviceAction::Accept,
        DeviceAction::Start,
        DeviceAction::Fail { failure: error("once more"), retryable: true },
    ] {
        if stage.run.seats[0].current_holding().is_none() {
            stage.assign("d1");
        }
        stage.does(doing);
        assert_eq!(kinds(&stage), []);
    }
    stage
        .assign("d2")
        .does(DeviceAction::Accept)
        .does(DeviceAction::Start)
        .does(DeviceAction::Complete { output: output() });
    assert_eq!(kinds(&stage), []);
    let mut stage = RunFixture::of(RunSpec { devices: 2, ..spec() });
    stage.step(&RunInput::Cancel { reason: Some("not needed".to_owned()) });
    assert_eq!(kinds(&stage), []);
}

#[test]
fn retried_run_causes_second_notice() {
    let mut stage = RunFixture::of(RunSpec { settings: once(), ..spec() });
    stage.step(&no_viable_device(0));
    assert_eq!(kinds(&stage), [NoticeKind::RunNobodyLeft]);
    stage.step(&RunInput::Retry);
    assert_eq!(kinds(&stage), []);
    stage.step(&no_viable_device(0));
    assert_eq!(kinds(&stage), [NoticeKind::RunNobodyLeft]);
}

#[test]
fn merged_change_keeps_failure_notice() {
    let stage = RunFixture::of(RunSpec { settings: once(), ..spec() });
    let change = stage.last.unwrap();
    let next = step_run(change.run.clone(), &no_viable_device(0), None, stage.now).unwrap();
    assert!(matches!(next, RunStepOutcome::Changed(_)));
    let both = change.merge_next(next);
    assert_eq!(run_notices(&RunId::parse("r-1").unwrap(), &both.run, &both.log).len(), 1);
}
