//! The body of an answer on its connection: what the answer holds is held until its last byte is sent.
//!
//! A client decides when it reads. Over HTTP/2 it may ask for many pages and grant no window for them; the pages are in
//! memory then, in the body or in the send buffer of the protocol. So each piece of the body carries what the answer
//! holds ([`AnswerHold`]: the request's slot, the bytes out of the budgets of the process and of the tenant, the place
//! of a call without a key), and the last piece that is sent or dropped gives it back.
//!
//! A *whole* answer, one that is complete when it begins, has to be read: the connection notes when a piece of it was
//! last taken ([`ConnectionUse`]) and is closed when that is too long ago. A stream may be silent.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::Response;
use bytes::{Buf, Bytes};
use hyper::body::{Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;

use crate::body::PaidBytes;
use crate::connection_use::{AnswerProgress, ConnectionUse, RequestInProgress};
use crate::gate::Slot;

/// What a whole answer holds until it is sent. In the extensions of a response.
#[derive(Debug, Clone)]
pub(crate) struct AnswerHold(#[expect(dead_code, reason = "held until it is dropped")] Arc<AnswerResources>);

#[derive(Debug)]
struct AnswerResources {
    _slot: Option<Slot>,
    _paid: Option<PaidBytes>,
    _place: Option<OwnedSemaphorePermit>,
}

impl AnswerHold {
    pub(crate) fn of_request(slot: Slot, paid: Option<PaidBytes>) -> Self {
        Self(Arc::new(AnswerResources { _slot: Some(slot), _paid: paid, _place: None }))
    }

    pub(crate) fn of_anonymous(place: OwnedSemaphorePermit) -> Self {
        Self(Arc::new(AnswerResources { _slot: None, _paid: None, _place: Some(place) }))
    }
}

/// The size of an answer that is complete; `None` for a stream.
pub(crate) fn whole_bytes(body: &Body) -> Option<usize> {
    let bytes = hyper::body::Body::size_hint(body).exact()?;
    usize::try_from(bytes).ok()
}

/// What every piece of an answer shares.
#[derive(Debug)]
struct SharedHold {
    progress: Option<AnswerProgress>,
    _hold: Option<AnswerHold>,
    _in_progress: RequestInProgress,
}

/// The body of an answer, on the connection that asked for it.
pub(crate) struct AnswerBody {
    body: Body,
    /// Of a frame that is larger than a piece.
    rest: Bytes,
    hold: Arc<SharedHold>,
}

/// The largest piece: a client that takes one now and then is not cut off.
const PIECE: usize = 32 * 1024;

impl AnswerBody {
    /// The response with what it holds.
    pub(crate) fn attach(
        mut response: Response,
        connection: &Arc<ConnectionUse>,
        in_progress: RequestInProgress,
    ) -> hyper::Response<Self> {
        let hold = response.extensions_mut().remove::<AnswerHold>();
        let is_whole = hold.is_some() || whole_bytes(response.body()).is_some();
        let progress = is_whole.then(|| connection.begin_answer());
        let hold = Arc::new(SharedHold { progress, _hold: hold, _in_progress: in_progress });
        response.map(|body| Self { body, rest: Bytes::new(), hold })
    }

    fn piece(&mut self) -> Frame<HeldBytes> {
        if let Some(progress) = &self.hold.progress {
            progress.advance();
        }
        let bytes = self.rest.split_to(self.rest.len().min(PIECE));
        Frame::data(HeldBytes { bytes, _hold: self.hold.clone() })
    }
}

impl hyper::body::Body for AnswerBody {
    type Data = HeldBytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<HeldBytes>, axum::Error>>> {
        if !self.rest.is_empty() {
            return Poll::Ready(Some(Ok(self.piece())));
        }
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(Some(Ok(match frame.into_data() {
                Ok(data) => {
                    self.rest = data;
                    self.piece()
                }
                Err(other) => other.map_data(|bytes| HeldBytes { bytes, _hold: self.hold.clone() }),
            }))),
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = u64::try_from(self.rest.len()).unwrap_or(u64::MAX);
        let hint = self.body.size_hint();
        let mut whole = SizeHint::new();
        whole.set_lower(hint.lower().saturating_add(rest));
        if let Some(upper) = hint.upper() {
            whole.set_upper(upper.saturating_add(rest));
        }
        whole
    }
}

/// A piece of an answer.
#[derive(Debug)]
pub(crate) struct HeldBytes {
    bytes: Bytes,
    _hold: Arc<SharedHold>,
}

impl Buf for HeldBytes {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }
}
