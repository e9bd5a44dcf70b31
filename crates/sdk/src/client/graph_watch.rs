//! Watches a graph: a stream of its events.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use millstream_api::graph_watch::GraphEvent;

use super::connect::Client;
use super::event_stream::FollowedStream;
use super::graphs::graph_path;
use crate::client_error::ClientError;

/// The events of a graph, in order, until its end, over any number of connections. Ends after the first
/// error.
pub struct GraphEventStream {
    messages: BoxStream<'static, Result<GraphMessage, ClientError>>,
}

/// An event of a graph with its text, which has also what this client does not know.
#[derive(Debug, Clone, PartialEq)]
pub struct GraphMessage {
    pub event: GraphEvent,
    /// The event as JSON, as the server sent it.
    pub data: String,
}

impl Client {
    /// Watches a graph from its beginning.
    pub fn watch_graph(&self, id: &str) -> GraphEventStream {
        self.watch_from(id, None)
    }

    /// Watches a graph, resuming after a [position](GraphEvent::position).
    pub fn watch_graph_after(&self, id: &str, position: impl Into<String>) -> GraphEventStream {
        self.watch_from(id, Some(position.into()))
    }

    fn watch_from(&self, id: &str, after: Option<String>) -> GraphEventStream {
        let following = FollowedStream::new(self, graph_path(id, "/watch"), after);
        GraphEventStream {
            messages: futures::stream::try_unfold(Some(following), next_graph_message).boxed(),
        }
    }
}

/// `None` after the end of the graph.
async fn next_graph_message(
    following: Option<FollowedStream>,
) -> Result<Option<(GraphMessage, Option<FollowedStream>)>, ClientError> {
    let Some(mut following) = following else { return Ok(None) };
    let Some(message) = following.next_message().await? else { return Ok(None) };
    let mut event: GraphEvent = following.decode_message(&message, "an event of a graph")?;
    event.position = message.id;
    let following = (!event.what.is_end()).then_some(following);
    Ok(Some((GraphMessage { event, data: message.data }, following)))
}

impl GraphEventStream {
    /// The next event, without importing the trait `Stream`.
    pub async fn next(&mut self) -> Option<Result<GraphEvent, ClientError>> {
        Some(self.next_message().await?.map(|message| message.event))
    }

    /// The same with the text of the event.
    pub async fn next_message(&mut self) -> Option<Result<GraphMessage, ClientError>> {
        self.messages.next().await
    }
}

impl Stream for GraphEventStream {
    type Item = Result<GraphEvent, ClientError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.messages.poll_next_unpin(cx);
        next.map(|next| next.map(|message| message.map(|message| message.event)))
    }
}

impl fmt::Debug for GraphEventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_api::graph_watch::GraphNotice;
    use millstream_api::graph_words::NodeStatus;
    use millstream_workflow::graph::{NodeId, NodeStatus as Core};
    use millstream_workflow::graph_machine::GraphTransitionNotice;

    fn heard(notice: &GraphTransitionNotice) -> GraphNotice {
        serde_json::from_str(&serde_json::to_string(notice).unwrap()).unwrap()
    }

    #[test]
    fn client_reads_every_graph_notice() {
        let (node, why) = (NodeId::parse("a").unwrap(), Some("parent b passed".to_owned()));
        assert_eq!(
            heard(&GraphTransitionNotice::Scheduled { node: node.clone(), attempt: 1, why: why.clone() }),
            GraphNotice::Scheduled { node: "a".to_owned(), attempt: 1, why: why.clone() }
        );
        assert_eq!(
            heard(&GraphTransitionNotice::NodeCompleted { node, status: Core::Fail, attempt: 2, why: None }),
            GraphNotice::NodeCompleted {
                node: "a".to_owned(),
                status: NodeStatus::Fail,
                attempt: 2,
                why: None
            }
        );
        assert_eq!(heard(&GraphTransitionNotice::Completed), GraphNotice::Completed);
        assert_eq!(
            heard(&GraphTransitionNotice::Failed { reason: None }),
            GraphNotice::Failed { reason: None }
        );
    }

    #[test]
    fn unknown_graph_notice_is_unknown() {
        let told =
            r#"{"type":"node.dreamt","graph_id":"g","node":"a","seq":4,"at":"2026-01-01T00:00:00.000Z"}"#;
        let event: GraphEvent = serde_json::from_str(told).unwrap();
        assert_eq!((event.what, event.seq), (GraphNotice::Unknown, Some(4)));
    }
}
