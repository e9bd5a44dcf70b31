//! Offline claims: devices that were disconnected and return.

use super::stage::{Stage, act, assign, device, output};
use crate::claim::{Act, Doing, Ended, Input, Status, Token, Why};

fn offline(by: &str, token: i64) -> Input {
    Input::OfflineClaim(Act { device: device(by), seat: 0, token: Token(token) })
}

/// First `d1`, then `d2` held the claim, and both lost it by a heartbeat timeout.
fn two_were_lost() -> Stage {
    let mut stage = Stage::new();
    for lost in ["d1", "d2"] {
        stage.assign(lost).does(Doing::Accept).pass(90).step(&Input::HeartbeatTimeout { seat: 0 });
    }
    stage
}

#[test]
fn who_comes_back_while_nobody_has_it_gets_it_under_a_new_token() {
    let mut stage = two_were_lost();
    stage.step(&offline("d1", 1));
    assert_eq!(stage.status(), Status::Claimed);
    assert_eq!(stage.run.seats[0].held().unwrap().token, Token(3));
    stage.already(&offline("d1", 1));
    assert_eq!(stage.refused(&act("d1", 1, Doing::Start)).why, Why::StaleToken, "the old token stays stale");
}

#[test]
fn who_comes_back_while_another_is_only_asked_gets_it_and_the_other_is_told() {
    let mut stage = two_were_lost();
    stage.assign("d3").step(&offline("d2", 2));
    assert_eq!(stage.run.seats[0].held().unwrap().device, device("d2"));
    assert_eq!(stage.run.seats[0].previous.last().unwrap().reason, Ended::Superseded);
    let devices = stage.last.as_ref().unwrap().devices().into_iter().cloned().collect::<Vec<_>>();
    assert_eq!(devices, [device("d2"), device("d3")]);
    let refusal = stage.refused(&act("d3", 3, Doing::Accept));
    assert_eq!(refusal.holder.unwrap().device, device("d2"));
}

#[test]
fn a_claim_that_was_made_online_stands_and_who_comes_back_is_to_release() {
    let mut stage = two_were_lost();
    stage.assign("d3").does(Doing::Accept);
    let refusal = stage.refused(&offline("d1", 1));
    assert_eq!((refusal.why, refusal.holder.unwrap().device), (Why::Release, device("d3")));
    stage.does(Doing::Start);
    assert_eq!(stage.refused(&offline("d2", 2)).why, Why::Release);
}

#[test]
fn of_two_that_were_cut_off_the_one_that_was_assigned_earlier_stands_whoever_comes_first() {
    let mut stage = two_were_lost();
    stage.step(&offline("d2", 2)).does(Doing::Start).step(&offline("d1", 1));
    assert_eq!(stage.run.seats[0].held().unwrap().device, device("d1"));
    let late = stage.refused(&act("d2", 3, Doing::Complete { output: output() }));
    assert_eq!((late.why, late.holder.unwrap().device), (Why::StaleToken, device("d1")));
    let mut other_way = two_were_lost();
    other_way.step(&offline("d1", 1));
    assert_eq!(other_way.refused(&offline("d2", 2)).why, Why::Release);
    assert_eq!(other_way.run.seats[0].held().unwrap().device, device("d1"));
}

#[test]
fn who_gave_it_up_itself_cannot_come_back_for_it() {
    let mut stage = Stage::new();
    stage.assign("d1").does(Doing::Decline { reason: None });
    assert_eq!(stage.refused(&offline("d1", 1)).why, Why::StaleToken);
    assert_eq!(stage.refused(&offline("d9", 1)).why, Why::StaleToken, "it never held the seat");
    assert_eq!(stage.refused(&offline("d1", 9)).why, Why::StaleToken);
}

#[test]
fn who_was_asked_before_it_was_cut_off_and_never_lost_it_has_it() {
    let mut stage = Stage::new();
    stage.step(&assign(0, "d1")).step(&offline("d1", 1));
    assert_eq!((stage.status(), stage.run.seats[0].held().unwrap().token), (Status::Claimed, Token(1)));
    stage.already(&offline("d1", 1));
}

#[test]
fn what_has_ended_cannot_be_claimed_any_more() {
    let mut stage = two_were_lost();
    stage.assign("d3").does(Doing::Accept).does(Doing::Start).does(Doing::Complete { output: output() });
    let refusal = stage.refused(&offline("d1", 1));
    assert_eq!((refusal.status, refusal.why), (Status::Completed, Why::NotNow));
}
