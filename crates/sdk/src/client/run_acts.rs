//! The assignments of a device, and its acts on them.

use std::time::Duration;

use millstream_api::run_acts::{
    RunActed, RunClaim, RunComplete, RunFail, RunGiveUp, RunProgressReport, RunSeatAct,
};
use millstream_api::run_assignments::{RunAssignment, RunAssignments};
use millstream_api::runs::RunProgress;
use serde::Serialize;
use serde_json::Value;

use super::connect::Client;
use super::devices;
use super::json;
use super::runs;
use super::transport::{ApiRequest, RepeatPolicy};
use crate::client_error::ClientError;

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
        match act {
            RunAct::Accept => self.send_act(of, "accept", &seat_act(device, of)).await,
            RunAct::Start => self.send_act(of, "start", &seat_act(device, of)).await,
            RunAct::Decline(reason) => self.send_act(of, "decline", &give_up(device, of, reason)).await,
            RunAct::Release(reason) => self.send_act(of, "release", &give_up(device, of, reason)).await,
            RunAct::Abort(reason) => self.send_act(of, "abort", &give_up(device, of, reason)).await,
            RunAct::Progress(RunProgress { step, total, note }) => {
                let report = RunProgressReport {
                    device: device.to_owned(),
                    seat: Some(of.seat),
                    token: of.token,
                    step: *step,
                    total: *total,
                    note: note.clone(),
                };
                self.send_act(of, "progress", &report).await
            }
            RunAct::Complete(output) => {
                let complete = RunComplete {
                    device: device.to_owned(),
                    seat: Some(of.seat),
                    token: of.token,
                    output: Some(output),
                };
                self.send_act(of, "complete", &complete).await
            }
            RunAct::Fail { message, class, retryable } => {
                let fail = RunFail {
                    device: device.to_owned(),
                    seat: Some(of.seat),
                    token: of.token,
                    message: message.clone(),
                    class: class.clone(),
                    retryable: Some(*retryable),
                };
                self.send_act(of, "fail", &fail).await
            }
        }
    }

    /// Claims a seat of a run that is not assigned: the given one, or the first. The device need not accept it
    /// any more.
    pub async fn claim_run(
        &self,
        device: &str,
        run: &str,
        seat: Option<u16>,
    ) -> Result<RunActed, ClientError> {
        self.post_act(run, "claim", &RunClaim { device: device.to_owned(), seat }).await
    }

    /// Claims a seat that the device held before it was disconnected. Refused (409) if a later assignment has
    /// begun the work.
    pub async fn claim_run_offline(&self, device: &str, of: &RunAssignment) -> Result<RunActed, ClientError> {
        self.send_act(of, "offline_claim", &seat_act(device, of)).await
    }

    async fn send_act(
        &self,
        of: &RunAssignment,
        verb: &str,
        body: &impl Serialize,
    ) -> Result<RunActed, ClientError> {
        self.post_act(&of.run_id, verb, body).await
    }

    async fn post_act(&self, run: &str, verb: &str, body: &impl Serialize) -> Result<RunActed, ClientError> {
        let path = runs::run_path(run, &format!("/{verb}"));
        let ask = ApiRequest::post(path, RepeatPolicy::Always).with_json(json::json_body(body)?);
        self.send_request(&ask).await?.json()
    }
}

fn seat_act(device: &str, of: &RunAssignment) -> RunSeatAct {
    RunSeatAct { device: device.to_owned(), seat: Some(of.seat), token: of.token }
}

fn give_up(device: &str, of: &RunAssignment, reason: &str) -> RunGiveUp {
    RunGiveUp {
        device: device.to_owned(),
        seat: Some(of.seat),
        token: of.token,
        reason: Some(reason.to_owned()),
    }
}
