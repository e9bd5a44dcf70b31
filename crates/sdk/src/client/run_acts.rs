//! The assignments of a device, and its acts on them.

use std::time::Duration;

use millstream_model::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::connect::Client;
use super::devices;
use super::json::{self, JsonText};
use super::runs::{self, RunStatus};
use super::transport::{ApiRequest, RepeatPolicy};
use crate::client_error::ClientError;

/// All assignments and offers of a device, the most important first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunAssignments {
    pub items: Vec<RunAssignment>,
    /// Version of the list: pass it to wait for the next version.
    pub version: String,
}

/// A run's seat that is assigned or offered to a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunAssignment {
    pub run_id: String,
    #[serde(default)]
    pub seat: u16,
    /// Identifies this assignment in every call about it; invalid once the seat has been reassigned.
    pub token: i64,
    pub status: RunStatus,
    pub kind: String,
    #[serde(default)]
    pub priority: i32,
    #[serde(default)]
    pub paused: bool,
    pub assigned_at: Timestamp,
    /// Required heartbeat period, once it is accepted.
    pub heartbeat_ms: u64,
    #[serde(default)]
    pub input: Value,
    /// Progress of the previous device.
    #[serde(default)]
    pub progress: Option<RunProgress>,
}

/// Progress of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunProgress {
    pub step: u64,
    pub total: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Act of a device on an assignment.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum RunAct {
    Accept,
    /// Declines: the run is offered to another device.
    Decline(String),
    Start,
    Progress(RunProgress),
    Complete(Value),
    Fail {
        message: String,
        /// Error class for programs.
        class: Option<String>,
        /// Whether the run may be offered to another device. If not, the run has failed.
        retryable: bool,
    },
    /// Releases it; its progress is kept.
    Release(String),
    /// Stops the work and releases it.
    Abort(String),
}

/// State of the seat after an act.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunActed {
    pub status: RunStatus,
    pub run_status: RunStatus,
    #[serde(default)]
    pub paused: bool,
}

#[derive(Serialize)]
struct RunActBody<'a> {
    device: &'a str,
    seat: u16,
    token: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(flatten)]
    progress: Option<&'a RunProgress>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retryable: Option<bool>,
}

impl Client {
    /// The assignments and offers of a device. Long poll of at most a minute: waits while the list still has
    /// the version `if_version`, or, without one, while it is empty.
    pub async fn run_assignments(
        &self,
        device: &str,
        if_version: Option<&str>,
        wait: Duration,
    ) -> Result<RunAssignments, ClientError> {
        let wait = Duration::from_secs(wait.as_secs().min(60));
        let mut ask =
            ApiRequest::get(devices::device_path(device, "/assignments")).add_query("wait", wait.as_secs());
        if let Some(version) = if_version {
            ask = ask.add_query("if_version", version);
        }
        self.send_request(&ask.with_server_wait(wait)).await?.json()
    }

    /// Acts on an assignment. Idempotent; 409 `not-owner` when the seat has been reassigned.
    pub async fn act_on_run(
        &self,
        device: &str,
        of: &RunAssignment,
        act: &RunAct,
    ) -> Result<RunActed, ClientError> {
        let mut word = RunActBody {
            device,
            seat: of.seat,
            token: of.token,
            reason: None,
            progress: None,
            output: None,
            message: None,
            class: None,
            retryable: None,
        };
        let output;
        let verb = match act {
            RunAct::Accept => "accept",
            RunAct::Start => "start",
            RunAct::Decline(reason) => {
                word.reason = Some(reason);
                "decline"
            }
            RunAct::Release(reason) => {
                word.reason = Some(reason);
                "release"
            }
            RunAct::Abort(reason) => {
                word.reason = Some(reason);
                "abort"
            }
            RunAct::Progress(progress) => {
                word.progress = Some(progress);
                "progress"
            }
            RunAct::Complete(value) => {
                output = JsonText::of_value(value);
                word.output = Some(output.get()?);
                "complete"
            }
            RunAct::Fail { message, class, retryable } => {
                word.message = Some(message);
                word.class = class.as_deref();
                word.retryable = Some(*retryable);
                "fail"
            }
        };
        let path = runs::run_path(&of.run_id, &format!("/{verb}"));
        self.send_request(&ApiRequest::post(path, RepeatPolicy::Always).with_json(json::json_body(&word)?))
            .await?
            .json()
    }
}
