//! Refusals of inputs to a run, with the current holder.

use std::fmt;

use super::fit::Unfit;
use super::status::Status;
use super::word::Word;
use crate::id::{DeviceId, ExecutionKey};
use crate::time::Timestamp;

/// The input was refused; nothing changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The status of the seat, or of the run if no seat was named.
    pub status: Status,
    pub input: Word,
    pub why: Why,
    /// The current holder of the seat, if any.
    pub holder: Option<Holder>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    pub device: DeviceId,
    pub since: Timestamp,
    pub status: Status,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
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
    Unfit(Unfit),
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

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (input, status) = (self.input, self.status);
        match &self.why {
            Why::NotNow => write!(f, "cannot {input} while it is {status}")?,
            Why::StaleToken => write!(f, "the token is stale: it is {status}")?,
            Why::Taken => write!(f, "it is already {status}")?,
            Why::Release => write!(f, "it is {status} under another claim, which wins: release yours")?,
            Why::NoSuchSeat => f.write_str("there is no such seat")?,
            Why::OnAnotherSeat => f.write_str("the device has another seat of this run")?,
            Why::Unfit(unfit) => write!(f, "the device cannot take it: {unfit}")?,
            Why::Paused => write!(f, "the run is paused, and {status}")?,
            Why::Manual => f.write_str("the run is assigned manually")?,
            Why::NotDue => write!(f, "it is {status} and {input} is not due yet")?,
            Why::NotHigher => write!(f, "it is {status} for work of the same or a higher priority")?,
            Why::BelongsTo(execution) => {
                write!(f, "it is {status} and was reported to the execution {execution}: retry it there")?;
            }
        }
        match &self.holder {
            Some(Holder { device, since, status }) => write!(f, " ({device}: {status} since {since})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Refusal {}
