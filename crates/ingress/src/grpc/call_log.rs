//! Tracing of gRPC calls, as `http::trace` does it for HTTP: a request id, a trace context, a span,
//! metrics, and one access log line with caller, method, code and duration.
//!
//! The code of an answered call follows its body, so the line is written when the body ends: for a stream,
//! at its end.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use futures::FutureExt;
use hyper::body::{Frame, SizeHint};
use tonic::Code;
use tracing::{Instrument, Span};

use super::call::GrpcCallerName;
use super::{method_label, status};
use crate::metrics;
use crate::refusal::{RefusalKind, RequestRefusal};
use crate::state::IngressState;
use crate::trace::{REQUEST_ID, TraceContext, request_id, traceparent_of};

/// The outermost layer.
pub(super) async fn trace_call(
    State(door): State<Arc<IngressState>>,
    mut request: Request,
    next: Next,
) -> Response {
    let begun = Instant::now();
    let request_id = request_id(request.headers(), &*door.clock, &*door.entropy);
    let traceparent = traceparent_of(request.headers(), &*door.entropy);
    let method = method_label::label_of(request.uri().path());
    let who = GrpcCallerName::default();
    request.extensions_mut().insert(TraceContext { traceparent: traceparent.clone() });
    request.extensions_mut().insert(who.clone());
    let span = tracing::info_span!(
        "call", request.id = %request_id, rpc.method = method, traceparent = %traceparent
    );
    let answered = AssertUnwindSafe(next.run(request)).catch_unwind().instrument(span.clone()).await;
    let mut response = answered.unwrap_or_else(|_| {
        status::refusal_response(RequestRefusal::new(
            RefusalKind::Internal,
            "the handler of this call panicked",
        ))
    });
    if let Ok(value) = HeaderValue::from_str(&request_id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    let code = status::correct_code(response.headers_mut());
    let call = GrpcCallRecord { span, method, who, begun };
    response.map(|body| Body::new(RecordedBody { body, code, call: Some(call) }))
}

struct GrpcCallRecord {
    span: Span,
    /// One of a fixed list: clients choose the path they call.
    method: &'static str,
    who: GrpcCallerName,
    begun: Instant,
}

impl GrpcCallRecord {
    fn record_end(self, code: Code) {
        let Self { span, method, who, begun } = self;
        let seconds = begun.elapsed().as_secs_f64();
        let caller = who.name();
        span.in_scope(|| {
            if matches!(code, Code::Internal | Code::Unknown | Code::DataLoss | Code::Unavailable) {
                tracing::warn!(rpc.code = ?code, caller, seconds, "call failed");
            } else {
                tracing::debug!(rpc.code = ?code, caller, seconds, "call answered");
            }
        });
        metrics::record_call(method, code, seconds);
    }
}

/// A body that records the end of its call, however it ends.
struct RecordedBody {
    body: Body,
    code: Option<Code>,
    call: Option<GrpcCallRecord>,
}

impl RecordedBody {
    fn record_once(&mut self, otherwise: Code) {
        if let Some(call) = self.call.take() {
            call.record_end(self.code.unwrap_or(otherwise));
        }
    }
}

impl hyper::body::Body for RecordedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(context));
        match &mut frame {
            Some(Ok(frame)) => {
                if let Some(trailers) = frame.trailers_mut() {
                    self.code = status::correct_code(trailers).or(self.code);
                    self.record_once(Code::Ok);
                }
            }
            Some(Err(_)) => self.record_once(Code::Unknown),
            None => self.record_once(Code::Ok),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for RecordedBody {
    /// A body that is dropped before its end means that the caller has disconnected (a call without a body
    /// is recorded before).
    fn drop(&mut self) {
        self.record_once(Code::Cancelled);
    }
}
