//! A run: its request, its seats, and the action that waits for it.

use std::collections::BTreeSet;

use millstream_model::id::{ActionKey, DeviceId, Epoch, EventId, Name};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_model::words;
use serde::{Deserialize, Serialize};

use super::seat::{RunSeat, SeatState, SeatToken};
use super::settings::RunSettings;
use super::status::SeatStatus;

/// The format that this build writes. It reads this one and the one before.
pub const FORMAT: u8 = 1;

/// Everything about a run except its key and its version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    pub format: u8,
    /// The type of work: settings are configured per kind.
    pub kind: Name,
    pub input: RawJson,
    /// Capabilities that a device must have.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub requires: BTreeSet<Name>,
    /// Capabilities that raise the score of a device.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub prefer: BTreeSet<Name>,
    pub priority: i32,
    /// Whether it may pre-empt a run of lower priority.
    pub preempt: bool,
    /// Whether the elected coordinator is asked first.
    pub prefer_coordinator: bool,
    /// Percent; a device on less battery is not eligible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_battery: Option<u8>,
    pub assign: RunAssignMode,
    pub settings: RunSettings,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<DeviceId>,
    /// Whether the creating device is willing to take the run itself.
    pub creator_willing: bool,
    pub created_at: Timestamp,
    /// The last token issued.
    pub token: SeatToken,
    pub seats: Vec<RunSeat>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_at: Option<Timestamp>,
    /// The waiting action of an execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<WaitingAction>,
}

words! {
    /// Who selects the device.
    RunAssignMode {
        Auto = "auto",
        /// An operator, or a device that claims it on its own initiative.
        Manual = "manual",
    }
}

/// The lease under which the outcome of a run is settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingAction {
    pub key: ActionKey,
    pub epoch: Epoch,
    pub event_id: EventId,
}

impl RunRecord {
    /// The status over all seats: that of the least advanced one; failed as soon as one seat has failed.
    pub fn status(&self) -> SeatStatus {
        let behind = |status: SeatStatus| match status {
            SeatStatus::Failed => 0,
            SeatStatus::Created => 1,
            SeatStatus::Reassigning => 2,
            SeatStatus::AssigningToSelf | SeatStatus::AssigningToOther => 3,
            SeatStatus::Assigned => 4,
            SeatStatus::Claimed => 5,
            SeatStatus::Processing => 6,
            SeatStatus::Completed => 7,
        };
        self.seats
            .iter()
            .map(RunSeat::status)
            .min_by_key(|status| behind(*status))
            .unwrap_or(SeatStatus::Failed)
    }

    pub fn ended_at(&self) -> Option<Timestamp> {
        if !self.status().is_ended() {
            return None;
        }
        let ends = self.seats.iter().filter_map(|seat| match &seat.state {
            SeatState::Completed { at, .. } | SeatState::Failed { at, .. } => Some(*at),
            SeatState::Created
            | SeatState::Assigned { .. }
            | SeatState::Claimed { .. }
            | SeatState::Processing { .. }
            | SeatState::Reassigning { .. } => None,
        });
        ends.max()
    }

    pub fn is_paused(&self) -> bool {
        self.paused_at.is_some()
    }

    pub fn seat(&self, number: u16) -> Option<&RunSeat> {
        self.seats.get(usize::from(number))
    }

    /// The seats by number.
    pub fn numbered_seats(&self) -> impl Iterator<Item = (u16, &RunSeat)> {
        (0..).zip(&self.seats)
    }

    /// The seat that a device holds or has completed.
    pub fn seat_of_device(&self, device: &DeviceId) -> Option<u16> {
        self.numbered_seats().find(|(_, seat)| seat.occupant() == Some(device)).map(|(number, _)| number)
    }
}
