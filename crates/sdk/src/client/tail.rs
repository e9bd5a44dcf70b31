//! Following an execution: its transitions as they happen, over as many connections as it takes.
//!
//! Each connection goes on after the last transition that was seen (`Last-Event-ID`), so that none is missed and none
//! comes twice. A connection that dies is made again with growing pauses; one that lived for a while starts them anew.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use tokio::time::{Instant, timeout};

use super::answer::Transition;
use super::connect::Client;
use super::error::ClientError;
use super::executions::path;
use super::sse::{Message, Parser};
use super::transport::{Ask, Repeat, pause, unit_random};

/// The server says something every few seconds, if only that it is there.
const SILENCE: Duration = Duration::from_secs(60);
/// A connection that lived for so long was a good one.
const GOOD: Duration = Duration::from_secs(2);

/// The transitions of an execution as they happen, until it has ended. Ends after the first error.
pub struct Tail {
    transitions: BoxStream<'static, Result<Transition, ClientError>>,
}

impl Client {
    /// Follows an execution from its beginning.
    pub fn tail(&self, id: &str) -> Tail {
        self.tail_after(id, 0)
    }

    /// Follows an execution from after its transition number `seq`.
    pub fn tail_after(&self, id: &str, seq: i64) -> Tail {
        let following = Following {
            client: self.clone(),
            path: path(id, "/tail"),
            after: seq,
            waiting: VecDeque::new(),
            connection: None,
            lost: 0,
        };
        Tail { transitions: futures::stream::try_unfold(following, Following::next).boxed() }
    }
}

impl Tail {
    /// The next transition; for those who do not want to import a trait.
    pub async fn next(&mut self) -> Option<Result<Transition, ClientError>> {
        self.transitions.next().await
    }
}

impl Stream for Tail {
    type Item = Result<Transition, ClientError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.transitions.poll_next_unpin(cx)
    }
}

impl fmt::Debug for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tail").finish_non_exhaustive()
    }
}

struct Following {
    client: Client,
    path: String,
    /// The last transition that was seen.
    after: i64,
    waiting: VecDeque<Message>,
    connection: Option<Connection>,
    /// Connections lost, or not made, since the last good one.
    lost: u32,
}

struct Connection {
    bytes: BoxStream<'static, reqwest::Result<Bytes>>,
    parser: Parser,
    made: Instant,
}

/// What came of an attempt to connect.
enum Reached {
    Connected(Connection),
    /// 204: it has ended and everything was seen.
    Ended,
}

impl Following {
    async fn next(mut self) -> Result<Option<(Transition, Self)>, ClientError> {
        loop {
            if let Some(message) = self.waiting.pop_front() {
                if message.event == "end" {
                    return Ok(None);
                }
                let transition: Transition = serde_json::from_str(&message.data)
                    .map_err(|error| self.unreadable(format!("a transition: {error}")))?;
                self.after = transition.seq;
                return Ok(Some((transition, self)));
            }
            match &mut self.connection {
                None => match self.connect().await {
                    Ok(Reached::Connected(connection)) => self.connection = Some(connection),
                    Ok(Reached::Ended) => return Ok(None),
                    Err(error) => self.lost(error).await?,
                },
                Some(connection) => match timeout(SILENCE, connection.bytes.next()).await {
                    Ok(Some(Ok(bytes))) => self.waiting.extend(connection.parser.feed(&bytes)),
                    Ok(Some(Err(_)) | None) | Err(_) => {
                        if connection.made.elapsed() >= GOOD {
                            self.lost = 0;
                        }
                        self.connection = None;
                        self.lost(self.closed()).await?;
                    }
                },
            }
        }
    }

    async fn connect(&mut self) -> Result<Reached, ClientError> {
        let mut ask = Ask::get(&self.path).header("accept", "text/event-stream");
        if self.after > 0 {
            ask = ask.header("last-event-id", self.after.to_string());
        }
        let answered = timeout(self.client.inner.timeout, self.client.request(&ask, None)).await;
        let response = answered.map_err(|_| self.closed())??;
        if response.status().as_u16() == 204 {
            return Ok(Reached::Ended);
        }
        let bytes = response.bytes_stream().boxed();
        Ok(Reached::Connected(Connection { bytes, parser: Parser::default(), made: Instant::now() }))
    }

    /// Waits before the next connection, or gives up.
    async fn lost(&mut self, error: ClientError) -> Result<(), ClientError> {
        self.lost += 1;
        match pause(&self.client.inner.retry, self.lost, &error, Repeat::Always, unit_random()) {
            Some(pause) => {
                tokio::time::sleep(pause).await;
                Ok(())
            }
            None => Err(error),
        }
    }

    fn closed(&self) -> ClientError {
        ClientError::Closed { url: self.client.inner.base.clone() }
    }

    fn unreadable(&self, reason: String) -> ClientError {
        ClientError::Unreadable { url: self.client.inner.base.clone(), reason }
    }
}
