//! The outcome delivered to the waiting execution.

use millstream_model::attempt::AttemptOutcome;

use super::fixture::{RunFixture, error, name, output, spec, waiting};
use crate::claim::{DeviceAction, RunOutcome, RunSpec, SeatFailure};

fn told(stage: &RunFixture) -> Option<RunOutcome> {
    stage.last.as_ref().unwrap().told.clone()
}

#[test]
fn run_outcome_has_output_and_device() {
    let mut stage = RunFixture::of(RunSpec { waiting: Some(waiting()), ..spec() });
    stage.assign("d1").does(DeviceAction::Accept).does(DeviceAction::Start);
    assert_eq!(told(&stage), None);
    stage.does(DeviceAction::Complete { output: output() });
    let Some(RunOutcome::Completed { result }) = told(&stage) else { panic!() };
    assert_eq!(result.as_str(), r#"{"device":"d1","output":{"frames":24}}"#);
    assert_eq!(
        RunOutcome::Completed { result: result.clone() }.to_attempt(),
        AttemptOutcome::Success { result }
    );
}

#[test]
fn run_outcome_lists_outputs_of_seats() {
    let mut stage = RunFixture::of(RunSpec { waiting: Some(waiting()), devices: 2, ..spec() });
    for (seat, device) in [(0, "d1"), (1, "d2")] {
        stage.step(&super::fixture::assign(seat, device));
        for doing in [DeviceAction::Accept, DeviceAction::Start, DeviceAction::Complete { output: output() }]
        {
            assert_eq!(told(&stage), None);
            let input = stage.by_holder_of(seat, doing);
            stage.step(&input);
        }
    }
    let Some(RunOutcome::Completed { result }) = told(&stage) else { panic!() };
    let one = |device: &str| format!(r#"{{"device":"{device}","output":{{"frames":24}}}}"#);
    let expected =
        format!(r#"{{"device":"d1","output":{{"frames":24}},"seats":[{},{}]}}"#, one("d1"), one("d2"));
    assert_eq!(result.as_str(), expected);
}

#[test]
fn run_outcome_keeps_device_error() {
    let mut stage = RunFixture::of(RunSpec { waiting: Some(waiting()), ..spec() });
    let failure = SeatFailure { class: Some(name("out_of_paper")), ..error("tray 2") };
    stage.assign("d1").does(DeviceAction::Accept).does(DeviceAction::Fail { failure, retryable: false });
    let Some(RunOutcome::Failed { error }) = told(&stage) else { panic!() };
    assert_eq!(error.to_string(), "out_of_paper: tray 2");
}
