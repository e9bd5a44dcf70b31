//! Follows an execution: a stream of its transitions.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::stream::BoxStream;
use futures::{Stream, StreamExt};

use super::answer::Transition;
use super::connect::Client;
use super::error::ClientError;
use super::executions::path;
use super::follow::Following;

/// The transitions of an execution as they are committed, until its end, over any number of connections: none
/// is missed or repeated. Ends after the first error.
pub struct Tail {
    transitions: BoxStream<'static, Result<Transition, ClientError>>,
}

impl Client {
    /// Follows an execution from its beginning.
    pub fn tail(&self, id: &str) -> Tail {
        self.tail_after(id, 0)
    }

    /// Follows an execution, resuming after its transition number `seq`.
    pub fn tail_after(&self, id: &str, seq: i64) -> Tail {
        let after = (seq > 0).then(|| seq.to_string());
        let following = Following::new(self, path(id, "/tail"), after);
        Tail { transitions: futures::stream::try_unfold(following, next).boxed() }
    }
}

async fn next(mut following: Following) -> Result<Option<(Transition, Following)>, ClientError> {
    let Some(message) = following.next().await? else { return Ok(None) };
    let transition = following.read(&message, "a transition")?;
    Ok(Some((transition, following)))
}

impl Tail {
    /// The next transition, without importing the trait `Stream`.
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
