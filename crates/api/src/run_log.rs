//! The log of a run, and the explanation of its state.

use millstream_model::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::runs::{RunLossReason, RunSeatSummary, RunStatus};
use crate::scalar;
use crate::words::api_words;

api_words! {
    /// What happened to a run.
    RunLogWord {
        Create = "create",
        SelfClaim = "self_claim",
        Assign = "assign",
        /// The assignment that the entry before decided is recorded.
        Recorded = "recorded",
        /// No device is able at the moment.
        NobodyViable = "nobody_viable",
        Accept = "accept",
        Decline = "decline",
        AssignmentTimeout = "assignment_timeout",
        Start = "start",
        ClaimExpiry = "claim_expiry",
        Heartbeat = "heartbeat",
        HeartbeatTimeout = "heartbeat_timeout",
        Progress = "progress",
        Complete = "complete",
        Fail = "fail",
        Release = "release",
        Abort = "abort",
        BackoffOver = "backoff_over",
        DeviceGone = "device_gone",
        Preempt = "preempt",
        OfflineClaim = "offline_claim",
        Pause = "pause",
        Resume = "resume",
        Cancel = "cancel",
        Retry = "retry",
        /// The waiting action of the execution was leased again.
        Adopt = "adopt",
        /// No device is left to ask.
        NobodyLeft = "nobody_left",
        /// Another seat has failed and, with it, the run.
        RunFailed = "run_failed",
    }
}

/// An entry of the log of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RunLogEntry", deny_unknown_fields)]
pub struct RunLogLine<J = Value> {
    #[schemars(range(min = 0))]
    pub position: i64,
    #[schemars(with = "scalar::Time")]
    pub at: Timestamp,
    /// The number of the seat; absent for the run as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seat: Option<u16>,
    pub word: RunLogWord,
    /// The status before; absent at the creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<RunStatus>,
    /// The status after.
    pub to: RunStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::DeviceId>")]
    pub device: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::AssignmentToken>")]
    pub token: Option<i64>,
    /// Why an assignment ended with this entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<RunLossReason>,
    /// Free text from the device or the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The requester, if it was not the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Of an assignment: the decision (how, and a score card per device, or why it was not eligible). At the end:
    /// the progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<J>,
}

/// The explanation of the state of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RunWhy<J = Value> {
    #[schemars(with = "scalar::RunId")]
    pub run_id: String,
    pub status: RunStatus,
    /// An operator has paused it.
    pub paused: bool,
    pub seats: Vec<RunSeatSummary<J>>,
    /// The last selections of devices, in order; `detail` has the score cards.
    pub decisions: Vec<RunLogLine<J>>,
}
