//! A run: what it asks for, its seats, and who waits for it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::seat::{Seat, SeatState, Token};
use super::settings::Settings;
use super::status::Status;
use crate::id::{ActionKey, DeviceId, Epoch, EventId, Name};
use crate::raw::RawJson;
use crate::status::words;
use crate::time::Timestamp;

/// The format that this build writes. It reads this one and the one before.
pub const FORMAT: u8 = 1;

/// Everything about a run but its key and its version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    pub format: u8,
    /// The type of work: settings are given per kind.
    pub kind: Name,
    pub input: RawJson,
    /// What a device must be able to do.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub requires: BTreeSet<Name>,
    /// What it had better be able to do.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub prefer: BTreeSet<Name>,
    pub priority: i32,
    /// Whether it may take a device from work of lower priority.
    pub preempt: bool,
    /// Whether the elected coordinator is asked before anybody else.
    pub prefer_coordinator: bool,
    /// Percent; a device that runs on less battery is not chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_battery: Option<u8>,
    pub assign: Assign,
    pub settings: Settings,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<DeviceId>,
    /// Whether the creating device wants it for itself.
    pub creator_willing: bool,
    pub created_at: Timestamp,
    /// The last one given out.
    pub token: Token,
    pub seats: Vec<Seat>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_at: Option<Timestamp>,
    /// The action of a definition that waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<WaitingAction>,
}

words! {
    /// Who decides which device gets it.
    Assign {
        Auto = "auto",
        /// A person, or a device that takes it by itself.
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

impl Run {
    /// Of all seats: the one that is behind the others; failed as soon as one is.
    pub fn status(&self) -> Status {
        let behind = |status: Status| match status {
            Status::Failed => 0,
            Status::Created => 1,
            Status::Reassigning => 2,
            Status::AssigningToSelf | Status::AssigningToOther => 3,
            Status::Assigned => 4,
            Status::Claimed => 5,
            Status::Processing => 6,
            Status::Completed => 7,
        };
        self.seats.iter().map(Seat::status).min_by_key(|status| behind(*status)).unwrap_or(Status::Failed)
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

    pub fn seat(&self, number: u16) -> Option<&Seat> {
        self.seats.get(usize::from(number))
    }

    /// Its seats by number.
    pub fn numbered(&self) -> impl Iterator<Item = (u16, &Seat)> {
        (0..).zip(&self.seats)
    }

    /// Which seat a device has or has completed.
    pub fn seat_of(&self, device: &DeviceId) -> Option<u16> {
        self.numbered().find(|(_, seat)| seat.occupant() == Some(device)).map(|(number, _)| number)
    }
}
