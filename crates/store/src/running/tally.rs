//! Counters of committed changes.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_core::claim::{Change, Ended, Status};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    pub created: u64,
    /// Seats offered to devices or taken by them.
    pub assigned: u64,
    /// Why seats were returned for reassignment.
    pub reassigned: BTreeMap<Ended, u64>,
    pub completed: u64,
    pub failed: u64,
    /// From the creation of a run to the first claim of a seat.
    pub until_claimed: Vec<Duration>,
}

impl Tally {
    pub(super) fn count(&mut self, change: &Change) {
        let run = &change.run;
        for entry in &change.log {
            if entry.from.is_none() && entry.seat == Some(0) {
                self.created += 1;
            }
            match entry.to {
                Status::AssigningToSelf | Status::AssigningToOther => self.assigned += 1,
                Status::Claimed => {
                    let seat = entry.seat.and_then(|seat| run.seat(seat));
                    if seat.is_some_and(|seat| seat.previous.is_empty()) {
                        self.until_claimed.push(entry.at.since(run.created_at));
                    }
                }
                Status::Reassigning => {
                    if let Some(reason) = entry.ended {
                        *self.reassigned.entry(reason).or_default() += 1;
                    }
                }
                Status::Created
                | Status::Assigned
                | Status::Processing
                | Status::Completed
                | Status::Failed => {}
            }
        }
        let ends_with = |status| change.log.last().is_some_and(|entry| entry.to == status);
        match run.status() {
            Status::Completed if ends_with(Status::Completed) => self.completed += 1,
            Status::Failed if ends_with(Status::Failed) => self.failed += 1,
            Status::Completed
            | Status::Failed
            | Status::Created
            | Status::AssigningToSelf
            | Status::AssigningToOther
            | Status::Assigned
            | Status::Claimed
            | Status::Processing
            | Status::Reassigning => {}
        }
    }
}
