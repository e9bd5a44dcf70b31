//! Items of queues: import, queries, withdrawal.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use millstream_api::item_import::{ImportReport, NewWorkItem};
use millstream_api::items::{ItemStatus, WorkItem, WorkItemDetail, WorkItemLogEntry};

use super::connect::Client;
use super::events::reason_body;
use super::json;
use super::listing::{PagedList, PagedStream};
use super::queues::queue_path;
use super::transport::{ApiRequest, RepeatPolicy, path_segment};
use crate::client_error::ClientError;

/// How long an import of lines may take: the built-in value of the quota `import_duration`.
const IMPORT_WAIT: Duration = Duration::from_secs(15 * 60);

/// A list of items, newest first. Set filters, then [`stream`](WorkItemList::stream) it or await all of them.
#[derive(Debug)]
pub struct WorkItemList(PagedList<WorkItem>);

impl Client {
    /// Imports one item into a queue. An item with identical content is a repeat; an invalid one is an error
    /// with all its problems.
    pub async fn import_item(&self, queue: &str, item: &NewWorkItem) -> Result<ImportReport, ClientError> {
        self.send_import(queue, "application/json", json::json_body(item)?, Duration::ZERO).await
    }

    /// Imports up to 1,000 items into a queue. The report has their ids, and the items that were refused.
    pub async fn import_items(
        &self,
        queue: &str,
        items: &[NewWorkItem],
    ) -> Result<ImportReport, ClientError> {
        self.send_import(queue, "application/json", json::json_body(&items)?, Duration::ZERO).await
    }

    /// Imports any number of items into a queue, as lines of one request. The report counts them; it has the
    /// items that were refused, and no ids.
    pub async fn import_item_lines(
        &self,
        queue: &str,
        items: impl IntoIterator<Item = NewWorkItem>,
    ) -> Result<ImportReport, ClientError> {
        let mut lines = Vec::new();
        for item in items {
            lines.extend(json::json_body(&item)?);
            lines.push(b'\n');
        }
        self.send_import(queue, "application/x-ndjson", lines, IMPORT_WAIT).await
    }

    /// Items of all queues, newest first.
    pub fn items(&self) -> WorkItemList {
        WorkItemList(PagedList::new(self, ApiRequest::get("/v1/items")))
    }

    /// One item with its payload and its assignments.
    pub async fn item(&self, item_id: &str) -> Result<WorkItemDetail, ClientError> {
        self.send_request(&ApiRequest::get(item_path(item_id, ""))).await?.json()
    }

    /// What happened to an item, in order.
    pub fn item_log(&self, item_id: &str) -> PagedList<WorkItemLogEntry> {
        PagedList::new(self, ApiRequest::get(item_path(item_id, "/log")))
    }

    /// Withdraws an item: its open assignments expire, and a later answer is refused. Idempotent.
    pub async fn withdraw_item(
        &self,
        item_id: &str,
        reason: Option<&str>,
    ) -> Result<WorkItemDetail, ClientError> {
        let ask = ApiRequest::post(item_path(item_id, "/withdraw"), RepeatPolicy::Always);
        self.send_request(&ask.with_json(reason_body(reason)?)).await?.json()
    }

    /// An import may be repeated: an item with identical content is in the queue once.
    async fn send_import(
        &self,
        queue: &str,
        media: &'static str,
        body: Vec<u8>,
        wait: Duration,
    ) -> Result<ImportReport, ClientError> {
        let ask = ApiRequest::post(queue_path(queue, "/items"), RepeatPolicy::Always).with_body(media, body);
        self.send_request(&ask.with_server_wait(wait)).await?.json()
    }
}

impl WorkItemList {
    /// Only items of this queue.
    #[must_use]
    pub fn queue(self, name: &str) -> Self {
        Self(self.0.add_query("queue", name))
    }

    #[must_use]
    pub fn status(self, status: ItemStatus) -> Self {
        Self(self.0.add_query("status", status))
    }

    /// Number of items per page.
    #[must_use]
    pub fn page_size(self, items: usize) -> Self {
        Self(self.0.page_size(items))
    }

    pub fn stream(self) -> PagedStream<WorkItem> {
        self.0.stream()
    }
}

impl IntoFuture for WorkItemList {
    type Output = Result<Vec<WorkItem>, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.0.all())
    }
}

fn item_path(item_id: &str, rest: &str) -> String {
    format!("/v1/items/{}{rest}", path_segment(item_id))
}
