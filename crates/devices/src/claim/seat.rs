//! A seat of a run: its holder, its former holders, and the progress of the work.

use std::collections::BTreeSet;
use std::fmt;

use millstream_model::id::{DeviceId, Name};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_model::words;
use serde::{Deserialize, Serialize};

use super::status::SeatStatus;

/// The fencing token: grows with every assignment within a run, over all seats, and never decreases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SeatToken(pub i64);

impl SeatToken {
    /// The token of a run without an assignment.
    pub const NONE: SeatToken = SeatToken(0);
}

impl fmt::Display for SeatToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Number of former assignments kept with a seat. The log has all of them.
pub const MAX_PREVIOUS: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSeat {
    pub state: SeatState,
    /// Former holders, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub previous: Vec<FormerHolding>,
    /// The last progress reported, passed on to the next holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<SeatProgress>,
    /// Devices that are not asked before the next rest is over.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub passed_over: BTreeSet<DeviceId>,
    pub reassignments: u32,
    /// Rests since the last acceptance.
    pub rounds: u32,
    /// Rests since then during which able devices were only busy.
    pub waits: u32,
}

/// Serialised as `{"claimed": {…}}`: an output is raw JSON, which an internally tagged enum would have to
/// parse.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeatState {
    Created,
    Assigned {
        held: SeatHolding,
        /// Start of the time limit for the answer.
        asked_at: Timestamp,
    },
    Claimed {
        held: SeatHolding,
        claimed_at: Timestamp,
        /// Start of the time limit for beginning.
        counted_from: Timestamp,
        heard_at: Timestamp,
        /// Claimed while disconnected, with the token of this former assignment.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        offline: Option<SeatToken>,
    },
    Processing {
        held: SeatHolding,
        claimed_at: Timestamp,
        started_at: Timestamp,
        heard_at: Timestamp,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        offline: Option<SeatToken>,
    },
    Reassigning {
        since: Timestamp,
        /// No device is asked before this time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rest_until: Option<Timestamp>,
    },
    Completed {
        held: SeatHolding,
        at: Timestamp,
        output: RawJson,
    },
    Failed {
        at: Timestamp,
        failure: SeatFailure,
        /// The holder when it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last: Option<SeatHolding>,
    },
}

/// The holder of a seat, or the device that is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeatHolding {
    pub device: DeviceId,
    pub token: SeatToken,
    pub assigned_at: Timestamp,
    /// The operator who assigned it; `None` if the device claimed it itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// A former assignment that did not finish the work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormerHolding {
    pub device: DeviceId,
    pub token: SeatToken,
    pub assigned_at: Timestamp,
    pub ended_at: Timestamp,
    pub reason: SeatLossReason,
    /// Free text from the device or the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<SeatProgress>,
}

words! {
    /// Why an assignment ended without finishing the work.
    SeatLossReason {
        /// No answer in time, or not begun in time.
        Timeout = "timeout",
        Declined = "declined",
        /// This device could not do it; another one may.
        Failed = "failed",
        /// Released by the device, or taken back because the run ended.
        Released = "released",
        /// Pre-empted by work of higher priority.
        Preempted = "preempted",
        /// Heartbeats stopped.
        Heartbeat = "heartbeat",
        /// The device is no longer registered.
        Gone = "gone",
        /// Another offline claim, with an earlier assignment, took precedence.
        Superseded = "superseded",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeatProgress {
    pub step: u64,
    pub total: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeatFailure {
    pub kind: SeatFailureKind,
    pub message: String,
    /// The error class reported by the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Name>,
}

words! {
    SeatFailureKind {
        /// The device reported a final error.
        Error = "error",
        /// No device is left to ask.
        NobodyLeft = "nobody_left",
        Cancelled = "cancelled",
        /// Another seat of the run has failed.
        OtherSeat = "other_seat",
    }
}

impl RunSeat {
    pub(super) fn new() -> Self {
        Self {
            state: SeatState::Created,
            previous: Vec::new(),
            progress: None,
            passed_over: BTreeSet::new(),
            reassignments: 0,
            rounds: 0,
            waits: 0,
        }
    }

    pub fn status(&self) -> SeatStatus {
        match &self.state {
            SeatState::Created => SeatStatus::Created,
            SeatState::Assigned { .. } => SeatStatus::Assigned,
            SeatState::Claimed { .. } => SeatStatus::Claimed,
            SeatState::Processing { .. } => SeatStatus::Processing,
            SeatState::Reassigning { .. } => SeatStatus::Reassigning,
            SeatState::Completed { .. } => SeatStatus::Completed,
            SeatState::Failed { .. } => SeatStatus::Failed,
        }
    }

    /// The holder, or the device that is asked. `None` once the seat has ended.
    pub fn current_holding(&self) -> Option<&SeatHolding> {
        match &self.state {
            SeatState::Assigned { held, .. }
            | SeatState::Claimed { held, .. }
            | SeatState::Processing { held, .. } => Some(held),
            SeatState::Created
            | SeatState::Reassigning { .. }
            | SeatState::Completed { .. }
            | SeatState::Failed { .. } => None,
        }
    }

    /// The device that holds or completed it: it gets no other seat of this run.
    pub fn occupant(&self) -> Option<&DeviceId> {
        match &self.state {
            SeatState::Assigned { held, .. }
            | SeatState::Claimed { held, .. }
            | SeatState::Processing { held, .. }
            | SeatState::Completed { held, .. } => Some(&held.device),
            SeatState::Created | SeatState::Reassigning { .. } | SeatState::Failed { .. } => None,
        }
    }

    /// The last heartbeat of the holder; claims only.
    pub fn heard_at(&self) -> Option<Timestamp> {
        match &self.state {
            SeatState::Claimed { heard_at, .. } | SeatState::Processing { heard_at, .. } => Some(*heard_at),
            SeatState::Created
            | SeatState::Assigned { .. }
            | SeatState::Reassigning { .. }
            | SeatState::Completed { .. }
            | SeatState::Failed { .. } => None,
        }
    }

    /// Sets the last heartbeat, which is stored beside the run to keep it cheap. Changes claims only.
    pub fn record_heartbeat(&mut self, at: Timestamp) {
        if let SeatState::Claimed { heard_at, .. } | SeatState::Processing { heard_at, .. } = &mut self.state
        {
            *heard_at = at.max(*heard_at);
        }
    }
}
