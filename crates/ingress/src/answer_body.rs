//! The response body on its connection: the resources of an answer are held until its last byte is sent.
//!
//! A client decides when it reads. Over HTTP/2 it may request many pages and grant no flow-control window
//! for them; the pages are in memory then, in the body or in the send buffer of the protocol. Therefore
//! each piece of the body carries the resources of its answer ([`AnswerHold`]: the request's slot, the
//! bytes out of the budgets of the process and of the tenant, the place of an anonymous call), and the last
//! piece that is sent or dropped releases them.
//!
//! A *whole* answer, one that is complete when it begins, has to be read: the connection records when it
//! last took a piece ([`ConnectionUse`]) and is closed when that is too long ago. A stream may be silent.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::Response;
use bytes::{Buf, Bytes};
use hyper::body::{Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;

use crate::body_budget::{BodyBudget, PaidBytes};
use crate::connection_use::{AnswerProgress, ConnectionUse, RequestInProgress};
use crate::gate::RequestSlot;
use crate::refusal::RequestRefusal;

/// Resources of a whole answer, held until it is sent. In the extensions of a response.
#[derive(Debug, Clone)]
pub(crate) struct AnswerHold(#[expect(dead_code, reason = "held until it is dropped")] Arc<AnswerResources>);

#[derive(Debug)]
struct AnswerResources {
    _slot: Option<RequestSlot>,
    _paid: Option<PaidBytes>,
    _place: Option<OwnedSemaphorePermit>,
}

impl AnswerHold {
    pub(crate) fn of_request(slot: RequestSlot, paid: Option<PaidBytes>) -> Self {
        Self(Arc::new(AnswerResources { _slot: Some(slot), _paid: paid, _place: None }))
    }

    pub(crate) fn of_anonymous(place: OwnedSemaphorePermit) -> Self {
        Self(Arc::new(AnswerResources { _slot: None, _paid: None, _place: Some(place) }))
    }
}

/// Answers up to this size are bounded by the number of slots alone.
const SMALL_ANSWER: usize = 4 * 1024;

/// Lets a complete answer keep the slot of its request, and its bytes, until it is sent. Without room in
/// the budget, the answer of a read is refused; the answer of an act is sent in any case, because the act
/// is done.
pub(crate) fn hold_answer(
    mut response: Response,
    bytes: usize,
    slot: RequestSlot,
    bodies: &BodyBudget,
    call: AnsweredCall,
) -> Result<Response, RequestRefusal> {
    let paid = if bytes > SMALL_ANSWER { Some(bodies.charge_kib(bytes.div_ceil(1024))) } else { None };
    let paid = match (paid.transpose(), call) {
        (Err(refusal), AnsweredCall::Read) => return Err(refusal),
        (Err(_), AnsweredCall::Act) => None,
        (Ok(paid), _) => paid,
    };
    response.extensions_mut().insert(AnswerHold::of_request(slot, paid));
    Ok(response)
}

/// Whether an answered call was a read or an act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnsweredCall {
    Read,
    Act,
}

/// The size of an answer that is complete; `None` for a stream.
pub(crate) fn whole_bytes(body: &Body) -> Option<usize> {
    let bytes = hyper::body::Body::size_hint(body).exact()?;
    usize::try_from(bytes).ok()
}

/// Shared by all pieces of an answer.
#[derive(Debug)]
struct SharedHold {
    progress: Option<AnswerProgress>,
    _hold: Option<AnswerHold>,
    _in_progress: RequestInProgress,
}

/// The body of an answer, on the connection that asked for it.
pub(crate) struct AnswerBody {
    body: Body,
    /// Rest of a frame that is larger than a piece.
    rest: Bytes,
    hold: Arc<SharedHold>,
}

/// The largest piece: small enough that a slow client still takes pieces within the stall timeout.
const PIECE: usize = 32 * 1024;

impl AnswerBody {
    /// The response together with its resources.
    pub(crate) fn attach_to_response(
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

    fn next_piece(&mut self) -> Frame<HeldBytes> {
        if let Some(progress) = &self.hold.progress {
            progress.record_progress();
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
            return Poll::Ready(Some(Ok(self.next_piece())));
        }
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(Some(Ok(match frame.into_data() {
                Ok(data) => {
                    self.rest = data;
                    self.next_piece()
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
