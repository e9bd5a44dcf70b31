//! Runs of devices, and their seats.

use std::collections::BTreeSet;

use millstream_model::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::run_settings::RunSettingsView;
use crate::scalar;
use crate::words::api_words;

api_words! {
    /// Status of a run, or of one of its seats.
    RunStatus {
        /// No device has been asked yet.
        Created = "created",
        /// A device claims it on its own initiative. Only in the log.
        AssigningToSelf = "assigning_to_self",
        /// It is being assigned to a selected device. Only in the log.
        AssigningToOther = "assigning_to_other",
        /// Offered to a device.
        Assigned = "assigned",
        /// Accepted by a device.
        Claimed = "claimed",
        /// A device works on it.
        Processing = "processing",
        /// The server is looking for another device.
        Reassigning = "reassigning",
        Completed = "completed",
        Failed = "failed",
    }
}

impl RunStatus {
    /// Final unless an operator retries the run.
    pub const fn is_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }
}

api_words! {
    /// How devices are assigned: by the server, or by an operator.
    RunAssignmentMode {
        Auto = "auto",
        Manual = "manual",
    }
}

api_words! {
    /// What happens at the next deadline of a seat.
    RunDueAction {
        /// A device is selected.
        Place = "place",
        /// The device has not answered the offer in time.
        AssignmentTimeout = "assignment_timeout",
        /// The device has not started in time.
        ClaimExpiry = "claim_expiry",
        /// No heartbeat in time.
        HeartbeatTimeout = "heartbeat_timeout",
        /// Devices may be asked again.
        BackoffOver = "backoff_over",
    }
}

api_words! {
    /// Why a seat has failed.
    RunFailureKind {
        /// The device reported a final error.
        Error = "error",
        /// No device is left to ask.
        NobodyLeft = "nobody_left",
        Cancelled = "cancelled",
        /// Another seat of the run has failed.
        OtherSeat = "other_seat",
    }
}

api_words! {
    /// Why an assignment ended before the work was done.
    RunLossReason {
        /// No answer in time, or not started in time.
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
        /// The device is not registered any more.
        Gone = "gone",
        /// Another offline claim, of an earlier assignment, took precedence.
        Superseded = "superseded",
    }
}

/// The current state of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Run", deny_unknown_fields)]
pub struct RunSummary<J = Value> {
    #[schemars(with = "scalar::RunId")]
    pub run_id: String,
    #[schemars(with = "scalar::Name")]
    pub kind: String,
    pub status: RunStatus,
    /// An operator has paused it.
    pub paused: bool,
    /// The highest comes first.
    pub priority: i32,
    /// Whether it may take a device from work of lower priority.
    pub preempt: bool,
    /// Whether the elected coordinator is asked first.
    pub coordinator: bool,
    pub assign: RunAssignmentMode,
    /// Capabilities that a device must have.
    #[schemars(with = "Vec<scalar::Name>")]
    pub requires: BTreeSet<String>,
    /// Capabilities that a device should have: it is preferred.
    #[schemars(with = "Vec<scalar::Name>")]
    pub prefer: BTreeSet<String>,
    /// The charge that a device on battery must have, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub min_battery: Option<u8>,
    /// The device that created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::DeviceId>")]
    pub created_by: Option<String>,
    #[schemars(with = "scalar::Time")]
    pub created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::Time>")]
    pub ended_at: Option<Timestamp>,
    /// The action of an execution that waits for the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<WaitingRunAction>,
    /// Not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<RunSettingsView>,
    /// The input of the run: any JSON. Not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<J>,
    pub seats: Vec<RunSeatSummary<J>>,
}

/// An action of an execution that waits for a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct WaitingRunAction {
    #[schemars(with = "scalar::ExecutionId")]
    pub execution_id: String,
    /// The number of the transition that planned the action.
    #[schemars(range(min = 0))]
    pub seq: i64,
    #[schemars(with = "scalar::Name")]
    pub action: String,
}

/// A seat of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RunSeat", deny_unknown_fields)]
pub struct RunSeatSummary<J = Value> {
    /// Its number, from 0.
    pub seat: u16,
    pub status: RunStatus,
    /// The current device, or the last one after the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::DeviceId>")]
    pub device: Option<String>,
    /// The token of the current or last assignment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::AssignmentToken>")]
    pub token: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::Time>")]
    pub assigned_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<RunDue>,
    /// The last progress, also that of an earlier device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<RunProgress>,
    /// The output, once the seat is completed: any JSON. Not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<J>,
    /// Why the seat has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunFailure>,
    /// How often the seat was reassigned.
    pub reassignments: u32,
    /// Earlier assignments, in order. Not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Vec<PastRunAssignment>>,
}

/// The next deadline of a seat, and its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SeatDue", deny_unknown_fields)]
pub struct RunDue {
    #[schemars(with = "scalar::Time")]
    pub at: Timestamp,
    pub what: RunDueAction,
}

/// The failure of a seat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RunFailure {
    pub kind: RunFailureKind,
    pub message: String,
    /// The error class that the device reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::Name>")]
    pub class: Option<String>,
}

/// An assignment that is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct PastRunAssignment {
    #[schemars(with = "scalar::DeviceId")]
    pub device: String,
    #[schemars(with = "scalar::AssignmentToken")]
    pub token: i64,
    #[schemars(with = "scalar::Time")]
    pub assigned_at: Timestamp,
    #[schemars(with = "scalar::Time")]
    pub ended_at: Timestamp,
    pub reason: RunLossReason,
    /// Free text from the device or the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The last progress of this device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<RunProgress>,
}

/// The progress of the work.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SeatProgress", deny_unknown_fields)]
pub struct RunProgress {
    #[schemars(range(min = 0, max = 9_007_199_254_740_991_u64))]
    pub step: u64,
    #[schemars(range(min = 0, max = 9_007_199_254_740_991_u64))]
    pub total: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "scalar::ProgressNote")]
    pub note: Option<String>,
}

/// The current holder of a seat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct SeatHolder {
    #[schemars(with = "scalar::DeviceId")]
    pub device: String,
    #[schemars(with = "scalar::Time")]
    pub since: Timestamp,
    pub status: RunStatus,
}

impl<J> RunSeatSummary<J> {
    /// Earlier assignments, in order; none in lists.
    pub fn earlier_assignments(&self) -> &[PastRunAssignment] {
        self.previous.as_deref().unwrap_or_default()
    }
}
