//! Pause, resume, cancel, retry, and pre-emption.

use millstream_model::id::{Epoch, RunKey, TenantId};

use super::fixture::{RunFixture, act, assign, at, error, output, self_claim, spec, waiting};
use crate::claim::{
    DeviceAction, OccupiedSeat, RunInput, RunOutcome, RunRefusalReason, RunSpec, SeatDue, SeatFailureKind,
    SeatLossReason, SeatState, SeatStatus, SeatToken, WaitingAction, next_due, preemption_victim,
};

#[test]
fn pause_restarts_answer_and_begin_timeouts() {
    let mut stage = RunFixture::reach(SeatStatus::Assigned);
    stage.pass(50).step(&RunInput::Pause).pass(500);
    assert_eq!(next_due(&stage.run, 0), None);
    assert_eq!(stage.refused(&RunInput::AssignmentTimeout { seat: 0 }).why, RunRefusalReason::Paused);
    stage.step(&RunInput::Resume);
    assert_eq!(next_due(&stage.run, 0), Some((at(610), SeatDue::AssignmentTimeout)));
    stage.does(DeviceAction::Accept).step(&RunInput::Pause);
    assert_eq!(
        next_due(&stage.run, 0),
        Some((at(640), SeatDue::HeartbeatTimeout)),
        "a claim is watched in any case"
    );
    assert_eq!(stage.refused(&act("d1", 1, DeviceAction::Start)).why, RunRefusalReason::Paused);
    stage.pass(89).does(DeviceAction::Heartbeat).pass(89).step(&RunInput::Resume);
    assert_eq!(next_due(&stage.run, 0), Some((at(729), SeatDue::HeartbeatTimeout)));
    stage.does(DeviceAction::Start);
}

#[test]
fn paused_run_finishes_claims_only() {
    let mut stage = RunFixture::new();
    stage.step(&RunInput::Pause);
    assert_eq!(next_due(&stage.run, 0), None);
    assert_eq!(stage.refused(&assign(0, "d1")).why, RunRefusalReason::Paused);
    assert_eq!(stage.refused(&self_claim("d1")).why, RunRefusalReason::Paused);
    stage.already(&RunInput::Pause);
    stage
        .step(&RunInput::Resume)
        .assign("d1")
        .does(DeviceAction::Accept)
        .does(DeviceAction::Start)
        .step(&RunInput::Pause);
    stage.does(DeviceAction::Complete { output: output() });
    assert_eq!((stage.status(), stage.run.paused_at), (SeatStatus::Completed, None));
}

#[test]
fn paused_run_still_expires_claims() {
    let mut stage = RunFixture::reach(SeatStatus::Processing);
    stage.step(&RunInput::Pause).pass(90).step(&RunInput::HeartbeatTimeout { seat: 0 });
    assert_eq!((stage.status(), next_due(&stage.run, 0)), (SeatStatus::Reassigning, None));
    stage.step(&RunInput::Resume);
    assert_eq!(next_due(&stage.run, 0), Some((at(90), SeatDue::Place)));
}

#[test]
fn cancelled_run_fails_and_releases_seat() {
    let mut stage = RunFixture::of(RunSpec { waiting: Some(waiting()), ..spec() });
    stage
        .assign("d1")
        .does(DeviceAction::Accept)
        .step(&RunInput::Cancel { reason: Some("not needed".to_owned()) });
    let SeatState::Failed { failure, .. } = &stage.run.seats[0].state else { panic!("{:?}", stage.run) };
    assert_eq!((failure.kind, failure.message.as_str()), (SeatFailureKind::Cancelled, "not needed"));
    assert_eq!(stage.run.seats[0].previous[0].reason, SeatLossReason::Released);
    assert_eq!(stage.refused(&act("d1", 1, DeviceAction::Start)).why, RunRefusalReason::StaleToken);
    let told = stage.last.as_ref().unwrap().told.clone();
    assert!(
        matches!(told, Some(RunOutcome::Failed { error }) if error.to_string() == "cancelled: not needed")
    );
}

#[test]
fn retried_run_may_ask_every_device() {
    let mut stage = RunFixture::reach(SeatStatus::Failed);
    stage.pass(7).step(&RunInput::Retry);
    assert_eq!(next_due(&stage.run, 0), Some((at(7), SeatDue::Place)));
    stage.assign("d1");
    assert_eq!(stage.run.seats[0].current_holding().unwrap().token, SeatToken(2));
    assert_eq!(stage.run.seats[0].reassignments, 0);
}

#[test]
fn reported_run_is_retried_by_execution() {
    let mut stage = RunFixture::of(RunSpec { waiting: Some(waiting()), ..spec() });
    stage
        .assign("d1")
        .does(DeviceAction::Accept)
        .does(DeviceAction::Fail { failure: error("no"), retryable: false });
    let refusal = stage.refused(&RunInput::Retry);
    assert!(refusal.to_string().contains("reported to the execution default/e-1"), "{refusal}");
}

#[test]
fn adopted_run_settles_under_new_lease() {
    let leased = |epoch| RunInput::Adopt { waiting: WaitingAction { epoch: Epoch(epoch), ..waiting() } };
    let mut stage = RunFixture::of(RunSpec { waiting: Some(waiting()), ..spec() });
    stage.assign("d1").does(DeviceAction::Accept).does(DeviceAction::Start).step(&leased(2));
    assert_eq!(
        (stage.status(), stage.run.waiting.as_ref().unwrap().epoch),
        (SeatStatus::Processing, Epoch(2))
    );
    stage.already(&leased(2));
    assert_eq!(stage.refused(&leased(1)).why, RunRefusalReason::StaleToken);
    stage.does(DeviceAction::Complete { output: output() });
    let told = stage.last.as_ref().unwrap().told.clone();
    stage.step(&leased(3));
    assert_eq!(stage.last.as_ref().unwrap().told, told, "the outcome is delivered once more");
    let mut other = waiting();
    other.key.seq = millstream_model::id::Seq(9);
    let refusal = stage.refused(&RunInput::Adopt { waiting: other });
    assert!(matches!(refusal.why, RunRefusalReason::BelongsTo(_)));
    assert_eq!(
        RunFixture::new().refused(&leased(1)).why,
        RunRefusalReason::NotNow,
        "no execution waits for it"
    );
}

#[test]
fn adoption_restarts_failed_run() {
    let mut stage = RunFixture::of(RunSpec { waiting: Some(waiting()), ..spec() });
    stage
        .assign("d1")
        .does(DeviceAction::Accept)
        .does(DeviceAction::Fail { failure: error("no"), retryable: false });
    stage.step(&RunInput::Adopt { waiting: WaitingAction { epoch: Epoch(2), ..waiting() } });
    assert_eq!((stage.status(), &stage.last.as_ref().unwrap().told), (SeatStatus::Reassigning, &None));
}

fn occupied(run: &str, status: SeatStatus, priority: i32, second: u64) -> OccupiedSeat {
    let run = RunKey { tenant: TenantId::default_tenant(), run: run.parse().unwrap() };
    OccupiedSeat {
        run,
        seat: 0,
        device: "d1".parse().unwrap(),
        token: SeatToken(1),
        status,
        priority,
        assigned_at: at(second),
    }
}

#[test]
fn preemption_picks_lowest_priority_youngest_seat() {
    let run = RunFixture::of(RunSpec { priority: 5, preempt: true, ..spec() }).run;
    let seats = [
        occupied("asked", SeatStatus::Assigned, 0, 1),
        occupied("equal", SeatStatus::Processing, 5, 1),
        occupied("older", SeatStatus::Processing, 2, 1),
        occupied("younger", SeatStatus::Claimed, 2, 2),
        occupied("higher", SeatStatus::Claimed, 3, 1),
    ];
    assert_eq!(preemption_victim(&run, &seats).unwrap().run.run.as_str(), "younger");
    assert_eq!(preemption_victim(&run, &seats[..2]), None, "no claimed seat has a lower priority");
    let modest = RunFixture::of(RunSpec { priority: 5, ..spec() }).run;
    assert_eq!(preemption_victim(&modest, &seats), None, "the run may not pre-empt");
}

#[test]
fn preemption_requires_lower_priority() {
    let mut stage = RunFixture::of(RunSpec { priority: 3, ..spec() });
    stage.assign("d1").does(DeviceAction::Accept).does(DeviceAction::Start);
    stage.does(DeviceAction::Progress(super::fixture::progress(6)));
    let preempt = |priority| RunInput::Preempt { seat: 0, by: "r-2".parse().unwrap(), priority };
    assert_eq!(stage.refused(&preempt(3)).why, RunRefusalReason::NotHigher);
    stage.step(&preempt(4));
    assert_eq!(stage.run.seats[0].previous[0].reason, SeatLossReason::Preempted);
    assert_eq!(stage.run.seats[0].progress, Some(super::fixture::progress(6)));
    assert_eq!(next_due(&stage.run, 0), Some((at(0), SeatDue::Place)));
}
