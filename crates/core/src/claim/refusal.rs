//! Why something cannot be done to a run, and who has it.

use std::fmt;

use super::fit::Unfit;
use super::status::Status;
use super::word::Word;
use crate::id::{DeviceId, ExecutionKey};
use crate::time::Timestamp;

/// Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Where the seat stands, or the run if no seat was named.
    pub status: Status,
    pub input: Word,
    pub why: Why,
    /// Who has the seat now, where somebody has.
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
    /// Not in this state.
    NotNow,
    /// The token is not the one of the seat: it has passed on, or was never given out.
    StaleToken,
    /// Somebody else has it.
    Taken,
    /// A claim was made online meanwhile, or belongs to an earlier assignment: let go of it.
    Release,
    NoSuchSeat,
    /// The device has or has completed another seat of this run.
    OnAnotherSeat,
    Unfit(Unfit),
    Paused,
    /// It is assigned by hand.
    Manual,
    /// Its time has not come.
    NotDue,
    /// The priority is not higher.
    NotHigher,
    /// The execution that waited for it was told, and goes on by itself.
    BelongsTo(ExecutionKey),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (input, status) = (self.input, self.status);
        match &self.why {
            Why::NotNow => write!(f, "{input} is not possible while it is {status}")?,
            Why::StaleToken => write!(f, "the token is not valid any more: it is {status}")?,
            Why::Taken => write!(f, "it is {status} already")?,
            Why::Release => write!(f, "it is {status} by another claim, which counts: release yours")?,
            Why::NoSuchSeat => f.write_str("there is no such seat")?,
            Why::OnAnotherSeat => f.write_str("the device has another seat of this run")?,
            Why::Unfit(unfit) => write!(f, "the device cannot take it: {unfit}")?,
            Why::Paused => write!(f, "the run is paused, and {status}")?,
            Why::Manual => f.write_str("the run is assigned by hand")?,
            Why::NotDue => write!(f, "it is {status} and the time for {input} has not come")?,
            Why::NotHigher => write!(f, "it is {status} for work of no lower priority")?,
            Why::BelongsTo(execution) => {
                write!(f, "it is {status}, and the execution {execution} was told: retry it there")?;
            }
        }
        match &self.holder {
            Some(Holder { device, since, status }) => write!(f, " ({device}: {status} since {since})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Refusal {}
