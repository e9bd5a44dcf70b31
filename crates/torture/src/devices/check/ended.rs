//! D1: every acknowledged run exists, and is completed or has failed with a reason.

use std::collections::BTreeSet;

use millstream_core::claim::Status;

use super::evidence::{Evidence, Finding, Rule, RunSeen};

pub(super) fn check(evidence: &Evidence) -> Vec<Finding> {
    let there: BTreeSet<&str> = evidence.runs.iter().map(|run| run.id.as_str()).collect();
    let missing = evidence.clients.runs.iter().filter(|id| !there.contains(id.as_str()));
    let missing = missing.map(|id| Finding::of(Rule::Ended, id, "was acknowledged and is not there"));
    missing.chain(evidence.runs.iter().flat_map(of_run)).collect()
}

fn of_run(run: &RunSeen) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut wrong = |what: String| found.push(Finding::of(Rule::Ended, &run.id, what));
    if !run.status.is_ended() {
        wrong(format!("is {} at the end", run.status));
    }
    for (number, seat) in run.seats.iter().enumerate() {
        match seat.status {
            Status::Completed if seat.device.is_none() => {
                wrong(format!("seat {number}: completed without a device"))
            }
            Status::Failed if seat.error.as_ref().is_none_or(|(_, message)| message.is_empty()) => {
                wrong(format!("seat {number}: failed without a reason"));
            }
            Status::Failed if run.status == Status::Completed => {
                wrong(format!("seat {number}: failed, and the run is completed"));
            }
            Status::Completed | Status::Failed => {}
            Status::Created
            | Status::AssigningToSelf
            | Status::AssigningToOther
            | Status::Assigned
            | Status::Claimed
            | Status::Processing
            | Status::Reassigning => wrong(format!("seat {number}: is {} at the end", seat.status)),
        }
    }
    found
}
