//! Events: queries, lists, retries.

use std::future::Future;
use std::pin::Pin;

use millstream_api::events::{AcceptedEvent, Event, EventStatus};
use millstream_api::reason::Reason;

use super::connect::Client;
use super::json;
use super::listing::{PagedList, PagedStream};
use super::transport::{ApiRequest, RepeatPolicy, path_segment};
use crate::client_error::ClientError;

/// A list of events in the order of their acceptance. Set filters, then [`stream`](EventList::stream) it or
/// await all of them.
#[derive(Debug)]
pub struct EventList(PagedList<Event>);

/// The body of a request with an optional reason.
pub(crate) fn reason_body(reason: Option<&str>) -> Result<Vec<u8>, ClientError> {
    json::json_body(&Reason { reason: reason.map(str::to_owned) })
}

impl Client {
    /// One event with its outcome.
    pub async fn event(&self, event_id: &str) -> Result<Event, ClientError> {
        self.send_request(&ApiRequest::get(format!("/v1/events/{}", path_segment(event_id)))).await?.json()
    }

    /// Events in the order of their acceptance, of all executions by default.
    pub fn events(&self) -> EventList {
        EventList(PagedList::new(self, ApiRequest::get("/v1/events")))
    }

    /// Retries a dead event, or the failed actions of a failed event. The reason is recorded.
    ///
    /// Not repeated when the answer is lost: the server would refuse the repetition.
    pub async fn retry_event(&self, event_id: &str, why: Option<&str>) -> Result<AcceptedEvent, ClientError> {
        let path = format!("/v1/events/{}/retry", path_segment(event_id));
        self.send_request(
            &ApiRequest::post(path, RepeatPolicy::IfNothingHappened).with_json(reason_body(why)?),
        )
        .await?
        .json()
    }
}

impl EventList {
    /// Only events of this execution.
    #[must_use]
    pub fn execution(self, id: &str) -> Self {
        Self(self.0.add_query("execution_id", id))
    }

    #[must_use]
    pub fn status(self, status: EventStatus) -> Self {
        Self(self.0.add_query("status", status))
    }

    /// Number of events per page.
    #[must_use]
    pub fn page_size(self, items: usize) -> Self {
        Self(self.0.page_size(items))
    }

    pub fn stream(self) -> PagedStream<Event> {
        self.0.stream()
    }
}

impl IntoFuture for EventList {
    type Output = Result<Vec<Event>, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.0.all())
    }
}
