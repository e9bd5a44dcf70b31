//! The outcome delivered to the waiting execution.

use super::stage::{Stage, error, name, output, spec, waiting};
use crate::action::Attempt;
use crate::claim::{Doing, Failure, RunSpec, Told};

fn told(stage: &Stage) -> Option<Told> {
    stage.last.as_ref().unwrap().told.clone()
}

#[test]
fn the_execution_that_waits_is_told_the_output_and_who_made_it_once() {
    let mut stage = Stage::of(RunSpec { waiting: Some(waiting()), ..spec() });
    stage.assign("d1").does(Doing::Accept).does(Doing::Start);
    assert_eq!(told(&stage), None);
    stage.does(Doing::Complete { output: output() });
    let Some(Told::Completed { result }) = told(&stage) else { panic!() };
    assert_eq!(result.as_str(), r#"{"device":"d1","output":{"frames":24}}"#);
    assert_eq!(Told::Completed { result: result.clone() }.attempt(), Attempt::Success { result });
}

#[test]
fn of_several_devices_each_output_is_told() {
    let mut stage = Stage::of(RunSpec { waiting: Some(waiting()), devices: 2, ..spec() });
    for (seat, device) in [(0, "d1"), (1, "d2")] {
        stage.step(&super::stage::assign(seat, device));
        for doing in [Doing::Accept, Doing::Start, Doing::Complete { output: output() }] {
            assert_eq!(told(&stage), None);
            let input = stage.by_holder_of(seat, doing);
            stage.step(&input);
        }
    }
    let Some(Told::Completed { result }) = told(&stage) else { panic!() };
    let one = |device: &str| format!(r#"{{"device":"{device}","output":{{"frames":24}}}}"#);
    let expected =
        format!(r#"{{"device":"d1","output":{{"frames":24}},"seats":[{},{}]}}"#, one("d1"), one("d2"));
    assert_eq!(result.as_str(), expected);
}

#[test]
fn a_failure_is_told_in_the_device_s_own_words() {
    let mut stage = Stage::of(RunSpec { waiting: Some(waiting()), ..spec() });
    let failure = Failure { class: Some(name("out_of_paper")), ..error("tray 2") };
    stage.assign("d1").does(Doing::Accept).does(Doing::Fail { failure, retryable: false });
    let Some(Told::Failed { error }) = told(&stage) else { panic!() };
    assert_eq!(error.to_string(), "out_of_paper: tray 2");
}
