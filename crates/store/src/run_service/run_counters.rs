//! Counters of committed changes.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_devices::claim::{RunChange, SeatLossReason, SeatStatus};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunCounters {
    pub created: u64,
    /// Seats offered to devices or taken by them.
    pub assigned: u64,
    /// Why seats were returned for reassignment.
    pub reassigned: BTreeMap<SeatLossReason, u64>,
    pub completed: u64,
    pub failed: u64,
    /// From the creation of a run to the first claim of a seat.
    pub until_claimed: Vec<Duration>,
}

impl RunCounters {
    pub(super) fn count_change(&mut self, change: &RunChange) {
        let run = &change.run;
        for entry in &change.log {
            if entry.from.is_none() && entry.seat == Some(0) {
                self.created += 1;
            }
            match entry.to {
                SeatStatus::AssigningToSelf | SeatStatus::AssigningToOther => self.assigned += 1,
                SeatStatus::Claimed => {
                    let seat = entry.seat.and_then(|seat| run.seat(seat));
                    if seat.is_some_and(|seat| seat.previous.is_empty()) {
                        self.until_claimed.push(entry.at.since(run.created_at));
                    }
                }
                SeatStatus::Reassigning => {
                    if let Some(reason) = entry.ended {
                        *self.reassigned.entry(reason).or_default() += 1;
                    }
                }
                SeatStatus::Created
                | SeatStatus::Assigned
                | SeatStatus::Processing
                | SeatStatus::Completed
                | SeatStatus::Failed => {}
            }
        }
        let ends_with = |status| change.log.last().is_some_and(|entry| entry.to == status);
        match run.status() {
            SeatStatus::Completed if ends_with(SeatStatus::Completed) => self.completed += 1,
            SeatStatus::Failed if ends_with(SeatStatus::Failed) => self.failed += 1,
            SeatStatus::Completed
            | SeatStatus::Failed
            | SeatStatus::Created
            | SeatStatus::AssigningToSelf
            | SeatStatus::AssigningToOther
            | SeatStatus::Assigned
            | SeatStatus::Claimed
            | SeatStatus::Processing
            | SeatStatus::Reassigning => {}
        }
    }
}
