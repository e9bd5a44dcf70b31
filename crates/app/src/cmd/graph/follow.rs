//! Server-sent events of a graph, with reconnection.

use std::time::Duration;

use anyhow::Result;
use futures::StreamExt;
use reqwest::{Method, StatusCode};

use crate::client::ApiClient;
use crate::failure::{CommandFailure, ExitCode};

/// Reconnection attempts before giving up.
const RECONNECTS: u32 = 30;
const PAUSE: Duration = Duration::from_secs(1);

/// One server-sent event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GraphStreamMessage {
    /// Position after it, for a reconnection.
    pub(super) id: String,
    pub(super) data: String,
}

/// Passes every message to `take`, until the followed object has ended.
pub(super) async fn follow_graph(
    client: &ApiClient,
    path: &str,
    after: Option<&str>,
    mut take: impl FnMut(&GraphStreamMessage) -> Result<()>,
) -> Result<()> {
    let mut last = after.map(str::to_owned);
    let mut lost = 0;
    loop {
        match follow_connection(client, path, &mut last, &mut take).await {
            Ok(GraphStreamEnd::Graph) => return Ok(()),
            Ok(GraphStreamEnd::Connection) => lost = 1,
            Err(error) if lost == 0 || !is_unreachable(&error) || lost >= RECONNECTS => return Err(error),
            Err(_) => lost += 1,
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Why a stream ended.
enum GraphStreamEnd {
    Graph,
    Connection,
}

async fn follow_connection(
    client: &ApiClient,
    path: &str,
    last: &mut Option<String>,
    take: &mut impl FnMut(&GraphStreamMessage) -> Result<()>,
) -> Result<GraphStreamEnd> {
    let mut request = client.request(Method::GET, path).header("accept", "text/event-stream");
    if let Some(id) = last {
        request = request.header("last-event-id", id.as_str());
    }
    let answer = client.send(request).await?;
    if answer.status() == StatusCode::NO_CONTENT {
        return Ok(GraphStreamEnd::Graph);
    }
    let mut chunks = answer.bytes_stream();
    let mut buffer = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let Ok(chunk) = chunk else { return Ok(GraphStreamEnd::Connection) };
        buffer.extend_from_slice(&chunk);
        while let Some(end) = buffer.windows(2).position(|pair| pair == b"\n\n") {
            let text: Vec<u8> = buffer.drain(..end + 2).collect();
            match parse_message(&String::from_utf8_lossy(&text)) {
                ParsedGraphMessage::Message(message) => {
                    take(&message)?;
                    if !message.id.is_empty() {
                        *last = Some(message.id);
                    }
                }
                ParsedGraphMessage::Last(message) => {
                    take(&message)?;
                    return Ok(GraphStreamEnd::Graph);
                }
                ParsedGraphMessage::Nothing => {}
            }
        }
    }
    Ok(GraphStreamEnd::Connection)
}

#[derive(Debug, PartialEq, Eq)]
enum ParsedGraphMessage {
    Message(GraphStreamMessage),
    /// The last event of the graph.
    Last(GraphStreamMessage),
    /// A comment that keeps the connection alive.
    Nothing,
}

fn parse_message(text: &str) -> ParsedGraphMessage {
    let field =
        |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim));
    let Some(data) = field("data") else { return ParsedGraphMessage::Nothing };
    let message =
        GraphStreamMessage { id: field("id").unwrap_or_default().to_owned(), data: data.to_owned() };
    match field("event") {
        Some("workflow.completed" | "workflow.failed" | "workflow.cancelled") => {
            ParsedGraphMessage::Last(message)
        }
        Some(_) | None => ParsedGraphMessage::Message(message),
    }
}

fn is_unreachable(error: &anyhow::Error) -> bool {
    error.downcast_ref::<CommandFailure>().is_some_and(|failure| failure.code == ExitCode::Unreachable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graph_message_has_id_and_data() {
        let message = GraphStreamMessage { id: "12.0".to_owned(), data: "{}".to_owned() };
        assert_eq!(
            parse_message("event: node.completed\nid: 12.0\ndata: {}\n\n"),
            ParsedGraphMessage::Message(message)
        );
        let last = GraphStreamMessage { id: "12.1".to_owned(), data: "{}".to_owned() };
        assert_eq!(
            parse_message("event: workflow.failed\nid: 12.1\ndata: {}\n\n"),
            ParsedGraphMessage::Last(last)
        );
        assert_eq!(parse_message(": still here\n\n"), ParsedGraphMessage::Nothing);
    }
}
