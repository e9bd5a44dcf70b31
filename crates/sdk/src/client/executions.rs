//! Executions: queries, lists, waiting for the end.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use millstream_api::actions::ActionView;
use millstream_api::executions::{Execution, ExecutionStatus};
use millstream_api::history::{ExecutionTransition, Timer};
use millstream_model::time::Timestamp;
use tokio::time::Instant;

use super::connect::Client;
use super::listing::{PagedList, PagedStream};
use super::transport::{ApiRequest, path_segment};
use crate::client_error::ClientError;

/// A list of executions, newest first. Set filters, then [`stream`](ExecutionList::stream) it or await all of
/// them.
#[derive(Debug)]
pub struct ExecutionList(PagedList<Execution>);

impl Client {
    /// The current state of an execution.
    pub async fn execution(&self, id: &str) -> Result<Execution, ClientError> {
        self.send_request(&ApiRequest::get(execution_path(id, ""))).await?.json()
    }

    /// An execution as of its transition number `seq`.
    pub async fn execution_at_seq(&self, id: &str, seq: i64) -> Result<Execution, ClientError> {
        self.send_request(&ApiRequest::get(execution_path(id, "")).add_query("at_seq", seq)).await?.json()
    }

    /// An execution as of a time.
    pub async fn execution_at(&self, id: &str, at: Timestamp) -> Result<Execution, ClientError> {
        self.send_request(&ApiRequest::get(execution_path(id, "")).add_query("at", at)).await?.json()
    }

    /// Executions, newest first: of all definitions, in any state by default.
    pub fn executions(&self) -> ExecutionList {
        ExecutionList(PagedList::new(self, ApiRequest::get("/v1/executions")))
    }

    /// The transitions of an execution, in order; the first is `millstream.start`.
    pub fn history(&self, id: &str) -> PagedList<ExecutionTransition> {
        PagedList::new(self, ApiRequest::get(execution_path(id, "/history")))
    }

    /// The actions of an execution: running, waiting, failed, settled.
    pub fn actions(&self, id: &str) -> PagedList<ActionView> {
        PagedList::new(self, ApiRequest::get(execution_path(id, "/actions")))
    }

    /// The armed timers, the next one first.
    pub fn timers(&self, id: &str) -> PagedList<Timer> {
        PagedList::new(self, ApiRequest::get(execution_path(id, "/timers")))
    }

    /// The execution once it has ended, or [`ClientError::TimedOut`]. A paused execution has not ended.
    pub async fn wait_until_ended(&self, id: &str, timeout: Duration) -> Result<Execution, ClientError> {
        let deadline = Instant::now() + timeout;
        loop {
            let waited = async {
                let execution = self.execution(id).await?;
                if !execution.status.is_ended() {
                    let mut tail = self.tail_after(id, execution.seq);
                    while tail.next().await.transpose()?.is_some() {}
                }
                Ok(execution)
            };
            let execution: Execution = tokio::time::timeout_at(deadline, waited)
                .await
                .map_err(|_| ClientError::TimedOut(timeout))??;
            if execution.status.is_ended() {
                return Ok(execution);
            }
        }
    }
}

impl ExecutionList {
    #[must_use]
    pub fn definition(self, name: &str) -> Self {
        Self(self.0.add_query("definition", name))
    }

    #[must_use]
    pub fn state(self, state: &str) -> Self {
        Self(self.0.add_query("state", state))
    }

    #[must_use]
    pub fn status(self, status: ExecutionStatus) -> Self {
        Self(self.0.add_query("status", status))
    }

    /// Number of executions per page.
    #[must_use]
    pub fn page_size(self, items: usize) -> Self {
        Self(self.0.page_size(items))
    }

    /// A filter by the name of its query parameter: for a word that this client does not know.
    #[must_use]
    pub fn filter(self, name: &'static str, value: &str) -> Self {
        Self(self.0.add_query(name, value))
    }

    pub fn stream(self) -> PagedStream<Execution> {
        self.0.stream()
    }
}

impl IntoFuture for ExecutionList {
    type Output = Result<Vec<Execution>, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.0.all())
    }
}

/// The path of an execution, or of a part of it.
pub(crate) fn execution_path(id: &str, rest: &str) -> String {
    format!("/v1/executions/{}{rest}", path_segment(id))
}
