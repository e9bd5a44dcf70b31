//! Pause, resume, cancel, retry, and pre-emption.

use super::stage::{Stage, act, assign, at, error, output, self_claim, spec, waiting};
use crate::claim::{
    Doing, Due, Ended, FailureKind, Input, Occupied, RunSpec, SeatState, Status, Token, Told, WaitingAction,
    Why, due, victim,
};
use crate::id::{Epoch, RunKey, TenantId};

#[test]
fn while_a_run_is_paused_the_times_to_answer_and_to_begin_stand_still_and_then_begin_anew() {
    let mut stage = Stage::reach(Status::Assigned);
    stage.pass(50).step(&Input::Pause).pass(500);
    assert_eq!(due(&stage.run, 0), None);
    assert_eq!(stage.refused(&Input::AssignmentTimeout { seat: 0 }).why, Why::Paused);
    stage.step(&Input::Resume);
    assert_eq!(due(&stage.run, 0), Some((at(610), Due::AssignmentTimeout)));
    stage.does(Doing::Accept).step(&Input::Pause);
    assert_eq!(due(&stage.run, 0), Some((at(640), Due::HeartbeatTimeout)), "a claim is watched in any case");
    assert_eq!(stage.refused(&act("d1", 1, Doing::Start)).why, Why::Paused);
    stage.pass(89).does(Doing::Heartbeat).pass(89).step(&Input::Resume);
    assert_eq!(due(&stage.run, 0), Some((at(729), Due::HeartbeatTimeout)));
    stage.does(Doing::Start);
}

#[test]
fn while_a_run_is_paused_nobody_new_gets_it_and_who_works_may_finish() {
    let mut stage = Stage::new();
    stage.step(&Input::Pause);
    assert_eq!(due(&stage.run, 0), None);
    assert_eq!(stage.refused(&assign(0, "d1")).why, Why::Paused);
    assert_eq!(stage.refused(&self_claim("d1")).why, Why::Paused);
    stage.already(&Input::Pause);
    stage.step(&Input::Resume).assign("d1").does(Doing::Accept).does(Doing::Start).step(&Input::Pause);
    stage.does(Doing::Complete { output: output() });
    assert_eq!((stage.status(), stage.run.paused_at), (Status::Completed, None));
}

#[test]
fn a_silent_holder_loses_a_paused_run_and_nobody_gets_it_before_it_goes_on() {
    let mut stage = Stage::reach(Status::Processing);
    stage.step(&Input::Pause).pass(90).step(&Input::HeartbeatTimeout { seat: 0 });
    assert_eq!((stage.status(), due(&stage.run, 0)), (Status::Reassigning, None));
    stage.step(&Input::Resume);
    assert_eq!(due(&stage.run, 0), Some((at(90), Due::Place)));
}

#[test]
fn a_cancelled_run_has_failed_with_that_reason_and_its_device_has_lost_it() {
    let mut stage = Stage::of(RunSpec { waiting: Some(waiting()), ..spec() });
    stage.assign("d1").does(Doing::Accept).step(&Input::Cancel { reason: Some("not needed".to_owned()) });
    let SeatState::Failed { failure, .. } = &stage.run.seats[0].state else { panic!("{:?}", stage.run) };
    assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::Cancelled, "not needed"));
    assert_eq!(stage.run.seats[0].previous[0].reason, Ended::Released);
    assert_eq!(stage.refused(&act("d1", 1, Doing::Start)).why, Why::StaleToken);
    let told = stage.last.as_ref().unwrap().told.clone();
    assert!(matches!(told, Some(Told::Failed { error }) if error.to_string() == "cancelled: not needed"));
}

#[test]
fn a_failed_run_that_is_retried_begins_again_with_everybody() {
    let mut stage = Stage::reach(Status::Failed);
    stage.pass(7).step(&Input::Retry);
    assert_eq!(due(&stage.run, 0), Some((at(7), Due::Place)));
    stage.assign("d1");
    assert_eq!(stage.run.seats[0].held().unwrap().token, Token(2));
    assert_eq!(stage.run.seats[0].reassignments, 0);
}

#[test]
fn a_failed_run_of_a_definition_is_retried_there() {
    let mut stage = Stage::of(RunSpec { waiting: Some(waiting()), ..spec() });
    stage.assign("d1").does(Doing::Accept).does(Doing::Fail { failure: error("no"), retryable: false });
    let refusal = stage.refused(&Input::Retry);
    assert!(refusal.to_string().contains("reported to the execution default/e-1"), "{refusal}");
}

#[test]
fn a_run_whose_action_is_leased_anew_settles_under_the_new_lease() {
    let leased = |epoch| Input::Adopt { waiting: WaitingAction { epoch: Epoch(epoch), ..waiting() } };
    let mut stage = Stage::of(RunSpec { waiting: Some(waiting()), ..spec() });
    stage.assign("d1").does(Doing::Accept).does(Doing::Start).step(&leased(2));
    assert_eq!((stage.status(), stage.run.waiting.as_ref().unwrap().epoch), (Status::Processing, Epoch(2)));
    stage.already(&leased(2));
    assert_eq!(stage.refused(&leased(1)).why, Why::StaleToken);
    stage.does(Doing::Complete { output: output() });
    let told = stage.last.as_ref().unwrap().told.clone();
    stage.step(&leased(3));
    assert_eq!(stage.last.as_ref().unwrap().told, told, "the outcome is delivered once more");
    let mut other = waiting();
    other.key.seq = crate::id::Seq(9);
    let refusal = stage.refused(&Input::Adopt { waiting: other });
    assert!(matches!(refusal.why, Why::BelongsTo(_)));
    assert_eq!(Stage::new().refused(&leased(1)).why, Why::NotNow, "no execution waits for it");
}

#[test]
fn a_failed_run_begins_again_when_its_action_does() {
    let mut stage = Stage::of(RunSpec { waiting: Some(waiting()), ..spec() });
    stage.assign("d1").does(Doing::Accept).does(Doing::Fail { failure: error("no"), retryable: false });
    stage.step(&Input::Adopt { waiting: WaitingAction { epoch: Epoch(2), ..waiting() } });
    assert_eq!((stage.status(), &stage.last.as_ref().unwrap().told), (Status::Reassigning, &None));
}

fn occupied(run: &str, status: Status, priority: i32, second: u64) -> Occupied {
    let run = RunKey { tenant: TenantId::default_tenant(), run: run.parse().unwrap() };
    Occupied {
        run,
        seat: 0,
        device: "d1".parse().unwrap(),
        token: Token(1),
        status,
        priority,
        assigned_at: at(second),
    }
}

#[test]
fn the_least_important_work_gives_way_and_of_equal_work_the_youngest() {
    let run = Stage::of(RunSpec { priority: 5, preempt: true, ..spec() }).run;
    let seats = [
        occupied("asked", Status::Assigned, 0, 1),
        occupied("equal", Status::Processing, 5, 1),
        occupied("older", Status::Processing, 2, 1),
        occupied("younger", Status::Claimed, 2, 2),
        occupied("higher", Status::Claimed, 3, 1),
    ];
    assert_eq!(victim(&run, &seats).unwrap().run.run.as_str(), "younger");
    assert_eq!(victim(&run, &seats[..2]), None, "no claimed seat has a lower priority");
    let modest = Stage::of(RunSpec { priority: 5, ..spec() }).run;
    assert_eq!(victim(&modest, &seats), None, "the run may not pre-empt");
}

#[test]
fn only_work_of_lower_priority_gives_way_and_its_progress_is_kept() {
    let mut stage = Stage::of(RunSpec { priority: 3, ..spec() });
    stage.assign("d1").does(Doing::Accept).does(Doing::Start);
    stage.does(Doing::Progress(super::stage::progress(6)));
    let preempt = |priority| Input::Preempt { seat: 0, by: "r-2".parse().unwrap(), priority };
    assert_eq!(stage.refused(&preempt(3)).why, Why::NotHigher);
    stage.step(&preempt(4));
    assert_eq!(stage.run.seats[0].previous[0].reason, Ended::Preempted);
    assert_eq!(stage.run.seats[0].progress, Some(super::stage::progress(6)));
    assert_eq!(due(&stage.run, 0), Some((at(0), Due::Place)));
}
