//! D1: every acknowledged run exists, and is completed or has failed with a reason.

use std::collections::BTreeSet;

use millstream_devices::claim::SeatStatus;

use super::evidence::{DeviceEvidence, DeviceFinding, DeviceRule, RunSeen};

pub(super) fn check_ended(evidence: &DeviceEvidence) -> Vec<DeviceFinding> {
    let there: BTreeSet<&str> = evidence.runs.iter().map(|run| run.id.as_str()).collect();
    let missing = evidence.clients.runs.iter().filter(|id| !there.contains(id.as_str()));
    let missing = missing
        .map(|id| DeviceFinding::new_finding(DeviceRule::Ended, id, "was acknowledged and is not there"));
    missing.chain(evidence.runs.iter().flat_map(of_run)).collect()
}

fn of_run(run: &RunSeen) -> Vec<DeviceFinding> {
    let mut found = Vec::new();
    let mut wrong = |what: String| found.push(DeviceFinding::new_finding(DeviceRule::Ended, &run.id, what));
    if !run.status.is_ended() {
        wrong(format!("is {} at the end", run.status));
    }
    for (number, seat) in run.seats.iter().enumerate() {
        match seat.status {
            SeatStatus::Completed if seat.device.is_none() => {
                wrong(format!("seat {number}: completed without a device"))
            }
            SeatStatus::Failed if seat.error.as_ref().is_none_or(|(_, message)| message.is_empty()) => {
                wrong(format!("seat {number}: failed without a reason"));
            }
            SeatStatus::Failed if run.status == SeatStatus::Completed => {
                wrong(format!("seat {number}: failed, and the run is completed"));
            }
            SeatStatus::Completed | SeatStatus::Failed => {}
            SeatStatus::Created
            | SeatStatus::AssigningToSelf
            | SeatStatus::AssigningToOther
            | SeatStatus::Assigned
            | SeatStatus::Claimed
            | SeatStatus::Processing
            | SeatStatus::Reassigning => wrong(format!("seat {number}: is {} at the end", seat.status)),
        }
    }
    found
}
