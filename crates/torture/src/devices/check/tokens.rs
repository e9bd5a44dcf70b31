//! D2: never two devices with a valid token at once, in the logs and in the devices' own records.

use std::collections::BTreeMap;

use millstream_devices::claim::{RunInputKind, SeatLossReason, SeatStatus};

use super::evidence::{DeviceEvidence, DeviceFinding, DeviceRule, RunSeen};
use super::tenure::{SeatTenure, seat_tenures};
use crate::devices::record::{DeviceAct, DeviceAnswer};

pub(super) fn check_tokens(evidence: &DeviceEvidence) -> Vec<DeviceFinding> {
    let mut acts: BTreeMap<&str, Vec<&DeviceAct>> = BTreeMap::new();
    for act in &evidence.clients.acts {
        acts.entry(&act.run).or_default().push(act);
    }
    let mut found = Vec::new();
    for run in &evidence.runs {
        let mut wrong = Vec::new();
        let of_run = acts.get(run.id.as_str()).map_or(&[][..], Vec::as_slice);
        let (all, impossible) = seat_tenures(&run.log);
        wrong.extend(impossible);
        wrong.extend(overlapping_tenures(&all, evidence.bounds.clock));
        let slack = evidence.bounds.clock + evidence.bounds.write;
        wrong.extend(of_run.iter().filter_map(|act| unlawful_act(act, &all, run, slack)));
        wrong.extend(side_by_side(of_run));
        wrong.extend(after_its_end(of_run));
        wrong.extend(unasked_inputs(run, of_run));
        found.extend(
            wrong.into_iter().map(|what| DeviceFinding::new_finding(DeviceRule::Tokens, &run.id, what)),
        );
    }
    found
}

/// Overlaps by time, as far as the clocks can be trusted.
fn overlapping_tenures(all: &[SeatTenure], clock: i64) -> Vec<String> {
    let mut last: BTreeMap<u16, &SeatTenure> = BTreeMap::new();
    let mut wrong = Vec::new();
    for one in all {
        if let Some(before) = last.insert(one.seat, one)
            && let Some(end) = before.end
            && one.from + clock < end.at
        {
            wrong.push(format!(
                "seat {}: token {} is valid from {} on, token {} until {}",
                one.seat, one.token, one.from, before.token, end.at
            ));
        }
    }
    wrong
}

/// The reason why an answer to a device is wrong.
fn unlawful_act(act: &DeviceAct, all: &[SeatTenure], run: &RunSeen, slack: i64) -> Option<String> {
    let DeviceAnswer::Done { token: got } = &act.told else { return None };
    let says = |what: &str| {
        let DeviceAct { device, word, seat, token, sent, .. } = act;
        Some(format!("seat {seat}: {word} of {device} with token {token} at {sent} was accepted, but {what}"))
    };
    // A claim is answered with its token.
    let takes = matches!(act.word, RunInputKind::SelfClaim | RunInputKind::OfflineClaim);
    let token = got.filter(|_| takes).unwrap_or(act.token);
    let Some(one) = all.iter().find(|one| one.token == token) else {
        return says("there never was such a token");
    };
    if (one.device.as_str(), one.seat) != (act.device.as_str(), act.seat) {
        return says(&format!("it was that of {} on seat {}", one.device, one.seat));
    }
    let until = one.end.map_or(i64::MAX, |end| end.at);
    let was_valid = act.answered + slack >= one.from && act.sent <= until.saturating_add(slack);
    let ended_by = |word: RunInputKind| one.end.is_some_and(|end| end.word == word);
    let ended_as = |how: SeatLossReason| one.end.is_some_and(|end| end.how == Some(how));
    let is_lawful = match act.word {
        RunInputKind::Heartbeat
        | RunInputKind::Progress
        | RunInputKind::Accept
        | RunInputKind::SelfClaim
        | RunInputKind::OfflineClaim => was_valid,
        RunInputKind::Start => was_valid && one.words.contains(&RunInputKind::Start),
        RunInputKind::Complete => {
            let seat = run.seats.get(usize::from(act.seat));
            let is_its = seat.is_some_and(|seat| {
                seat.status == SeatStatus::Completed
                    && seat.device.as_deref() == Some(act.device.as_str())
                    && seat.token == Some(token)
            });
            is_its && ended_by(RunInputKind::Complete)
        }
        RunInputKind::Fail => ended_by(RunInputKind::Fail) || ended_as(SeatLossReason::Failed),
        RunInputKind::Decline => ended_as(SeatLossReason::Declined),
        RunInputKind::Release | RunInputKind::Abort => ended_as(SeatLossReason::Released),
        RunInputKind::Create
        | RunInputKind::Assign
        | RunInputKind::Recorded
        | RunInputKind::NobodyViable
        | RunInputKind::AssignmentTimeout
        | RunInputKind::ClaimExpiry
        | RunInputKind::HeartbeatTimeout
        | RunInputKind::BackoffOver
        | RunInputKind::DeviceGone
        | RunInputKind::Preempt
        | RunInputKind::Pause
        | RunInputKind::Resume
        | RunInputKind::Cancel
        | RunInputKind::Retry
        | RunInputKind::Adopt
        | RunInputKind::NobodyLeft
        | RunInputKind::RunFailed => return says("that is not for devices"),
    };
    if is_lawful {
        return None;
    }
    match one.end {
        Some(end) => {
            says(&format!("it was valid from {} to {}, when it ended by {}", one.from, end.at, end.word))
        }
        None => says(&format!("it is valid since {} and never ended", one.from)),
    }
}

/// Whether the answer proves that a token is valid at some time between request and answer.
fn shows_validity(act: &DeviceAct) -> bool {
    let word = matches!(
        act.word,
        RunInputKind::Accept
            | RunInputKind::Start
            | RunInputKind::Heartbeat
            | RunInputKind::Progress
            | RunInputKind::SelfClaim
            | RunInputKind::OfflineClaim
    );
    word && matches!(act.told, DeviceAnswer::Done { .. })
}

/// The devices' records alone, without the log: a token was valid all the time from its first accepted
/// request to its last.
fn side_by_side(acts: &[&DeviceAct]) -> Vec<String> {
    let mut spans: BTreeMap<(u16, i64), (i64, i64, &str)> = BTreeMap::new();
    for act in acts.iter().filter(|act| shows_validity(act)) {
        let token = accepted_token(act).unwrap_or(act.token);
        let span = spans.entry((act.seat, token)).or_insert((i64::MAX, i64::MIN, &act.device));
        *span = (span.0.min(act.answered), span.1.max(act.sent), span.2);
    }
    let certain: Vec<_> = spans.iter().filter(|(_, (from, until, _))| from <= until).collect();
    let mut wrong = Vec::new();
    for (at, ((seat, token), (from, until, device))) in certain.iter().enumerate() {
        for ((other_seat, other), (other_from, other_until, whose)) in &certain[at + 1..] {
            if seat == other_seat && from < other_until && other_from < until {
                wrong.push(format!(
                    "seat {seat}: {device} with token {token} ({from} to {until}) and {whose} with token {other} ({other_from} to {other_until}) both had it"
                ));
            }
        }
    }
    wrong
}

/// The token by which a device has its seat, according to the answer.
fn accepted_token(act: &DeviceAct) -> Option<i64> {
    let DeviceAnswer::Done { token } = &act.told else { return None };
    shows_validity(act).then(|| token.unwrap_or(act.token))
}

/// Whether the answer proves to the device that its token is over: the device ended it, or no longer holds
/// it.
fn shows_end(act: &DeviceAct) -> bool {
    match &act.told {
        DeviceAnswer::Done { .. } => {
            matches!(
                act.word,
                RunInputKind::Complete
                    | RunInputKind::Fail
                    | RunInputKind::Decline
                    | RunInputKind::Release
                    | RunInputKind::Abort
            )
        }
        DeviceAnswer::Refused { kind } => act.token > 0 && ["not-owner", "release"].contains(&kind.as_str()),
        DeviceAnswer::Nothing => false,
    }
}

/// The devices' records alone: after proof that a token is over, or that a later one is valid, no request
/// under it may be accepted.
fn after_its_end(acts: &[&DeviceAct]) -> Vec<String> {
    let mut wrong = Vec::new();
    for act in acts {
        let Some(token) = accepted_token(act) else { continue };
        let ends = acts.iter().filter(|other| other.seat == act.seat).filter(|other| {
            other.token == token && shows_end(other)
                || accepted_token(other).is_some_and(|later| later > token)
        });
        if let Some(end) = ends.map(|end| end.answered).min().filter(|end| *end < act.sent) {
            let DeviceAct { device, word, seat, sent, .. } = act;
            wrong.push(format!(
                "seat {seat}: {word} of {device} with token {token} at {sent} was accepted; the token was over at {end}"
            ));
        }
    }
    wrong
}

/// No seat is completed without a completion from its device.
fn unasked_inputs(run: &RunSeen, acts: &[&DeviceAct]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (number, seat) in run.seats.iter().enumerate() {
        if seat.status != SeatStatus::Completed {
            continue;
        }
        let is_it = |act: &&&DeviceAct| {
            act.word == RunInputKind::Complete
                && usize::from(act.seat) == number
                && Some(act.device.as_str()) == seat.device.as_deref()
                && Some(act.token) == seat.token
                && !matches!(act.told, DeviceAnswer::Refused { .. })
        };
        if !acts.iter().any(|act| is_it(&act)) {
            let device = seat.device.as_deref().unwrap_or("none");
            wrong.push(format!("seat {number}: completed by {device}, which sent no completion"));
        }
    }
    wrong
}
