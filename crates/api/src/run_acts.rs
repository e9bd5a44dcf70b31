//! Acts on a run: those of a device name its seat and the token of its assignment.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::runs::{RunDue, RunStatus};
use crate::scalar;

/// An act that needs no further values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RunAct", deny_unknown_fields)]
pub struct RunSeatAct {
    #[schemars(with = "scalar::DeviceId")]
    pub device: String,
    /// The number of the seat, if the run has several; 0 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 99))]
    pub seat: Option<u16>,
    #[schemars(with = "scalar::AssignmentToken")]
    pub token: i64,
}

/// A device declines, releases or aborts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RunGiveUp {
    #[schemars(with = "scalar::DeviceId")]
    pub device: String,
    /// The number of the seat, if the run has several; 0 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 99))]
    pub seat: Option<u16>,
    #[schemars(with = "scalar::AssignmentToken")]
    pub token: i64,
    /// A reason given by the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A device claims a seat that is not assigned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RunClaim {
    #[schemars(with = "scalar::DeviceId")]
    pub device: String,
    /// The number of the seat; the first unassigned one if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 99))]
    pub seat: Option<u16>,
}

/// An operator assigns a seat to a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RunAssign {
    #[schemars(with = "scalar::DeviceId")]
    pub device: String,
    /// The number of the seat, if the run has several; 0 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 99))]
    pub seat: Option<u16>,
}

/// A device reports its progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RunProgress", deny_unknown_fields)]
pub struct RunProgressReport {
    #[schemars(with = "scalar::DeviceId")]
    pub device: String,
    /// The number of the seat, if the run has several; 0 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 99))]
    pub seat: Option<u16>,
    #[schemars(with = "scalar::AssignmentToken")]
    pub token: i64,
    #[schemars(range(min = 0, max = 9_007_199_254_740_991_u64))]
    pub step: u64,
    #[schemars(range(min = 0, max = 9_007_199_254_740_991_u64))]
    pub total: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1000))]
    pub note: Option<String>,
}

/// A device has done the work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RunComplete", deny_unknown_fields)]
pub struct RunComplete<J = Value> {
    #[schemars(with = "scalar::DeviceId")]
    pub device: String,
    /// The number of the seat, if the run has several; 0 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 99))]
    pub seat: Option<u16>,
    #[schemars(with = "scalar::AssignmentToken")]
    pub token: i64,
    /// Any JSON, at most 192 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<J>,
}

/// A device reports a failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RunFail {
    #[schemars(with = "scalar::DeviceId")]
    pub device: String,
    /// The number of the seat, if the run has several; 0 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 99))]
    pub seat: Option<u16>,
    #[schemars(with = "scalar::AssignmentToken")]
    pub token: i64,
    pub message: String,
    /// The class of the error, for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::Name>")]
    pub class: Option<String>,
    /// Whether another device may be asked; if not, the run has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
}

/// The seat after an act of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RunActed {
    #[schemars(with = "scalar::RunId")]
    pub run_id: String,
    /// The number of the seat.
    pub seat: u16,
    /// Of the seat.
    pub status: RunStatus,
    pub run_status: RunStatus,
    /// An operator has paused the run.
    pub paused: bool,
    /// The token of the device, if it holds the seat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::AssignmentToken>")]
    pub token: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<RunDue>,
}
