//! The inputs of a run.

use millstream_model::id::{DeviceId, RunId};
use millstream_model::raw::RawJson;

use super::eligibility::DeviceIneligibility;
use super::input_kind::RunInputKind;
use super::run::WaitingAction;
use super::seat::{SeatFailure, SeatProgress, SeatToken};
use super::select_device::{DeviceDecision, SeatOutlook};

#[derive(Debug, Clone, PartialEq)]
pub enum RunInput {
    /// A device was selected. The decision is stored with the assignment.
    Assign {
        seat: u16,
        device: DeviceId,
        decision: Option<Box<DeviceDecision>>,
    },
    /// A device claims a seat on its own initiative: this one, or the first free one.
    SelfClaim {
        device: DeviceId,
        seat: Option<u16>,
        fitness: Result<(), DeviceIneligibility>,
        decision: Option<Box<DeviceDecision>>,
    },
    /// No device is eligible.
    NobodyViable {
        seat: u16,
        outlook: SeatOutlook,
        decision: Option<Box<DeviceDecision>>,
    },
    /// A device acts on the seat that it holds.
    Act(SeatAct, DeviceAction),
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
    OfflineClaim(SeatAct),
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
pub struct SeatAct {
    pub device: DeviceId,
    pub seat: u16,
    pub token: SeatToken,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceAction {
    Accept,
    Decline {
        reason: Option<String>,
    },
    Start,
    Heartbeat,
    Progress(SeatProgress),
    Complete {
        output: RawJson,
    },
    /// The work has failed: on this device only (`retryable`), or on every device.
    Fail {
        failure: SeatFailure,
        retryable: bool,
    },
    Release {
        reason: Option<String>,
    },
    Abort {
        reason: Option<String>,
    },
}

impl RunInput {
    pub fn input_kind(&self) -> RunInputKind {
        match self {
            Self::Assign { .. } => RunInputKind::Assign,
            Self::SelfClaim { .. } => RunInputKind::SelfClaim,
            Self::NobodyViable { .. } => RunInputKind::NobodyViable,
            Self::Act(_, doing) => doing.input_kind(),
            Self::AssignmentTimeout { .. } => RunInputKind::AssignmentTimeout,
            Self::ClaimExpiry { .. } => RunInputKind::ClaimExpiry,
            Self::HeartbeatTimeout { .. } => RunInputKind::HeartbeatTimeout,
            Self::BackoffOver { .. } => RunInputKind::BackoffOver,
            Self::DeviceGone { .. } => RunInputKind::DeviceGone,
            Self::Preempt { .. } => RunInputKind::Preempt,
            Self::OfflineClaim(_) => RunInputKind::OfflineClaim,
            Self::Pause => RunInputKind::Pause,
            Self::Resume => RunInputKind::Resume,
            Self::Cancel { .. } => RunInputKind::Cancel,
            Self::Retry => RunInputKind::Retry,
            Self::Adopt { .. } => RunInputKind::Adopt,
        }
    }
}

impl DeviceAction {
    pub fn input_kind(&self) -> RunInputKind {
        match self {
            Self::Accept => RunInputKind::Accept,
            Self::Decline { .. } => RunInputKind::Decline,
            Self::Start => RunInputKind::Start,
            Self::Heartbeat => RunInputKind::Heartbeat,
            Self::Progress(_) => RunInputKind::Progress,
            Self::Complete { .. } => RunInputKind::Complete,
            Self::Fail { .. } => RunInputKind::Fail,
            Self::Release { .. } => RunInputKind::Release,
            Self::Abort { .. } => RunInputKind::Abort,
        }
    }
}
