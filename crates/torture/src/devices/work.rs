//! The work of a device on one seat, from the offer to the end, including its faults.

use std::sync::Arc;
use std::time::Duration;

use millstream_core::claim::{Status, Word};
use serde_json::{Value, json};

use super::device::Body;
use super::memory::{Hold, Place};
use super::record::{Act, Told, UNSENT, now};
use super::wire::Reply;
use crate::chance::Chance;

/// How long an unanswered request is repeated, in milliseconds.
const PERSISTENCE: i64 = 20_000;
const PAUSE: Duration = Duration::from_millis(120);

/// A seat as seen by its device.
#[derive(Debug, Clone)]
pub(super) struct Errand {
    pub(super) place: Place,
    pub(super) token: i64,
    pub(super) status: Status,
    pub(super) step: u64,
    pub(super) total: u64,
    pub(super) pace: Duration,
}

impl Errand {
    /// Parses an assignment as shown to its device.
    pub(super) fn read(item: &Value) -> Option<Self> {
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        Some(Self {
            place: (item["run_id"].as_str()?.to_owned(), u16::try_from(item["seat"].as_u64()?).ok()?),
            token: item["token"].as_i64()?,
            status: Status::parse(item["status"].as_str()?)?,
            step: number(&item["progress"]["step"]),
            total: number(&item["input"]["steps"]).max(1),
            pace: Duration::from_millis(number(&item["input"]["pace"]).clamp(10, 1_000)),
        })
    }

    fn hold(&self) -> Hold {
        Hold { token: self.token, step: self.step, total: self.total }
    }
}

/// One recorded request about a seat.
pub(super) async fn ask(body: &Body, word: Word, place: &Place, token: i64, more: Value) -> Told {
    let mut content = json!({ "device": body.name, "seat": place.1, "token": token });
    if word == Word::SelfClaim {
        content = json!({ "device": body.name });
    }
    if let (Value::Object(content), Value::Object(more)) = (&mut content, more) {
        content.extend(more);
    }
    let path = if word == Word::SelfClaim { "claim" } else { word.as_str() };
    let (device, run, sent) = (body.name.clone(), place.0.clone(), now());
    let (seat, answered, told) = (place.1, sent, Told::Nothing);
    // Recorded before sending: a crash in between counts as sent.
    let at = body.record.begin(Act { device, run, seat, token, word, sent, answered, told });
    let reply = body.wire.post(&format!("/v1/runs/{}/{path}", place.0), &content).await;
    let mut seat = place.1;
    let told = match reply {
        Reply::Unsent => {
            body.record.end(at, seat, Told::Refused { kind: UNSENT.to_owned() });
            return Told::Nothing;
        }
        Reply::Nothing => Told::Nothing,
        Reply::Answered { status: 200, body } => {
            seat = body["seat"].as_u64().and_then(|seat| u16::try_from(seat).ok()).unwrap_or(seat);
            Told::Done { token: body["token"].as_i64() }
        }
        Reply::Answered { status, body } => {
            let kind = body["type"].as_str().and_then(|kind| kind.rsplit(':').next());
            Told::Refused { kind: kind.map_or_else(|| status.to_string(), str::to_owned) }
        }
    };
    body.record.end(at, seat, told.clone());
    told
}

/// Repeats until there is an answer, or time is over.
async fn insist(body: &Body, word: Word, place: &Place, token: i64, more: Value) -> Told {
    let until = now() + PERSISTENCE;
    loop {
        let told = ask(body, word, place, token, more.clone()).await;
        if told != Told::Nothing || now() > until {
            return told;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn is_done(told: &Told) -> bool {
    matches!(told, Told::Done { .. })
}

/// The whole assignment. Lost seats are released, sometimes late.
pub(super) async fn run(body: Arc<Body>, mut chance: Chance, mut errand: Errand) {
    if errand.status == Status::Assigned {
        if !answer(&body, &mut chance, &errand).await {
            return;
        }
        errand.status = Status::Claimed;
    }
    body.memory.remember(&errand.place, errand.hold());
    if errand.status == Status::Claimed && !begin(&body, &mut chance, &errand).await {
        body.memory.forget(&errand.place, errand.token);
        return;
    }
    labour(&body, &mut chance, &mut errand).await;
    body.memory.forget(&errand.place, errand.token);
}

/// Answers the offer; returns whether the device accepted.
async fn answer(body: &Body, chance: &mut Chance, errand: &Errand) -> bool {
    let Errand { place, token, .. } = errand;
    tokio::time::sleep(Duration::from_millis(chance.below(40))).await;
    match chance.below(100) {
        0..5 if body.may_fault() => {
            body.record.fault("declined");
            let reason = json!({ "reason": "not now" });
            insist(body, Word::Decline, place, *token, reason).await;
            return false;
        }
        5..7 if body.may_fault() => {
            body.record.fault("not answered");
            return false;
        }
        7..9 if body.may_fault() => {
            body.record.fault("answered late");
            tokio::time::sleep(Duration::from_millis(700 + chance.below(900))).await;
        }
        _ => {}
    }
    is_done(&insist(body, Word::Accept, place, *token, json!({})).await)
}

/// Returns whether the run was started.
async fn begin(body: &Body, chance: &mut Chance, errand: &Errand) -> bool {
    let Errand { place, token, .. } = errand;
    match chance.below(100) {
        0..2 if body.may_fault() => {
            body.record.fault("not begun");
            while body.memory.has(place, *token) && body.may_fault() {
                tokio::time::sleep(PAUSE).await;
            }
        }
        2..4 if body.may_fault() => {
            body.record.fault("released before");
            insist(body, Word::Release, place, *token, json!({ "reason": "changed its mind" })).await;
            return false;
        }
        _ => {}
    }
    loop {
        match insist(body, Word::Start, place, *token, json!({})).await {
            Told::Done { .. } => return true,
            // The run may be paused.
            Told::Refused { kind } if kind == "conflict" && body.memory.has(place, *token) => {
                tokio::time::sleep(PAUSE * 3).await;
            }
            Told::Refused { .. } | Told::Nothing => return false,
        }
    }
}

async fn labour(body: &Body, chance: &mut Chance, errand: &mut Errand) {
    let (place, token) = (errand.place.clone(), errand.token);
    // A stubborn device continues with a lost seat.
    let is_stubborn = chance.percent(30);
    while errand.step < errand.total {
        let is_slow = chance.percent(1) && body.may_fault();
        let pace = if is_slow { Duration::from_millis(2_500) } else { errand.pace };
        if is_slow {
            body.record.fault("slow");
        }
        tokio::time::sleep(pace).await;
        if !body.memory.has(&place, token) && !is_stubborn {
            return;
        }
        if body.may_fault() && give_up(body, chance, &place, token).await {
            return;
        }
        errand.step += 1;
        let progress = json!({ "step": errand.step, "total": errand.total });
        if body.memory.has(&place, token) {
            body.memory.remember(&place, errand.hold());
        }
        if chance.percent(70) {
            let told = ask(body, Word::Progress, &place, token, progress).await;
            if matches!(told, Told::Refused { .. }) && !is_stubborn {
                return;
            }
        }
    }
    let output = json!({ "output": { "by": body.name, "token": token } });
    let told = insist(body, Word::Complete, &place, token, output.clone()).await;
    // A repeat gets the same answer.
    if is_done(&told) && chance.percent(5) {
        ask(body, Word::Complete, &place, token, output).await;
    }
}

/// Returns whether it gave up in the middle of the work.
async fn give_up(body: &Body, chance: &mut Chance, place: &Place, token: i64) -> bool {
    let reason = json!({ "reason": "had enough" });
    let fail = |is_retryable: bool| json!({ "message": "it broke", "retryable": is_retryable });
    let (word, more, name) = match chance.below(1_000) {
        0..12 => (Word::Release, reason, "released"),
        12..24 => (Word::Abort, reason, "aborted"),
        24..40 => (Word::Fail, fail(true), "failed, another may try"),
        40..48 => (Word::Fail, fail(false), "failed permanently"),
        _ => return false,
    };
    body.record.fault(name);
    insist(body, word, place, token, more).await;
    true
}
