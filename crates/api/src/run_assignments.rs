//! The assignments of a device: seats of runs that it holds or is offered.

use millstream_model::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::runs::{RunDue, RunProgress, RunStatus};
use crate::scalar;
use crate::sse::SseData;

/// All seats that a device holds or is offered, the highest priority first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Assignments", deny_unknown_fields)]
pub struct RunAssignments<J = Value> {
    pub items: Vec<RunAssignment<J>>,
    /// The version of the list, which changes when the list does: send it as `if_version` to wait for a change.
    pub version: String,
}

/// A seat of a run that a device holds or is offered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Assignment", deny_unknown_fields)]
pub struct RunAssignment<J = Value> {
    #[schemars(with = "scalar::RunId")]
    pub run_id: String,
    /// The number of its seat.
    pub seat: u16,
    /// Identifies this assignment in every call about it; invalid once the seat has been reassigned.
    #[schemars(with = "scalar::AssignmentToken")]
    pub token: i64,
    /// Of the seat.
    pub status: RunStatus,
    #[schemars(with = "scalar::Name")]
    pub kind: String,
    pub priority: i32,
    /// An operator has paused the run.
    pub paused: bool,
    #[schemars(with = "scalar::Time")]
    pub assigned_at: Timestamp,
    /// The next deadline; the seat is reassigned to another device when it passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<RunDue>,
    /// The heartbeat interval in milliseconds, once the device has accepted.
    pub heartbeat_ms: u64,
    /// The input of the run: any JSON.
    pub input: J,
    /// The last progress, also that of the previous device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<RunProgress>,
}

/// One server-sent event, as its fields.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct AssignmentsMessage {
    #[schemars(extend("enum" = ["assignments"]))]
    pub event: String,
    #[schemars(with = "scalar::AssignmentsVersion")]
    pub id: String,
    #[schemars(with = "SseData<RunAssignments>")]
    pub data: String,
}
