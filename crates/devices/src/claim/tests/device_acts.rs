//! Acts of devices on the seats that they hold.

use super::fixture::{RunFixture, act, assign, at, device, error, output, progress, self_claim, spec};
use crate::claim::{
    CurrentSeatHolder, DeviceAction, RunInput, RunRefusalReason, RunSettings, RunSpec, SeatLossReason,
    SeatState, SeatStatus, SeatToken,
};

#[test]
fn run_goes_from_assigned_to_completed() {
    let mut stage = RunFixture::new();
    stage.assign("d1").pass(5).does(DeviceAction::Accept).pass(5).does(DeviceAction::Start).pass(5);
    stage.does(DeviceAction::Progress(progress(4))).pass(5).does(DeviceAction::Complete { output: output() });
    let words: Vec<&str> = stage.log.iter().map(|entry| entry.word.as_str()).collect();
    assert_eq!(words, ["create", "assign", "recorded", "accept", "start", "complete"]);
    let to: Vec<&str> = stage.log.iter().map(|entry| entry.to.as_str()).collect();
    assert_eq!(to, ["created", "assigning_to_other", "assigned", "claimed", "processing", "completed"]);
    assert_eq!(stage.run.ended_at(), Some(at(20)));
    assert_eq!(stage.run.seats[0].progress, Some(progress(4)));
    assert_eq!(stage.last.as_ref().unwrap().told, None, "no execution waits for it");
}

#[test]
fn self_claim_is_effective_at_once() {
    let mut stage = RunFixture::new();
    stage.step(&self_claim("d1"));
    assert_eq!(stage.status(), SeatStatus::Claimed);
    let to: Vec<&str> = stage.log.iter().map(|entry| entry.to.as_str()).collect();
    assert_eq!(to, ["created", "assigning_to_self", "claimed"]);
}

#[test]
fn refused_self_claim_names_the_holder() {
    let mut stage = RunFixture::new();
    stage.pass(3).step(&self_claim("d1"));
    let refusal = stage.refused(&self_claim("d2"));
    assert_eq!(refusal.why, RunRefusalReason::Taken);
    let holder = CurrentSeatHolder { device: device("d1"), since: at(3), status: SeatStatus::Claimed };
    assert_eq!(refusal.holder, Some(holder));
    assert_eq!(stage.status(), SeatStatus::Claimed);
}

#[test]
fn stale_seat_token_is_refused_with_holder() {
    let mut stage = RunFixture::reach(SeatStatus::Processing);
    stage.pass(90).step(&RunInput::HeartbeatTimeout { seat: 0 }).assign("d2").does(DeviceAction::Accept);
    for doing in [
        DeviceAction::Complete { output: output() },
        DeviceAction::Heartbeat,
        DeviceAction::Progress(progress(9)),
    ] {
        let refusal = stage.refused(&act("d1", 1, doing));
        assert_eq!((&refusal.why, refusal.status), (&RunRefusalReason::StaleToken, SeatStatus::Claimed));
        assert_eq!(refusal.holder.map(|holder| holder.device), Some(device("d2")));
    }
    // Also with the number of the other device's token.
    assert_eq!(stage.refused(&act("d1", 2, DeviceAction::Start)).why, RunRefusalReason::StaleToken);
}

#[test]
fn late_completion_of_free_seat_is_refused() {
    let mut stage = RunFixture::reach(SeatStatus::Processing);
    stage.pass(90).step(&RunInput::HeartbeatTimeout { seat: 0 });
    let refusal = stage.refused(&act("d1", 1, DeviceAction::Complete { output: output() }));
    assert_eq!(
        (refusal.why, refusal.status, refusal.holder),
        (RunRefusalReason::StaleToken, SeatStatus::Reassigning, None)
    );
}

#[test]
fn released_seat_passes_progress_on() {
    let mut stage = RunFixture::reach(SeatStatus::Processing);
    stage.does(DeviceAction::Progress(progress(7)));
    stage.pass(9).does(DeviceAction::Release { reason: Some("battery".to_owned()) });
    let former = stage.run.seats[0].previous[0].clone();
    assert_eq!(
        (former.device, former.token, former.reason),
        (device("d1"), SeatToken(1), SeatLossReason::Released)
    );
    assert_eq!((former.ended_at, former.why.as_deref()), (at(9), Some("battery")));
    assert_eq!(former.progress, Some(progress(7)));
    stage.assign("d2");
    assert_eq!(stage.run.seats[0].progress, Some(progress(7)));
    stage.already(&act("d1", 1, DeviceAction::Release { reason: None }));
}

#[test]
fn every_seat_loss_has_its_reason() {
    let expiry = RunInput::ClaimExpiry { seat: 0 };
    let silence = RunInput::HeartbeatTimeout { seat: 0 };
    let gone = RunInput::DeviceGone { device: device("d1") };
    let retryable = DeviceAction::Fail { failure: error("jam"), retryable: true };
    let stage = RunFixture::reach(SeatStatus::Claimed);
    let (released, failed) =
        (stage.by_holder(DeviceAction::Release { reason: None }), stage.by_holder(retryable));
    for (seconds, input, reason) in [
        (0, released, SeatLossReason::Released),
        (0, failed, SeatLossReason::Failed),
        (300, expiry, SeatLossReason::Timeout),
        (90, silence, SeatLossReason::Heartbeat),
        (0, gone, SeatLossReason::Gone),
    ] {
        let mut stage = stage.clone();
        stage.pass(seconds).step(&input);
        assert_eq!(
            (stage.status(), stage.run.seats[0].previous[0].reason),
            (SeatStatus::Reassigning, reason)
        );
    }
}

#[test]
fn retryable_failure_reassigns_seat() {
    let mut stage = RunFixture::reach(SeatStatus::Processing);
    stage.does(DeviceAction::Fail { failure: error("no gpu"), retryable: true });
    assert_eq!(stage.status(), SeatStatus::Reassigning);
    assert!(stage.run.seats[0].passed_over.contains(&device("d1")));
    stage.already(&act("d1", 1, DeviceAction::Fail { failure: error("no gpu"), retryable: true }));
}

#[test]
fn seat_timeouts_are_refused_before_due() {
    let mut stage = RunFixture::new();
    stage.assign("d1").pass(59);
    assert_eq!(stage.refused(&RunInput::AssignmentTimeout { seat: 0 }).why, RunRefusalReason::NotDue);
    stage.does(DeviceAction::Accept).pass(89);
    assert_eq!(stage.refused(&RunInput::HeartbeatTimeout { seat: 0 }).why, RunRefusalReason::NotDue);
    stage.does(DeviceAction::Heartbeat).pass(89);
    assert_eq!(stage.refused(&RunInput::HeartbeatTimeout { seat: 0 }).why, RunRefusalReason::NotDue);
    assert_eq!(stage.refused(&RunInput::ClaimExpiry { seat: 0 }).why, RunRefusalReason::NotDue);
    stage.pass(1).step(&RunInput::HeartbeatTimeout { seat: 0 });
    let heard = stage.last.as_ref().unwrap().unheard.clone();
    assert_eq!(heard, [(0, at(148))], "valid only without a heartbeat before the commit");
}

#[test]
fn timeouts_come_from_run_settings() {
    let settings: RunSettings = serde_json::from_str(r#"{"assignment_timeout":"2s"}"#).unwrap();
    let mut stage = RunFixture::of(RunSpec { settings, ..spec() });
    stage.assign("d1").pass(2).step(&RunInput::AssignmentTimeout { seat: 0 });
    assert_eq!(stage.status(), SeatStatus::Reassigning);
}

#[test]
fn seat_tokens_grow_strictly() {
    let mut stage = RunFixture::new();
    for number in 1..=9 {
        stage.step(&assign(0, &format!("d{number}")));
        assert_eq!(stage.run.seats[0].current_holding().unwrap().token, SeatToken(number));
        stage.does(DeviceAction::Decline { reason: None });
    }
}

#[test]
fn claim_keeps_its_claim_time() {
    let mut stage = RunFixture::new();
    stage.assign("d1").pass(5).does(DeviceAction::Accept).pass(7).does(DeviceAction::Start);
    let SeatState::Processing { held, claimed_at, started_at, .. } = &stage.run.seats[0].state else {
        panic!("{:?}", stage.run)
    };
    assert_eq!((held.assigned_at, *claimed_at, *started_at), (at(0), at(5), at(12)));
}
