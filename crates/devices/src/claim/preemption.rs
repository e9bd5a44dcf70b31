//! Pre-emption: selects the seat that is freed for a run of higher priority.

use millstream_model::id::{DeviceId, RunKey};
use millstream_model::time::Timestamp;

use super::run::RunRecord;
use super::seat::SeatToken;
use super::status::SeatStatus;

/// A seat that a device holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OccupiedSeat {
    pub run: RunKey,
    pub seat: u16,
    pub device: DeviceId,
    pub token: SeatToken,
    pub status: SeatStatus,
    pub priority: i32,
    pub assigned_at: Timestamp,
}

/// The claimed seat of lowest priority, which must be below that of the run; ties go to the latest
/// assignment, which loses the least work. `occupied` are the seats of devices that are eligible for the run
/// but have no free capacity.
pub fn preemption_victim<'a>(run: &RunRecord, occupied: &'a [OccupiedSeat]) -> Option<&'a OccupiedSeat> {
    if !run.preempt {
        return None;
    }
    let works = |seat: &&OccupiedSeat| match seat.status {
        SeatStatus::Claimed | SeatStatus::Processing => true,
        SeatStatus::Created
        | SeatStatus::AssigningToSelf
        | SeatStatus::AssigningToOther
        | SeatStatus::Assigned
        | SeatStatus::Reassigning
        | SeatStatus::Completed
        | SeatStatus::Failed => false,
    };
    let below = occupied.iter().filter(works).filter(|seat| seat.priority < run.priority);
    below.min_by(|one, other| {
        let by_time = other.assigned_at.cmp(&one.assigned_at);
        one.priority.cmp(&other.priority).then(by_time).then_with(|| one.run.cmp(&other.run))
    })
}
