//! D3: every log is a path through the transition table, and the run agrees with its log.

use std::collections::BTreeMap;

use millstream_devices::claim::{MAX_PREVIOUS, RunInputKind, RunLogEntry, SeatStatus, replay_seats, table};

use super::evidence::{DeviceEvidence, DeviceFinding, DeviceRule, RunSeen, SeatSeen};
use super::tenure::{SeatTenure, seat_tenures};

pub(super) fn check_history(evidence: &DeviceEvidence) -> Vec<DeviceFinding> {
    let of_run = |run: &RunSeen| {
        let wrong =
            [path_faults(run, evidence.bounds.clock), against_replay(run), former_faults(run)].concat();
        wrong
            .into_iter()
            .map(|what| DeviceFinding::new_finding(DeviceRule::History, &run.id, what))
            .collect::<Vec<_>>()
    };
    evidence.runs.iter().flat_map(of_run).collect()
}

/// Every line starts in the status where the previous one ended, and is in the table.
fn path_faults(run: &RunSeen, clock: i64) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut stands: BTreeMap<u16, SeatStatus> = BTreeMap::new();
    let mut latest = i64::MIN;
    for (line, entry) in run.log.iter().enumerate() {
        let RunLogEntry { at, seat, word, from, to, .. } = entry;
        if at.as_millis() + clock < latest {
            wrong.push(format!(
                "line {line}: {word} is {} ms before what is above it",
                latest - at.as_millis()
            ));
        }
        latest = latest.max(at.as_millis());
        let before = seat.and_then(|seat| stands.insert(seat, *to));
        match (seat, from) {
            (Some(seat), None) => {
                if *word != RunInputKind::Create || *to != SeatStatus::Created || before.is_some() {
                    wrong.push(format!("line {line}: seat {seat} begins with {word} to {to}"));
                }
            }
            (Some(seat), Some(from)) => {
                if before != Some(*from) {
                    let before = before.map_or("nowhere", SeatStatus::as_str);
                    wrong.push(format!("line {line}: seat {seat} is {before}, and {word} finds it {from}"));
                }
                if !table::is_transition(*from, *word, *to) {
                    wrong.push(format!("line {line}: {word} does not lead from {from} to {to}"));
                }
            }
            (None, Some(from)) => {
                if !table::is_transition(*from, *word, *to) {
                    wrong.push(format!("line {line}: {word} of the run does not lead from {from} to {to}"));
                }
            }
            (None, None) => wrong.push(format!("line {line}: {word} comes from nowhere")),
        }
    }
    wrong
}

fn against_replay(run: &RunSeen) -> Vec<String> {
    let told = replay_seats(&run.log);
    let mut wrong = Vec::new();
    if told.len() != run.seats.len() {
        wrong.push(format!("has {} seats, and its log tells of {}", run.seats.len(), told.len()));
    }
    for (number, seat) in (0..).zip(&run.seats) {
        let Some(outline) = told.get(&number) else { continue };
        if outline.status != seat.status {
            wrong.push(format!("seat {number} is {}, its log says {}", seat.status, outline.status));
        }
        let beyond = outline.former.len().saturating_sub(MAX_PREVIOUS);
        let logged = outline.former.iter().skip(beyond).map(|(device, token, how)| (device, *token, *how));
        let said = seat.previous.iter().map(|one| (&one.device, one.token, one.reason));
        if !logged.clone().eq(said.clone()) {
            let (logged, said): (Vec<_>, Vec<_>) = (logged.collect(), said.collect());
            wrong.push(format!("seat {number}: former holders are {said:?}, its log says {logged:?}"));
        }
    }
    wrong
}

/// Former assignments have the times of the log, and a completed seat names its last holder.
fn former_faults(run: &RunSeen) -> Vec<String> {
    let (all, _) = seat_tenures(&run.log);
    let mut wrong = Vec::new();
    for (number, seat) in (0..).zip(&run.seats) {
        let of_seat: Vec<&SeatTenure> = all.iter().filter(|one| one.seat == number).collect();
        wrong.extend(seat.previous.iter().filter_map(|one| {
            let logged = of_seat.iter().find(|tenure| tenure.token == one.token.0)?;
            let times = (one.assigned_at.as_millis(), Some(one.ended_at.as_millis()));
            let logged = (logged.from, logged.end.map(|end| end.at));
            (times != logged).then(|| {
                format!("seat {number}: token {} lasted {times:?}, its log says {logged:?}", one.token)
            })
        }));
        wrong.extend(completed_by_another(number, seat, &of_seat));
    }
    wrong
}

fn completed_by_another(number: u16, seat: &SeatSeen, of_seat: &[&SeatTenure]) -> Option<String> {
    let last = of_seat.last().filter(|_| seat.status == SeatStatus::Completed)?;
    let is_it = (seat.device.as_deref(), seat.token) == (Some(last.device.as_str()), Some(last.token));
    (!is_it).then(|| format!("seat {number}: completed by {:?}, its log says {}", seat.device, last.device))
}
