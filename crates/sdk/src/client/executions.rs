//! Executions: queries, lists, waiting for the end.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::Instant;

use super::answer::{ActionView, Execution, ExecutionStatus, Timer, Transition};
use super::connect::Client;
use super::error::ClientError;
use super::listing::{List, Listing};
use super::transport::{Ask, segment};
use millstream_core::time::Timestamp;

/// A list of executions, newest first. Set filters, then [`stream`](Executions::stream) it or await all of
/// them.
#[derive(Debug)]
pub struct Executions(List<Execution>);

impl Client {
    /// The current state of an execution.
    pub async fn execution(&self, id: &str) -> Result<Execution, ClientError> {
        self.ask(&Ask::get(path(id, ""))).await?.json()
    }

    /// An execution as of its transition number `seq`.
    pub async fn execution_at_seq(&self, id: &str, seq: i64) -> Result<Execution, ClientError> {
        self.ask(&Ask::get(path(id, "")).query("at_seq", seq)).await?.json()
    }

    /// An execution as of a time.
    pub async fn execution_at(&self, id: &str, at: Timestamp) -> Result<Execution, ClientError> {
        self.ask(&Ask::get(path(id, "")).query("at", at)).await?.json()
    }

    /// Executions, newest first: of all definitions, in any state by default.
    pub fn executions(&self) -> Executions {
        Executions(List::new(self, Ask::get("/v1/executions")))
    }

    /// The transitions of an execution, in order; the first is `millstream.start`.
    pub fn history(&self, id: &str) -> List<Transition> {
        List::new(self, Ask::get(path(id, "/history")))
    }

    /// The actions of an execution: running, waiting, failed, settled.
    pub fn actions(&self, id: &str) -> List<ActionView> {
        List::new(self, Ask::get(path(id, "/actions")))
    }

    /// The armed timers, the next one first.
    pub fn timers(&self, id: &str) -> List<Timer> {
        List::new(self, Ask::get(path(id, "/timers")))
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

impl Executions {
    #[must_use]
    pub fn definition(self, name: &str) -> Self {
        Self(self.0.query("definition", name))
    }

    #[must_use]
    pub fn state(self, state: &str) -> Self {
        Self(self.0.query("state", state))
    }

    #[must_use]
    pub fn status(self, status: ExecutionStatus) -> Self {
        Self(self.0.query("status", status))
    }

    /// Number of executions per page.
    #[must_use]
    pub fn page_size(self, items: usize) -> Self {
        Self(self.0.page_size(items))
    }

    pub fn stream(self) -> Listing<Execution> {
        self.0.stream()
    }
}

impl IntoFuture for Executions {
    type Output = Result<Vec<Execution>, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.0.all())
    }
}

/// The path of an execution, or of a part of it.
pub(crate) fn path(id: &str, rest: &str) -> String {
    format!("/v1/executions/{}{rest}", segment(id))
}
