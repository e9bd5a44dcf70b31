//! One stream of server-sent events over any number of connections.
//!
//! Each connection resumes after the last received message (`Last-Event-ID`), so that none is missed or
//! repeated. A lost connection is reopened with back-off; a connection that lived for a while resets the
//! back-off. The first connection has the retry policy of calls, a later one that of reconnections.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout};

use super::connect::Client;
use super::retry::ClientRetry;
use super::sse::{SseMessage, SseParser};
use super::transport::{ApiRequest, RepeatPolicy, retry_pause, unit_random};
use crate::client_error::ClientError;

/// The server sends at least a keep-alive every few seconds.
const SILENCE: Duration = Duration::from_secs(60);
/// A connection that lived for this long was a good one.
const GOOD: Duration = Duration::from_secs(2);

pub(crate) struct FollowedStream {
    client: Client,
    path: String,
    /// The id of the last received message.
    after: Option<String>,
    waiting: VecDeque<SseMessage>,
    connection: Option<StreamConnection>,
    retry: ClientRetry,
    /// Connections lost or refused since the last good one.
    lost: u32,
}

struct StreamConnection {
    bytes: BoxStream<'static, reqwest::Result<Bytes>>,
    parser: SseParser,
    made: Instant,
}

/// Result of an attempt to connect.
enum ConnectOutcome {
    Connected(StreamConnection),
    /// 204: the stream has ended and all messages were received.
    Ended,
}

impl FollowedStream {
    /// Lazy: connects when the first message is requested.
    pub(crate) fn new(client: &Client, path: String, after: Option<String>) -> Self {
        let (client, retry) = (client.clone(), client.inner.retry);
        Self { client, path, after, waiting: VecDeque::new(), connection: None, retry, lost: 0 }
    }

    /// The next message, or `None` at the end of the stream.
    pub(crate) async fn next_message(&mut self) -> Result<Option<SseMessage>, ClientError> {
        loop {
            if let Some(message) = self.waiting.pop_front() {
                if message.event == "end" {
                    return Ok(None);
                }
                if !message.id.is_empty() {
                    self.after = Some(message.id.clone());
                }
                return Ok(Some(message));
            }
            match &mut self.connection {
                None => match self.connect().await {
                    Ok(ConnectOutcome::Connected(connection)) => {
                        self.connection = Some(connection);
                        self.retry = self.client.inner.reconnect;
                    }
                    Ok(ConnectOutcome::Ended) => return Ok(None),
                    Err(error) => self.wait_or_give_up(error).await?,
                },
                Some(connection) => match timeout(SILENCE, connection.bytes.next()).await {
                    Ok(Some(Ok(bytes))) => self.waiting.extend(connection.parser.feed_bytes(&bytes)),
                    Ok(Some(Err(_)) | None) | Err(_) => {
                        if connection.made.elapsed() >= GOOD {
                            self.lost = 0;
                        }
                        self.connection = None;
                        self.wait_or_give_up(self.closed_error()).await?;
                    }
                },
            }
        }
    }

    /// Decodes a message; `what` names the expected content in the error.
    pub(crate) fn decode_message<T: DeserializeOwned>(
        &self,
        message: &SseMessage,
        what: &str,
    ) -> Result<T, ClientError> {
        serde_json::from_str(&message.data).map_err(|error| ClientError::Unreadable {
            url: self.client.inner.base.clone(),
            reason: format!("{what}: {error}"),
        })
    }

    async fn connect(&mut self) -> Result<ConnectOutcome, ClientError> {
        let mut ask = ApiRequest::get(&self.path).add_header("accept", "text/event-stream");
        if let Some(after) = &self.after {
            ask = ask.add_header("last-event-id", after);
        }
        let answered = timeout(self.client.inner.timeout, self.client.open_response(&ask, None)).await;
        let response = answered.map_err(|_| self.closed_error())??;
        if response.status().as_u16() == 204 {
            return Ok(ConnectOutcome::Ended);
        }
        let bytes = response.bytes_stream().boxed();
        Ok(ConnectOutcome::Connected(StreamConnection {
            bytes,
            parser: SseParser::default(),
            made: Instant::now(),
        }))
    }

    /// Waits before the next connection, or gives up.
    async fn wait_or_give_up(&mut self, error: ClientError) -> Result<(), ClientError> {
        self.lost += 1;
        match retry_pause(&self.retry, self.lost, &error, RepeatPolicy::Always, unit_random()) {
            Some(pause) => {
                tokio::time::sleep(pause).await;
                Ok(())
            }
            None => Err(error),
        }
    }

    fn closed_error(&self) -> ClientError {
        ClientError::Closed { url: self.client.inner.base.clone() }
    }
}
