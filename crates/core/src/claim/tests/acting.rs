//! Acts of devices on the seats that they hold.

use super::stage::{Stage, act, assign, at, device, error, output, progress, self_claim, spec};
use crate::claim::{Doing, Ended, Holder, Input, RunSpec, SeatState, Settings, Status, Token, Why};

#[test]
fn the_plain_way_is_assigned_claimed_processing_completed() {
    let mut stage = Stage::new();
    stage.assign("d1").pass(5).does(Doing::Accept).pass(5).does(Doing::Start).pass(5);
    stage.does(Doing::Progress(progress(4))).pass(5).does(Doing::Complete { output: output() });
    let words: Vec<&str> = stage.log.iter().map(|entry| entry.word.as_str()).collect();
    assert_eq!(words, ["create", "assign", "recorded", "accept", "start", "complete"]);
    let to: Vec<&str> = stage.log.iter().map(|entry| entry.to.as_str()).collect();
    assert_eq!(to, ["created", "assigning_to_other", "assigned", "claimed", "processing", "completed"]);
    assert_eq!(stage.run.ended_at(), Some(at(20)));
    assert_eq!(stage.run.seats[0].progress, Some(progress(4)));
    assert_eq!(stage.last.as_ref().unwrap().told, None, "no execution waits for it");
}

#[test]
fn a_device_that_takes_it_by_itself_has_it_at_once() {
    let mut stage = Stage::new();
    stage.step(&self_claim("d1"));
    assert_eq!(stage.status(), Status::Claimed);
    let to: Vec<&str> = stage.log.iter().map(|entry| entry.to.as_str()).collect();
    assert_eq!(to, ["created", "assigning_to_self", "claimed"]);
}

#[test]
fn who_loses_the_race_for_it_is_told_who_has_it_and_the_run_stays_with_the_winner() {
    let mut stage = Stage::new();
    stage.pass(3).step(&self_claim("d1"));
    let refusal = stage.refused(&self_claim("d2"));
    assert_eq!(refusal.why, Why::Taken);
    let holder = Holder { device: device("d1"), since: at(3), status: Status::Claimed };
    assert_eq!(refusal.holder, Some(holder));
    assert_eq!(stage.status(), Status::Claimed);
}

#[test]
fn a_token_that_has_passed_on_is_refused_with_who_has_it_now() {
    let mut stage = Stage::reach(Status::Processing);
    stage.pass(90).step(&Input::HeartbeatTimeout { seat: 0 }).assign("d2").does(Doing::Accept);
    for doing in [Doing::Complete { output: output() }, Doing::Heartbeat, Doing::Progress(progress(9))] {
        let refusal = stage.refused(&act("d1", 1, doing));
        assert_eq!((&refusal.why, refusal.status), (&Why::StaleToken, Status::Claimed));
        assert_eq!(refusal.holder.map(|holder| holder.device), Some(device("d2")));
    }
    // Also with the number of the other device's token.
    assert_eq!(stage.refused(&act("d1", 2, Doing::Start)).why, Why::StaleToken);
}

#[test]
fn a_late_completion_is_refused_even_while_nobody_has_it() {
    let mut stage = Stage::reach(Status::Processing);
    stage.pass(90).step(&Input::HeartbeatTimeout { seat: 0 });
    let refusal = stage.refused(&act("d1", 1, Doing::Complete { output: output() }));
    assert_eq!((refusal.why, refusal.status, refusal.holder), (Why::StaleToken, Status::Reassigning, None));
}

#[test]
fn what_was_given_back_is_remembered_with_its_reason_and_its_progress_goes_to_the_next() {
    let mut stage = Stage::reach(Status::Processing);
    stage.does(Doing::Progress(progress(7)));
    stage.pass(9).does(Doing::Release { reason: Some("battery".to_owned()) });
    let former = stage.run.seats[0].previous[0].clone();
    assert_eq!((former.device, former.token, former.reason), (device("d1"), Token(1), Ended::Released));
    assert_eq!((former.ended_at, former.why.as_deref()), (at(9), Some("battery")));
    assert_eq!(former.progress, Some(progress(7)));
    stage.assign("d2");
    assert_eq!(stage.run.seats[0].progress, Some(progress(7)));
    stage.already(&act("d1", 1, Doing::Release { reason: None }));
}

#[test]
fn each_way_to_lose_a_seat_has_its_reason() {
    let expiry = Input::ClaimExpiry { seat: 0 };
    let silence = Input::HeartbeatTimeout { seat: 0 };
    let gone = Input::DeviceGone { device: device("d1") };
    let retryable = Doing::Fail { failure: error("jam"), retryable: true };
    let stage = Stage::reach(Status::Claimed);
    let (released, failed) = (stage.by_holder(Doing::Release { reason: None }), stage.by_holder(retryable));
    for (seconds, input, reason) in [
        (0, released, Ended::Released),
        (0, failed, Ended::Failed),
        (300, expiry, Ended::Timeout),
        (90, silence, Ended::Heartbeat),
        (0, gone, Ended::Gone),
    ] {
        let mut stage = stage.clone();
        stage.pass(seconds).step(&input);
        assert_eq!((stage.status(), stage.run.seats[0].previous[0].reason), (Status::Reassigning, reason));
    }
}

#[test]
fn a_failure_that_another_device_may_get_around_goes_to_another() {
    let mut stage = Stage::reach(Status::Processing);
    stage.does(Doing::Fail { failure: error("no gpu"), retryable: true });
    assert_eq!(stage.status(), Status::Reassigning);
    assert!(stage.run.seats[0].passed_over.contains(&device("d1")));
    stage.already(&act("d1", 1, Doing::Fail { failure: error("no gpu"), retryable: true }));
}

#[test]
fn times_that_have_not_come_are_not_taken_for_passed() {
    let mut stage = Stage::new();
    stage.assign("d1").pass(59);
    assert_eq!(stage.refused(&Input::AssignmentTimeout { seat: 0 }).why, Why::NotDue);
    stage.does(Doing::Accept).pass(89);
    assert_eq!(stage.refused(&Input::HeartbeatTimeout { seat: 0 }).why, Why::NotDue);
    stage.does(Doing::Heartbeat).pass(89);
    assert_eq!(stage.refused(&Input::HeartbeatTimeout { seat: 0 }).why, Why::NotDue);
    assert_eq!(stage.refused(&Input::ClaimExpiry { seat: 0 }).why, Why::NotDue);
    stage.pass(1).step(&Input::HeartbeatTimeout { seat: 0 });
    let heard = stage.last.as_ref().unwrap().unheard.clone();
    assert_eq!(heard, [(0, at(148))], "valid only without a heartbeat before the commit");
}

#[test]
fn how_long_devices_may_take_is_the_run_s_own_affair() {
    let settings: Settings = serde_json::from_str(r#"{"assignment_timeout":"2s"}"#).unwrap();
    let mut stage = Stage::of(RunSpec { settings, ..spec() });
    stage.assign("d1").pass(2).step(&Input::AssignmentTimeout { seat: 0 });
    assert_eq!(stage.status(), Status::Reassigning);
}

#[test]
fn tokens_only_grow_and_no_two_assignments_share_one() {
    let mut stage = Stage::new();
    for number in 1..=9 {
        stage.step(&assign(0, &format!("d{number}")));
        assert_eq!(stage.run.seats[0].held().unwrap().token, Token(number));
        stage.does(Doing::Decline { reason: None });
    }
}

#[test]
fn a_claim_knows_since_when_it_is_one() {
    let mut stage = Stage::new();
    stage.assign("d1").pass(5).does(Doing::Accept).pass(7).does(Doing::Start);
    let SeatState::Processing { held, claimed_at, started_at, .. } = &stage.run.seats[0].state else {
        panic!("{:?}", stage.run)
    };
    assert_eq!((held.assigned_at, *claimed_at, *started_at), (at(0), at(5), at(12)));
}
