//! Follows an execution: a stream of its transitions.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use millstream_api::history::ExecutionTransition;

use super::connect::Client;
use super::event_stream::FollowedStream;
use super::executions::execution_path;
use crate::client_error::ClientError;

/// The transitions of an execution as they are committed, until its end, over any number of connections: none
/// is missed or repeated. Ends after the first error.
pub struct TransitionStream {
    messages: BoxStream<'static, Result<TransitionMessage, ClientError>>,
}

/// A transition with its text.
#[derive(Debug, Clone, PartialEq)]
pub struct TransitionMessage {
    pub transition: ExecutionTransition,
    /// The transition as JSON, as the server sent it: numbers are unparsed.
    pub data: String,
}

impl Client {
    /// Follows an execution from its beginning.
    pub fn tail(&self, id: &str) -> TransitionStream {
        self.tail_after(id, 0)
    }

    /// Follows an execution, resuming after its transition number `seq`.
    pub fn tail_after(&self, id: &str, seq: i64) -> TransitionStream {
        let after = (seq > 0).then(|| seq.to_string());
        let following = FollowedStream::new(self, execution_path(id, "/tail"), after);
        TransitionStream { messages: futures::stream::try_unfold(following, next_transition).boxed() }
    }
}

async fn next_transition(
    mut following: FollowedStream,
) -> Result<Option<(TransitionMessage, FollowedStream)>, ClientError> {
    let Some(message) = following.next_message().await? else { return Ok(None) };
    let transition = following.decode_message(&message, "a transition")?;
    Ok(Some((TransitionMessage { transition, data: message.data }, following)))
}

impl TransitionStream {
    /// The next transition, without importing the trait `Stream`.
    pub async fn next(&mut self) -> Option<Result<ExecutionTransition, ClientError>> {
        Some(self.next_message().await?.map(|message| message.transition))
    }

    /// The same with the text of the transition.
    pub async fn next_message(&mut self) -> Option<Result<TransitionMessage, ClientError>> {
        self.messages.next().await
    }
}

impl Stream for TransitionStream {
    type Item = Result<ExecutionTransition, ClientError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.messages.poll_next_unpin(cx);
        next.map(|next| next.map(|message| message.map(|message| message.transition)))
    }
}

impl fmt::Debug for TransitionStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tail").finish_non_exhaustive()
    }
}
