//! The inputs of a run.

use super::choose::{Decision, Outlook};
use super::fit::Unfit;
use super::row::WaitingAction;
use super::seat::{Failure, Progress, Token};
use super::word::Word;
use crate::id::{DeviceId, RunId};
use crate::raw::RawJson;

#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A device was selected. The decision is stored with the assignment.
    Assign {
        seat: u16,
        device: DeviceId,
        decision: Option<Box<Decision>>,
    },
    /// A device claims a seat on its own initiative: this one, or the first free one.
    SelfClaim {
        device: DeviceId,
        seat: Option<u16>,
        fitness: Result<(), Unfit>,
        decision: Option<Box<Decision>>,
    },
    /// No device is eligible.
    NobodyViable {
        seat: u16,
        outlook: Outlook,
        decision: Option<Box<Decision>>,
    },
    /// A device acts on the seat that it holds.
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
    /// The rest (backoff) is over: every device may be asked once more.
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
    /// A disconnected device claimed a seat under its own former assignment.
    OfflineClaim(Act),
    Pause,
    Resume,
    Cancel {
        reason: Option<String>,
    },
    /// Restarts a failed run.
    Retry,
    /// The waiting action is leased again (its worker died, or an operator retries it): the outcome is
    /// settled under this lease. A failed run starts over; a completed run delivers its outcome once more.
    Adopt {
        waiting: WaitingAction,
    },
}

/// The acting device, its seat, and the fencing token of its assignment.
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
    /// The work has failed: on this device only (`retryable`), or on every device.
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
