//! Imports items from a stream of lines; the server reports its progress.

use std::fmt;
use std::io;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use millstream_api::item_import::RefusedItem;
use millstream_api::problem::Problem;
use serde::{Deserialize, Serialize};

use super::connect::Client;
use super::queues::queue_path;
use super::transport::{ApiRequest, RepeatPolicy};
use crate::client_error::ClientError;

/// One report of an import. The last one says whether all lines were read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ImportNotice {
    /// Only in the last report: whether all lines were read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<bool>,
    pub read: u64,
    pub created: u64,
    pub repeated: u64,
    pub refused: u64,
    /// Only in the last report: the refused items, up to a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusals: Option<Vec<RefusedItem>>,
    /// Why the import ended before the last line; the items created until then stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
}

/// The reports of an import, until its end. A lost connection is an error.
pub struct ImportNoticeStream {
    client: Client,
    bytes: BoxStream<'static, reqwest::Result<Bytes>>,
    /// The incomplete line.
    line: Vec<u8>,
}

impl Client {
    /// Imports any number of items into a queue: lines of JSON, sent as they are read.
    ///
    /// Not repeated when the connection is lost: import the same lines again, what is in the queue is a
    /// repeat.
    pub async fn import_item_stream(
        &self,
        queue: &str,
        lines: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
    ) -> Result<ImportNoticeStream, ClientError> {
        let media = "application/x-ndjson";
        let ask = ApiRequest::post(queue_path(queue, "/items"), RepeatPolicy::IfNothingHappened)
            .add_header("content-type", media)
            .add_header("accept", media);
        let body = reqwest::Body::wrap_stream(lines);
        let response = self.open_response_to(&ask, Some(body), None).await?;
        Ok(ImportNoticeStream {
            client: self.clone(),
            bytes: response.bytes_stream().boxed(),
            line: Vec::new(),
        })
    }
}

impl ImportNoticeStream {
    /// The next report, or `None` at the end of the answer.
    pub async fn next(&mut self) -> Result<Option<ImportNotice>, ClientError> {
        loop {
            if let Some(end) = self.line.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.line.drain(..=end).collect();
                return self.read_notice(&line).map(Some);
            }
            match self.bytes.next().await {
                Some(Ok(bytes)) => self.line.extend_from_slice(&bytes),
                Some(Err(_)) => return Err(ClientError::Closed { url: self.client.inner.base.clone() }),
                None => return Ok(None),
            }
        }
    }

    fn read_notice(&self, line: &[u8]) -> Result<ImportNotice, ClientError> {
        serde_json::from_slice(line).map_err(|error| ClientError::Unreadable {
            url: self.client.inner.base.clone(),
            reason: format!("a report of an import: {error}"),
        })
    }
}

impl fmt::Debug for ImportNoticeStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImportNoticeStream").finish_non_exhaustive()
    }
}
