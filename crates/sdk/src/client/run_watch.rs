//! Watches the assignments of a device: a stream of their list.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use millstream_api::run_assignments::RunAssignments;

use super::connect::Client;
use super::devices::device_path;
use super::event_stream::FollowedStream;
use crate::client_error::ClientError;

/// The list of the assignments of a device, whole, now and after every change, over any number of connections.
/// Ends after the first error; the removal of the device is one (404).
pub struct RunAssignmentStream {
    lists: BoxStream<'static, Result<RunAssignments, ClientError>>,
}

impl Client {
    /// Watches the assignments and offers of a device: the list now, and again after every change.
    pub fn watch_run_assignments(&self, device: &str) -> RunAssignmentStream {
        let following = FollowedStream::new(self, device_path(device, "/assignments/stream"), None);
        RunAssignmentStream { lists: futures::stream::try_unfold(following, next_list).boxed() }
    }
}

async fn next_list(
    mut following: FollowedStream,
) -> Result<Option<(RunAssignments, FollowedStream)>, ClientError> {
    let Some(message) = following.next_message().await? else { return Ok(None) };
    let list = following.decode_message(&message, "a list of assignments")?;
    Ok(Some((list, following)))
}

impl RunAssignmentStream {
    /// The next list, without importing the trait `Stream`.
    pub async fn next(&mut self) -> Option<Result<RunAssignments, ClientError>> {
        self.lists.next().await
    }
}

impl Stream for RunAssignmentStream {
    type Item = Result<RunAssignments, ClientError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.lists.poll_next_unpin(cx)
    }
}

impl fmt::Debug for RunAssignmentStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunAssignmentStream").finish_non_exhaustive()
    }
}
