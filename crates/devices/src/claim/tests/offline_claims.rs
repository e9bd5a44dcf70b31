//! Offline claims: devices that were disconnected and return.

use super::fixture::{RunFixture, act, assign, device, output};
use crate::claim::{
    DeviceAction, RunInput, RunRefusalReason, SeatAct, SeatLossReason, SeatStatus, SeatToken,
};

fn offline(by: &str, token: i64) -> RunInput {
    RunInput::OfflineClaim(SeatAct { device: device(by), seat: 0, token: SeatToken(token) })
}

/// First `d1`, then `d2` held the claim, and both lost it by a heartbeat timeout.
fn two_were_lost() -> RunFixture {
    let mut stage = RunFixture::new();
    for lost in ["d1", "d2"] {
        stage.assign(lost).does(DeviceAction::Accept).pass(90).step(&RunInput::HeartbeatTimeout { seat: 0 });
    }
    stage
}

#[test]
fn offline_claim_of_free_seat_wins() {
    let mut stage = two_were_lost();
    stage.step(&offline("d1", 1));
    assert_eq!(stage.status(), SeatStatus::Claimed);
    assert_eq!(stage.run.seats[0].current_holding().unwrap().token, SeatToken(3));
    stage.already(&offline("d1", 1));
    assert_eq!(
        stage.refused(&act("d1", 1, DeviceAction::Start)).why,
        RunRefusalReason::StaleToken,
        "the old token stays stale"
    );
}

#[test]
fn offline_claim_beats_pending_assignment() {
    let mut stage = two_were_lost();
    stage.assign("d3").step(&offline("d2", 2));
    assert_eq!(stage.run.seats[0].current_holding().unwrap().device, device("d2"));
    assert_eq!(stage.run.seats[0].previous.last().unwrap().reason, SeatLossReason::Superseded);
    let devices = stage.last.as_ref().unwrap().affected_devices().into_iter().cloned().collect::<Vec<_>>();
    assert_eq!(devices, [device("d2"), device("d3")]);
    let refusal = stage.refused(&act("d3", 3, DeviceAction::Accept));
    assert_eq!(refusal.holder.unwrap().device, device("d2"));
}

#[test]
fn online_claim_beats_offline_claim() {
    let mut stage = two_were_lost();
    stage.assign("d3").does(DeviceAction::Accept);
    let refusal = stage.refused(&offline("d1", 1));
    assert_eq!((refusal.why, refusal.holder.unwrap().device), (RunRefusalReason::Release, device("d3")));
    stage.does(DeviceAction::Start);
    assert_eq!(stage.refused(&offline("d2", 2)).why, RunRefusalReason::Release);
}

#[test]
fn earlier_offline_assignment_wins() {
    let mut stage = two_were_lost();
    stage.step(&offline("d2", 2)).does(DeviceAction::Start).step(&offline("d1", 1));
    assert_eq!(stage.run.seats[0].current_holding().unwrap().device, device("d1"));
    let late = stage.refused(&act("d2", 3, DeviceAction::Complete { output: output() }));
    assert_eq!((late.why, late.holder.unwrap().device), (RunRefusalReason::StaleToken, device("d1")));
    let mut other_way = two_were_lost();
    other_way.step(&offline("d1", 1));
    assert_eq!(other_way.refused(&offline("d2", 2)).why, RunRefusalReason::Release);
    assert_eq!(other_way.run.seats[0].current_holding().unwrap().device, device("d1"));
}

#[test]
fn released_seat_cannot_be_claimed_offline() {
    let mut stage = RunFixture::new();
    stage.assign("d1").does(DeviceAction::Decline { reason: None });
    assert_eq!(stage.refused(&offline("d1", 1)).why, RunRefusalReason::StaleToken);
    assert_eq!(stage.refused(&offline("d9", 1)).why, RunRefusalReason::StaleToken, "it never held the seat");
    assert_eq!(stage.refused(&offline("d1", 9)).why, RunRefusalReason::StaleToken);
}

#[test]
fn offline_claim_by_current_holder_succeeds() {
    let mut stage = RunFixture::new();
    stage.step(&assign(0, "d1")).step(&offline("d1", 1));
    assert_eq!(
        (stage.status(), stage.run.seats[0].current_holding().unwrap().token),
        (SeatStatus::Claimed, SeatToken(1))
    );
    stage.already(&offline("d1", 1));
}

#[test]
fn ended_seat_cannot_be_claimed_offline() {
    let mut stage = two_were_lost();
    stage
        .assign("d3")
        .does(DeviceAction::Accept)
        .does(DeviceAction::Start)
        .does(DeviceAction::Complete { output: output() });
    let refusal = stage.refused(&offline("d1", 1));
    assert_eq!((refusal.status, refusal.why), (SeatStatus::Completed, RunRefusalReason::NotNow));
}
