//! The body of a unary answer, encoded before it is sent, so that its bytes can be counted.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::HeaderMap;
use bytes::{Bytes, BytesMut};
use hyper::body::{Frame, SizeHint};

/// A message and its trailers.
pub(super) struct WholeMessage {
    bytes: Bytes,
    trailers: Option<HeaderMap>,
}

impl WholeMessage {
    /// Encodes the body; returns it with the length of its message.
    pub(super) async fn of(mut body: Body) -> Result<(Self, usize), axum::Error> {
        let (mut bytes, mut more, mut trailers) = (Bytes::new(), BytesMut::new(), None);
        while let Some(frame) = futures::future::poll_fn(|context| poll_frame_of(&mut body, context)).await {
            match frame?.into_data() {
                // Almost always a message is one chunk.
                Ok(data) if bytes.is_empty() => bytes = data,
                Ok(data) => more.extend_from_slice(&data),
                Err(frame) => trailers = frame.into_trailers().ok(),
            }
        }
        if !more.is_empty() {
            bytes = [bytes, more.freeze()].concat().into();
        }
        let length = bytes.len();
        Ok((Self { bytes, trailers }, length))
    }
}

fn poll_frame_of(
    body: &mut Body,
    context: &mut Context<'_>,
) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
    hyper::body::Body::poll_frame(Pin::new(body), context)
}

impl hyper::body::Body for WholeMessage {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if !self.bytes.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.bytes)))));
        }
        Poll::Ready(self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty() && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::new()
    }
}
