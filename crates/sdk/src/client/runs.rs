//! Device runs: create, query, and decide as an operator.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;

use millstream_model::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::connect::Client;
use super::json;
use super::listing::{PagedList, PagedStream};
use super::responses::statuses;
use super::run_acts::RunProgress;
use super::transport::{ApiRequest, RepeatPolicy, path_segment};
use crate::client_error::ClientError;

statuses! {
    /// Status of a run, or of one of its seats.
    RunStatus in "snake_case" {
        Created = "created",
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
    pub const fn is_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }
}

/// Work for a device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NewRun {
    run_id: String,
    kind: String,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    requires: BTreeSet<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    prefer: BTreeSet<String>,
    input: Value,
    priority: i32,
    preempt: bool,
    devices: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_by: Option<String>,
}

/// The current state of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunSummary {
    pub run_id: String,
    pub kind: String,
    pub status: RunStatus,
    #[serde(default)]
    pub paused: bool,
    #[serde(default)]
    pub priority: i32,
    pub created_at: Timestamp,
    #[serde(default)]
    pub ended_at: Option<Timestamp>,
    /// Not in lists.
    #[serde(default)]
    pub input: Value,
    pub seats: Vec<RunSeatSummary>,
}

/// A seat of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunSeatSummary {
    pub seat: u16,
    pub status: RunStatus,
    /// The current device, or the last one after the end.
    #[serde(default)]
    pub device: Option<String>,
    #[serde(default)]
    pub token: Option<i64>,
    #[serde(default)]
    pub progress: Option<RunProgress>,
    #[serde(default)]
    pub output: Value,
    /// Earlier assignments, in order. Not in lists.
    #[serde(default)]
    pub previous: Vec<PastRunAssignment>,
}

/// An assignment that is over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PastRunAssignment {
    pub device: String,
    pub token: i64,
    pub assigned_at: Timestamp,
    pub ended_at: Timestamp,
    /// `timeout`, `declined`, `failed`, `released`, `preempted`, `heartbeat`, `gone`, …
    pub reason: String,
    #[serde(default)]
    pub why: Option<String>,
}

/// A list of runs, newest first. Set filters, then [`stream`](RunList::stream) it or await all of them.
#[derive(Debug)]
pub struct RunList(PagedList<RunSummary>);

impl NewRun {
    /// For any device, with a random id: the same value creates the same run, however often it is sent.
    pub fn of(kind: impl Into<String>) -> Self {
        Self {
            run_id: uuid::Uuid::now_v7().to_string(),
            kind: kind.into(),
            requires: BTreeSet::new(),
            prefer: BTreeSet::new(),
            input: Value::Null,
            priority: 0,
            preempt: false,
            devices: 1,
            created_by: None,
        }
    }

    /// A caller-supplied id: creating it twice with the same content creates it once.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.run_id = id.into();
        self
    }

    #[must_use]
    pub fn input(mut self, input: Value) -> Self {
        self.input = input;
        self
    }

    /// Adds a capability that the device must have.
    #[must_use]
    pub fn requires(mut self, capability: impl Into<String>) -> Self {
        self.requires.insert(capability.into());
        self
    }

    /// Adds a capability that the device should have.
    #[must_use]
    pub fn prefers(mut self, capability: impl Into<String>) -> Self {
        self.prefer.insert(capability.into());
        self
    }

    /// The highest comes first. 0 by default.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// It may preempt work of lower priority.
    #[must_use]
    pub fn preempting(mut self) -> Self {
        self.preempt = true;
        self
    }

    /// Number of devices, each of which performs the run independently.
    #[must_use]
    pub fn devices(mut self, seats: u16) -> Self {
        self.devices = seats;
        self
    }

    /// The device that creates it; preferred if it is able.
    #[must_use]
    pub fn created_by(mut self, device: impl Into<String>) -> Self {
        self.created_by = Some(device.into());
        self
    }
}

impl Client {
    /// Creates a run and offers it to the most suitable devices.
    pub async fn create_run(&self, run: &NewRun) -> Result<RunSummary, ClientError> {
        self.send_request(
            &ApiRequest::post("/v1/runs", RepeatPolicy::Always).with_json(json::json_body(run)?),
        )
        .await?
        .json()
    }

    pub async fn run(&self, id: &str) -> Result<RunSummary, ClientError> {
        self.send_request(&ApiRequest::get(run_path(id, ""))).await?.json()
    }

    /// Runs, newest first: of all kinds, in any state by default.
    pub fn runs(&self) -> RunList {
        RunList(PagedList::new(self, ApiRequest::get("/v1/runs")))
    }

    /// Explains the state of a run: the scores of the last choices, as reported by the server.
    pub async fn why_run(&self, id: &str) -> Result<Value, ClientError> {
        self.send_request(&ApiRequest::get(run_path(id, "/why"))).await?.json()
    }

    /// Pauses a run: no new offers; the current device keeps it and is notified.
    pub async fn pause_run(&self, id: &str) -> Result<RunSummary, ClientError> {
        self.decide_run(id, "pause", &json!({})).await
    }

    /// Resumes a paused run.
    pub async fn resume_run(&self, id: &str) -> Result<RunSummary, ClientError> {
        self.decide_run(id, "resume", &json!({})).await
    }

    /// Restarts a failed run; every device may be chosen.
    pub async fn retry_run(&self, id: &str) -> Result<RunSummary, ClientError> {
        self.decide_run(id, "retry", &json!({})).await
    }

    /// Ends a run as failed; its devices are notified.
    pub async fn cancel_run(&self, id: &str, reason: &str) -> Result<RunSummary, ClientError> {
        self.decide_run(id, "cancel", &json!({ "reason": reason })).await
    }

    /// Assigns a free seat to a device.
    pub async fn assign_run(&self, id: &str, seat: u16, device: &str) -> Result<RunSummary, ClientError> {
        self.decide_run(id, "assign", &json!({ "device": device, "seat": seat })).await
    }

    async fn decide_run(&self, id: &str, word: &str, body: &Value) -> Result<RunSummary, ClientError> {
        let ask = ApiRequest::post(run_path(id, &format!("/{word}")), RepeatPolicy::IfNothingHappened);
        self.send_request(&ask.with_json(json::json_body(body)?)).await?.json()
    }
}

impl RunList {
    #[must_use]
    pub fn status(self, status: RunStatus) -> Self {
        Self(self.0.add_query("status", status))
    }

    #[must_use]
    pub fn kind(self, kind: &str) -> Self {
        Self(self.0.add_query("kind", kind))
    }

    /// Only runs of this execution.
    #[must_use]
    pub fn execution(self, id: &str) -> Self {
        Self(self.0.add_query("execution_id", id))
    }

    pub fn stream(self) -> PagedStream<RunSummary> {
        self.0.stream()
    }
}

impl IntoFuture for RunList {
    type Output = Result<Vec<RunSummary>, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.0.all())
    }
}

pub(super) fn run_path(id: &str, rest: &str) -> String {
    format!("/v1/runs/{}{rest}", path_segment(id))
}
