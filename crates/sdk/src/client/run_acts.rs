//! What a device is asked to do, and what it does about it.

use std::time::Duration;

use millstream_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::connect::Client;
use super::devices;
use super::error::ClientError;
use super::json::{self, Json};
use super::runs::{self, RunStatus};
use super::transport::{Ask, Repeat};

/// All that a device has or is asked about, the most important first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunAssignments {
    pub items: Vec<RunAssignment>,
    /// Changes when the list does: wait for that with it.
    pub mark: String,
}

/// A seat of a run that a device has or is asked about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunAssignment {
    pub run_id: String,
    #[serde(default)]
    pub seat: u16,
    /// Names this assignment in everything that is said about it; void once the seat has passed on.
    pub token: i64,
    pub status: RunStatus,
    pub kind: String,
    #[serde(default)]
    pub priority: i32,
    #[serde(default)]
    pub paused: bool,
    pub assigned_at: Timestamp,
    /// How often it shall be heard of, once it is accepted.
    pub heartbeat_ms: u64,
    #[serde(default)]
    pub input: Value,
    /// How far whoever had it before has come.
    #[serde(default)]
    pub progress: Option<RunProgress>,
}

/// How far a run is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunProgress {
    pub step: u64,
    pub total: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What a device does with an assignment.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum RunAct {
    Accept,
    /// Another device is asked.
    Decline(String),
    Start,
    Progress(RunProgress),
    Complete(Value),
    Fail {
        message: String,
        /// A word for programs.
        class: Option<String>,
        /// Whether another device may be asked. If not, the run has failed.
        retryable: bool,
    },
    /// Give it back; its progress is kept.
    Release(String),
    /// Stop working on it and give it back.
    Abort(String),
}

/// Where the seat stands after an act.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunActed {
    pub status: RunStatus,
    pub run_status: RunStatus,
    #[serde(default)]
    pub paused: bool,
}

#[derive(Serialize)]
struct Word<'a> {
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
    /// What a device has or is asked about. Waits, at most a minute, while that is the list with the mark `seen`;
    /// without one, while there is nothing.
    pub async fn run_assignments(
        &self,
        device: &str,
        seen: Option<&str>,
        wait: Duration,
    ) -> Result<RunAssignments, ClientError> {
        let wait = Duration::from_secs(wait.as_secs().min(60));
        let mut ask = Ask::get(devices::path(device, "/assignments")).query("wait", wait.as_secs());
        if let Some(seen) = seen {
            ask = ask.query("seen", seen);
        }
        self.ask(&ask.waiting(wait)).await?.json()
    }

    /// What a device does with an assignment. Doing again what was done is fine; 409 `not-yours` when the seat has
    /// passed on.
    pub async fn act_on_run(
        &self,
        device: &str,
        of: &RunAssignment,
        act: &RunAct,
    ) -> Result<RunActed, ClientError> {
        let mut word = Word {
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
                output = Json::of(value);
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
        let path = runs::path(&of.run_id, &format!("/{verb}"));
        self.ask(&Ask::post(path, Repeat::Always).json(json::body(&word)?)).await?.json()
    }
}
