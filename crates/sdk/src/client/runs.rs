//! Device runs: create, query, and decide as an operator.

use std::future::Future;
use std::pin::Pin;

use millstream_api::new_run::NewRun;
use millstream_api::run_acts::RunAssign;
use millstream_api::run_log::{RunLogLine, RunWhy};
use millstream_api::runs::{RunStatus, RunSummary};

use super::connect::Client;
use super::events::reason_body;
use super::json;
use super::listing::{PagedList, PagedStream};
use super::transport::{ApiRequest, RepeatPolicy, path_segment};
use crate::client_error::ClientError;

/// A list of runs, newest first. Set filters, then [`stream`](RunList::stream) it or await all of them.
#[derive(Debug)]
pub struct RunList(PagedList<RunSummary>);

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

    /// What happened to a run, in order.
    pub fn run_log(&self, id: &str) -> PagedList<RunLogLine> {
        PagedList::new(self, ApiRequest::get(run_path(id, "/log")))
    }

    /// Explains the state of a run: its seats, and the last selections with the score of every device.
    pub async fn why_run(&self, id: &str) -> Result<RunWhy, ClientError> {
        self.send_request(&ApiRequest::get(run_path(id, "/why"))).await?.json()
    }

    /// Pauses a run: no new offers; the current device keeps it and is notified.
    pub async fn pause_run(&self, id: &str) -> Result<RunSummary, ClientError> {
        self.decide_run(id, "pause", b"{}".to_vec()).await
    }

    /// Resumes a paused run.
    pub async fn resume_run(&self, id: &str) -> Result<RunSummary, ClientError> {
        self.decide_run(id, "resume", b"{}".to_vec()).await
    }

    /// Restarts a failed run; every device may be chosen.
    pub async fn retry_run(&self, id: &str) -> Result<RunSummary, ClientError> {
        self.decide_run(id, "retry", b"{}".to_vec()).await
    }

    /// Ends a run as failed; its devices are notified.
    pub async fn cancel_run(&self, id: &str, reason: Option<&str>) -> Result<RunSummary, ClientError> {
        self.decide_run(id, "cancel", reason_body(reason)?).await
    }

    /// Assigns a free seat to a device.
    pub async fn assign_run(&self, id: &str, seat: u16, device: &str) -> Result<RunSummary, ClientError> {
        let body = RunAssign { device: device.to_owned(), seat: Some(seat) };
        self.decide_run(id, "assign", json::json_body(&body)?).await
    }

    async fn decide_run(&self, id: &str, word: &str, body: Vec<u8>) -> Result<RunSummary, ClientError> {
        let ask = ApiRequest::post(run_path(id, &format!("/{word}")), RepeatPolicy::IfNothingHappened);
        self.send_request(&ask.with_json(body)).await?.json()
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

    /// A filter by the name of its query parameter: for a word that this client does not know.
    #[must_use]
    pub fn filter(self, name: &'static str, value: &str) -> Self {
        Self(self.0.add_query(name, value))
    }

    /// Number of runs per page.
    #[must_use]
    pub fn page_size(self, items: usize) -> Self {
        Self(self.0.page_size(items))
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
