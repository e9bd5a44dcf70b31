//! What can be asked of a run.

use super::choose::{Decision, Outlook};
use super::fit::Unfit;
use super::row::WaitingAction;
use super::seat::{Failure, Progress, Token};
use super::word::Word;
use crate::id::{DeviceId, RunId};
use crate::raw::RawJson;

#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A device was chosen. The decision is kept with it.
    Assign {
        seat: u16,
        device: DeviceId,
        decision: Option<Box<Decision>>,
    },
    /// A device takes a seat by itself: this one, or the first that nobody has.
    SelfClaim {
        device: DeviceId,
        seat: Option<u16>,
        fitness: Result<(), Unfit>,
        decision: Option<Box<Decision>>,
    },
    /// Nobody was found.
    NobodyViable {
        seat: u16,
        outlook: Outlook,
        decision: Option<Box<Decision>>,
    },
    /// A device does something with the seat that it has.
    Act(Act, Doing),
    AssignmentTimeout {
        seat: u16,
    },
    ClaimExpiry {
        seat: u16,
    },
    HeartbeatTimeout {
        seat: u16,
    },
    /// The rest is over: everybody may be asked again.
    BackoffOver {
        seat: u16,
    },
    /// The device is no longer registered.
    DeviceGone {
        device: DeviceId,
    },
    /// A run of higher priority takes the device.
    Preempt {
        seat: u16,
        by: RunId,
        priority: i32,
    },
    /// A device that was cut off had claimed a seat under a former assignment of its own.
    OfflineClaim(Act),
    Pause,
    Resume,
    Cancel {
        reason: Option<String>,
    },
    /// A failed run begins again.
    Retry,
    /// The action that waits is leased anew (its worker died, or a person retries it): the outcome is settled under
    /// this lease. A run that has failed begins again; one that is completed tells its outcome once more.
    Adopt {
        waiting: WaitingAction,
    },
}

/// Who acts, on which seat, by which right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Act {
    pub device: DeviceId,
    pub seat: u16,
    pub token: Token,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doing {
    Accept,
    Decline {
        reason: Option<String>,
    },
    Start,
    Heartbeat,
    Progress(Progress),
    Complete {
        output: RawJson,
    },
    /// It cannot be done: by nobody, or not by this device.
    Fail {
        failure: Failure,
        retryable: bool,
    },
    Release {
        reason: Option<String>,
    },
    Abort {
        reason: Option<String>,
    },
}

impl Input {
    pub fn word(&self) -> Word {
        match self {
            Self::Assign { .. } => Word::Assign,
            Self::SelfClaim { .. } => Word::SelfClaim,
            Self::NobodyViable { .. } => Word::NobodyViable,
            Self::Act(_, doing) => doing.word(),
            Self::AssignmentTimeout { .. } => Word::AssignmentTimeout,
            Self::ClaimExpiry { .. } => Word::ClaimExpiry,
            Self::HeartbeatTimeout { .. } => Word::HeartbeatTimeout,
            Self::BackoffOver { .. } => Word::BackoffOver,
            Self::DeviceGone { .. } => Word::DeviceGone,
            Self::Preempt { .. } => Word::Preempt,
            Self::OfflineClaim(_) => Word::OfflineClaim,
            Self::Pause => Word::Pause,
            Self::Resume => Word::Resume,
            Self::Cancel { .. } => Word::Cancel,
            Self::Retry => Word::Retry,
            Self::Adopt { .. } => Word::Adopt,
        }
    }
}

impl Doing {
    pub fn word(&self) -> Word {
        match self {
            Self::Accept => Word::Accept,
            Self::Decline { .. } => Word::Decline,
            Self::Start => Word::Start,
            Self::Heartbeat => Word::Heartbeat,
            Self::Progress(_) => Word::Progress,
            Self::Complete { .. } => Word::Complete,
            Self::Fail { .. } => Word::Fail,
            Self::Release { .. } => Word::Release,
            Self::Abort { .. } => Word::Abort,
        }
    }
}
