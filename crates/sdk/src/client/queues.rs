//! Queues of work for people: configuration, pause, and statistics.

use std::future::Future;
use std::pin::Pin;

use millstream_api::queue_stats::{QueueStats, QueueStatsLine};
use millstream_api::queues::{NewWorkQueue, WorkQueue};
use millstream_model::document::SourceFormat;

use super::connect::Client;
use super::json;
use super::listing::PagedList;
use super::stored_source::StoredSource;
use super::transport::{ApiRequest, RepeatPolicy, path_segment};
use crate::client_error::ClientError;

/// A query of statistics: one line per queue by default. Set filters, then await it.
#[derive(Debug, Clone)]
#[must_use = "nothing is asked before it is awaited"]
pub struct QueueStatsQuery {
    client: Client,
    ask: ApiRequest,
}

impl Client {
    /// Creates a queue, or replaces its configuration. The last call counts.
    pub async fn put_queue(&self, name: &str, config: &NewWorkQueue) -> Result<WorkQueue, ClientError> {
        let ask = ApiRequest::put(queue_path(name, "")).with_json(json::json_body(config)?);
        self.send_request(&ask).await?.json()
    }

    /// The same with the configuration as YAML.
    pub async fn put_queue_yaml(
        &self,
        name: &str,
        config: impl Into<String>,
    ) -> Result<WorkQueue, ClientError> {
        let ask = ApiRequest::put(queue_path(name, "")).with_body("application/yaml", config.into());
        self.send_request(&ask).await?.json()
    }

    /// The same with the text of a file. The answer says whether the queue is new.
    pub async fn put_queue_source(
        &self,
        name: &str,
        format: SourceFormat,
        text: impl Into<String>,
    ) -> Result<StoredSource<WorkQueue>, ClientError> {
        let ask = ApiRequest::put(queue_path(name, "")).with_source(format, text.into());
        StoredSource::of_response(&self.send_request(&ask).await?)
    }

    /// One queue and its configuration.
    pub async fn queue(&self, name: &str) -> Result<WorkQueue, ClientError> {
        self.send_request(&ApiRequest::get(queue_path(name, ""))).await?.json()
    }

    /// All queues by name.
    pub fn queues(&self) -> PagedList<WorkQueue> {
        PagedList::new(self, ApiRequest::get("/v1/queues"))
    }

    /// Pauses a queue: no new assignments, open ones stay.
    pub async fn pause_queue(&self, name: &str) -> Result<WorkQueue, ClientError> {
        self.send_request(&ApiRequest::post(queue_path(name, "/pause"), RepeatPolicy::Always)).await?.json()
    }

    /// Resumes a paused queue.
    pub async fn resume_queue(&self, name: &str) -> Result<WorkQueue, ClientError> {
        self.send_request(&ApiRequest::post(queue_path(name, "/resume"), RepeatPolicy::Always)).await?.json()
    }

    /// Statistics of assignments and items.
    pub fn queue_stats(&self) -> QueueStatsQuery {
        QueueStatsQuery { client: self.clone(), ask: ApiRequest::get("/v1/queue_stats") }
    }
}

impl QueueStatsQuery {
    /// Only this queue.
    pub fn queue(self, name: &str) -> Self {
        self.add_query("queue", name)
    }

    /// Only this person.
    pub fn person(self, person: &str) -> Self {
        self.add_query("person", person)
    }

    /// One line per person, over all queues.
    pub fn per_person(self) -> Self {
        self.add_query("by", "person")
    }

    /// One line per person and queue.
    pub fn per_person_and_queue(self) -> Self {
        self.add_query("by", "both")
    }

    /// From this day (UTC), like `2026-01-31`.
    pub fn from_day(self, day: &str) -> Self {
        self.add_query("from", day)
    }

    /// Up to and including this day (UTC), like `2026-01-31`.
    pub fn to_day(self, day: &str) -> Self {
        self.add_query("to", day)
    }

    fn add_query(self, name: &'static str, value: &str) -> Self {
        Self { ask: self.ask.add_query(name, value), ..self }
    }
}

impl IntoFuture for QueueStatsQuery {
    type Output = Result<Vec<QueueStatsLine>, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { Ok(self.client.send_request(&self.ask).await?.json::<QueueStats>()?.items) })
    }
}

pub(super) fn queue_path(name: &str, rest: &str) -> String {
    format!("/v1/queues/{}{rest}", path_segment(name))
}
