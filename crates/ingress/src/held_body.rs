//! A response body that holds a permit or a request count until it is sent or dropped.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

/// A body with a guard that is released on drop.
pub(crate) struct HeldBody<T> {
    body: Body,
    #[expect(dead_code, reason = "held until the body is dropped")]
    held: T,
}

impl<T> HeldBody<T> {
    pub(crate) fn new(body: Body, held: T) -> Self {
        Self { body, held }
    }
}

impl<T: Unpin> hyper::body::Body for HeldBody<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
