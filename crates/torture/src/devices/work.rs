//! The work of a device on one seat, from the offer to the end, including its faults.

use std::sync::Arc;
use std::time::Duration;

use millstream_devices::claim::{RunInputKind, SeatStatus};
use serde_json::{Value, json};

use super::device::SimulatedDevice;
use super::memory::{SeatHold, SeatPlace};
use super::record::{DeviceAct, DeviceAnswer, UNSENT, unix_millis};
use super::wire::DeviceReply;
use crate::chance::TortureRandom;

/// How long an unanswered request is repeated, in milliseconds.
const PERSISTENCE: i64 = 20_000;
const PAUSE: Duration = Duration::from_millis(120);

/// A seat as seen by its device.
#[derive(Debug, Clone)]
pub(super) struct AssignedSeat {
    pub(super) place: SeatPlace,
    pub(super) token: i64,
    pub(super) status: SeatStatus,
    pub(super) step: u64,
    pub(super) total: u64,
    pub(super) pace: Duration,
}

impl AssignedSeat {
    /// Parses an assignment as shown to its device.
    pub(super) fn parse_assignment(item: &Value) -> Option<Self> {
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        Some(Self {
            place: (item["run_id"].as_str()?.to_owned(), u16::try_from(item["seat"].as_u64()?).ok()?),
            token: item["token"].as_i64()?,
            status: SeatStatus::parse(item["status"].as_str()?)?,
            step: number(&item["progress"]["step"]),
            total: number(&item["input"]["steps"]).max(1),
            pace: Duration::from_millis(number(&item["input"]["pace"]).clamp(10, 1_000)),
        })
    }

    fn seat_hold(&self) -> SeatHold {
        SeatHold { token: self.token, step: self.step, total: self.total }
    }
}

/// One recorded request about a seat.
pub(super) async fn ask_once(
    body: &SimulatedDevice,
    word: RunInputKind,
    place: &SeatPlace,
    token: i64,
    more: Value,
) -> DeviceAnswer {
    let mut content = json!({ "device": body.name, "seat": place.1, "token": token });
    if word == RunInputKind::SelfClaim {
        content = json!({ "device": body.name });
    }
    if let (Value::Object(content), Value::Object(more)) = (&mut content, more) {
        content.extend(more);
    }
    let path = if word == RunInputKind::SelfClaim { "claim" } else { word.as_str() };
    let (device, run, sent) = (body.name.clone(), place.0.clone(), unix_millis());
    let (seat, answered, told) = (place.1, sent, DeviceAnswer::Nothing);
    // Recorded before sending: a crash in between counts as sent.
    let at = body.record.begin_act(DeviceAct { device, run, seat, token, word, sent, answered, told });
    let reply = body.wire.post(&format!("/v1/runs/{}/{path}", place.0), &content).await;
    let mut seat = place.1;
    let told = match reply {
        DeviceReply::Unsent => {
            body.record.end_act(at, seat, DeviceAnswer::Refused { kind: UNSENT.to_owned() });
            return DeviceAnswer::Nothing;
        }
        DeviceReply::Nothing => DeviceAnswer::Nothing,
        DeviceReply::Answered { status: 200, body } => {
            seat = body["seat"].as_u64().and_then(|seat| u16::try_from(seat).ok()).unwrap_or(seat);
            DeviceAnswer::Done { token: body["token"].as_i64() }
        }
        DeviceReply::Answered { status, body } => {
            let kind = body["type"].as_str().and_then(|kind| kind.rsplit(':').next());
            DeviceAnswer::Refused { kind: kind.map_or_else(|| status.to_string(), str::to_owned) }
        }
    };
    body.record.end_act(at, seat, told.clone());
    told
}

/// Repeats until there is an answer, or time is over.
async fn ask_until_answered(
    body: &SimulatedDevice,
    word: RunInputKind,
    place: &SeatPlace,
    token: i64,
    more: Value,
) -> DeviceAnswer {
    let until = unix_millis() + PERSISTENCE;
    loop {
        let told = ask_once(body, word, place, token, more.clone()).await;
        if told != DeviceAnswer::Nothing || unix_millis() > until {
            return told;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn is_done(told: &DeviceAnswer) -> bool {
    matches!(told, DeviceAnswer::Done { .. })
}

/// The whole assignment. Lost seats are released, sometimes late.
pub(super) async fn run_assignment(
    body: Arc<SimulatedDevice>,
    mut chance: TortureRandom,
    mut errand: AssignedSeat,
) {
    if errand.status == SeatStatus::Assigned {
        if !answer_offer(&body, &mut chance, &errand).await {
            return;
        }
        errand.status = SeatStatus::Claimed;
    }
    body.memory.remember(&errand.place, errand.seat_hold());
    if errand.status == SeatStatus::Claimed && !begin_run(&body, &mut chance, &errand).await {
        body.memory.forget(&errand.place, errand.token);
        return;
    }
    make_progress(&body, &mut chance, &mut errand).await;
    body.memory.forget(&errand.place, errand.token);
}

/// Answers the offer; returns whether the device accepted.
async fn answer_offer(body: &SimulatedDevice, chance: &mut TortureRandom, errand: &AssignedSeat) -> bool {
    let AssignedSeat { place, token, .. } = errand;
    tokio::time::sleep(Duration::from_millis(chance.below(40))).await;
    match chance.below(100) {
        0..5 if body.may_fault() => {
            body.record.record_fault("declined");
            let reason = json!({ "reason": "not now" });
            ask_until_answered(body, RunInputKind::Decline, place, *token, reason).await;
            return false;
        }
        5..7 if body.may_fault() => {
            body.record.record_fault("not answered");
            return false;
        }
        7..9 if body.may_fault() => {
            body.record.record_fault("answered late");
            tokio::time::sleep(Duration::from_millis(700 + chance.below(900))).await;
        }
        _ => {}
    }
    is_done(&ask_until_answered(body, RunInputKind::Accept, place, *token, json!({})).await)
}

/// Returns whether the run was started.
async fn begin_run(body: &SimulatedDevice, chance: &mut TortureRandom, errand: &AssignedSeat) -> bool {
    let AssignedSeat { place, token, .. } = errand;
    match chance.below(100) {
        0..2 if body.may_fault() => {
            body.record.record_fault("not begun");
            while body.memory.has_token(place, *token) && body.may_fault() {
                tokio::time::sleep(PAUSE).await;
            }
        }
        2..4 if body.may_fault() => {
            body.record.record_fault("released before");
            ask_until_answered(
                body,
                RunInputKind::Release,
                place,
                *token,
                json!({ "reason": "changed its mind" }),
            )
            .await;
            return false;
        }
        _ => {}
    }
    loop {
        match ask_until_answered(body, RunInputKind::Start, place, *token, json!({})).await {
            DeviceAnswer::Done { .. } => return true,
            // The run may be paused.
            DeviceAnswer::Refused { kind } if kind == "conflict" && body.memory.has_token(place, *token) => {
                tokio::time::sleep(PAUSE * 3).await;
            }
            DeviceAnswer::Refused { .. } | DeviceAnswer::Nothing => return false,
        }
    }
}

async fn make_progress(body: &SimulatedDevice, chance: &mut TortureRandom, errand: &mut AssignedSeat) {
    let (place, token) = (errand.place.clone(), errand.token);
    // A stubborn device continues with a lost seat.
    let is_stubborn = chance.percent(30);
    while errand.step < errand.total {
        let is_slow = chance.percent(1) && body.may_fault();
        let pace = if is_slow { Duration::from_millis(2_500) } else { errand.pace };
        if is_slow {
            body.record.record_fault("slow");
        }
        tokio::time::sleep(pace).await;
        if !body.memory.has_token(&place, token) && !is_stubborn {
            return;
        }
        if body.may_fault() && give_up(body, chance, &place, token).await {
            return;
        }
        errand.step += 1;
        let progress = json!({ "step": errand.step, "total": errand.total });
        if body.memory.has_token(&place, token) {
            body.memory.remember(&place, errand.seat_hold());
        }
        if chance.percent(70) {
            let told = ask_once(body, RunInputKind::Progress, &place, token, progress).await;
            if matches!(told, DeviceAnswer::Refused { .. }) && !is_stubborn {
                return;
            }
        }
    }
    let output = json!({ "output": { "by": body.name, "token": token } });
    let told = ask_until_answered(body, RunInputKind::Complete, &place, token, output.clone()).await;
    // A repeat gets the same answer.
    if is_done(&told) && chance.percent(5) {
        ask_once(body, RunInputKind::Complete, &place, token, output).await;
    }
}

/// Returns whether it gave up in the middle of the work.
async fn give_up(body: &SimulatedDevice, chance: &mut TortureRandom, place: &SeatPlace, token: i64) -> bool {
    let reason = json!({ "reason": "had enough" });
    let fail = |is_retryable: bool| json!({ "message": "it broke", "retryable": is_retryable });
    let (word, more, name) = match chance.below(1_000) {
        0..12 => (RunInputKind::Release, reason, "released"),
        12..24 => (RunInputKind::Abort, reason, "aborted"),
        24..40 => (RunInputKind::Fail, fail(true), "failed, another may try"),
        40..48 => (RunInputKind::Fail, fail(false), "failed permanently"),
        _ => return false,
    };
    body.record.record_fault(name);
    ask_until_answered(body, word, place, token, more).await;
    true
}
