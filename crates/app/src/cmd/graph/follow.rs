//! Server-sent events of a graph, with reconnection.

use std::time::Duration;

use anyhow::Result;
use futures::StreamExt;
use reqwest::{Method, StatusCode};

use crate::client::Client;
use crate::failure::{ExitCode, Failure};

/// Reconnection attempts before giving up.
const RECONNECTS: u32 = 30;
const PAUSE: Duration = Duration::from_secs(1);

/// One server-sent event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    /// Position after it, for a reconnection.
    pub(super) id: String,
    pub(super) data: String,
}

/// Passes every message to `take`, until the followed object has ended.
pub(super) async fn follow(
    client: &Client,
    path: &str,
    after: Option<&str>,
    mut take: impl FnMut(&Message) -> Result<()>,
) -> Result<()> {
    let mut last = after.map(str::to_owned);
    let mut lost = 0;
    loop {
        match connection(client, path, &mut last, &mut take).await {
            Ok(Ended::Graph) => return Ok(()),
            Ok(Ended::Connection) => lost = 1,
            Err(error) if lost == 0 || !is_unreachable(&error) || lost >= RECONNECTS => return Err(error),
            Err(_) => lost += 1,
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Why a stream ended.
enum Ended {
    Graph,
    Connection,
}

async fn connection(
    client: &Client,
    path: &str,
    last: &mut Option<String>,
    take: &mut impl FnMut(&Message) -> Result<()>,
) -> Result<Ended> {
    let mut request = client.request(Method::GET, path).header("accept", "text/event-stream");
    if let Some(id) = last {
        request = request.header("last-event-id", id.as_str());
    }
    let answer = client.send(request).await?;
    if answer.status() == StatusCode::NO_CONTENT {
        return Ok(Ended::Graph);
    }
    let mut chunks = answer.bytes_stream();
    let mut buffer = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let Ok(chunk) = chunk else { return Ok(Ended::Connection) };
        buffer.extend_from_slice(&chunk);
        while let Some(end) = buffer.windows(2).position(|pair| pair == b"\n\n") {
            let text: Vec<u8> = buffer.drain(..end + 2).collect();
            match heard(&String::from_utf8_lossy(&text)) {
                Heard::Message(message) => {
                    take(&message)?;
                    if !message.id.is_empty() {
                        *last = Some(message.id);
                    }
                }
                Heard::Last(message) => {
                    take(&message)?;
                    return Ok(Ended::Graph);
                }
                Heard::Nothing => {}
            }
        }
    }
    Ok(Ended::Connection)
}

#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Message(Message),
    /// The last event of the graph.
    Last(Message),
    /// A comment that keeps the connection alive.
    Nothing,
}

fn heard(text: &str) -> Heard {
    let field =
        |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim));
    let Some(data) = field("data") else { return Heard::Nothing };
    let message = Message { id: field("id").unwrap_or_default().to_owned(), data: data.to_owned() };
    match field("event") {
        Some("workflow.completed" | "workflow.failed" | "workflow.cancelled") => Heard::Last(message),
        Some(_) | None => Heard::Message(message),
    }
}

fn is_unreachable(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Failure>().is_some_and(|failure| failure.code == ExitCode::Unreachable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_a_place_and_words() {
        let message = Message { id: "12.0".to_owned(), data: "{}".to_owned() };
        assert_eq!(heard("event: node.completed\nid: 12.0\ndata: {}\n\n"), Heard::Message(message));
        let last = Message { id: "12.1".to_owned(), data: "{}".to_owned() };
        assert_eq!(heard("event: workflow.failed\nid: 12.1\ndata: {}\n\n"), Heard::Last(last));
        assert_eq!(heard(": still here\n\n"), Heard::Nothing);
    }
}
