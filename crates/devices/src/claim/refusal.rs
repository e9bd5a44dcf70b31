//! Refusals of inputs to a run, with the current holder.

use std::fmt;

use millstream_model::id::{DeviceId, ExecutionKey};
use millstream_model::time::Timestamp;

use super::eligibility::DeviceIneligibility;
use super::input_kind::RunInputKind;
use super::status::SeatStatus;

/// The input was refused; nothing changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRefusal {
    /// The status of the seat, or of the run if no seat was named.
    pub status: SeatStatus,
    pub input: RunInputKind,
    pub why: RunRefusalReason,
    /// The current holder of the seat, if any.
    pub holder: Option<CurrentSeatHolder>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CurrentSeatHolder {
    pub device: DeviceId,
    pub since: Timestamp,
    pub status: SeatStatus,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunRefusalReason {
    /// Illegal in this status.
    NotNow,
    /// The fencing token is stale: the seat was reassigned, or the token was never issued.
    StaleToken,
    /// Another device holds the seat.
    Taken,
    /// A claim made online, or an earlier assignment, takes precedence: the device must release its claim.
    Release,
    NoSuchSeat,
    /// The device holds or has completed another seat of this run.
    OnAnotherSeat,
    Unfit(DeviceIneligibility),
    Paused,
    /// The run is assigned manually.
    Manual,
    /// The due time has not come.
    NotDue,
    /// The priority is not higher.
    NotHigher,
    /// The waiting execution received the outcome and has continued.
    BelongsTo(ExecutionKey),
}

impl fmt::Display for RunRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (input, status) = (self.input, self.status);
        match &self.why {
            RunRefusalReason::NotNow => write!(f, "cannot {input} while it is {status}")?,
            RunRefusalReason::StaleToken => write!(f, "the token is stale: it is {status}")?,
            RunRefusalReason::Taken => write!(f, "it is already {status}")?,
            RunRefusalReason::Release => {
                write!(f, "it is {status} under another claim, which wins: release yours")?
            }
            RunRefusalReason::NoSuchSeat => f.write_str("there is no such seat")?,
            RunRefusalReason::OnAnotherSeat => f.write_str("the device has another seat of this run")?,
            RunRefusalReason::Unfit(unfit) => write!(f, "the device cannot take it: {unfit}")?,
            RunRefusalReason::Paused => write!(f, "the run is paused, and {status}")?,
            RunRefusalReason::Manual => f.write_str("the run is assigned manually")?,
            RunRefusalReason::NotDue => write!(f, "it is {status} and {input} is not due yet")?,
            RunRefusalReason::NotHigher => {
                write!(f, "it is {status} for work of the same or a higher priority")?
            }
            RunRefusalReason::BelongsTo(execution) => {
                write!(f, "it is {status} and was reported to the execution {execution}: retry it there")?;
            }
        }
        match &self.holder {
            Some(CurrentSeatHolder { device, since, status }) => {
                write!(f, " ({device}: {status} since {since})")
            }
            None => Ok(()),
        }
    }
}

impl std::error::Error for RunRefusal {}
