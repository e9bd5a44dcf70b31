//! Request tracing: a request id, a trace context, a span and metrics for every request.
//!
//! The outermost layer. It also writes the error documents and turns a panic of a handler into a 500 with
//! the request id, so that every response has the same shape.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::HeaderValue;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use tracing::Instrument;

use super::problem;
use crate::metrics;
use crate::refusal::{RefusalKind, RequestRefusal};
use crate::state::IngressState;
use crate::trace::{REQUEST_ID, TraceContext, request_id, traceparent_of};

/// The outermost layer.
pub(crate) async fn trace_request(
    State(door): State<Arc<IngressState>>,
    mut request: Request,
    next: Next,
) -> Response {
    let begun = Instant::now();
    let request_id = request_id(request.headers(), &*door.clock, &*door.entropy);
    let traceparent = traceparent_of(request.headers(), &*door.entropy);
    request.extensions_mut().insert(TraceContext { traceparent: traceparent.clone() });

    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let route = request.extensions().get::<MatchedPath>().map_or("none", |route| route.as_str()).to_owned();
    let span = tracing::info_span!(
        "request", request.id = %request_id, http.method = %method, http.path = %path, traceparent = %traceparent
    );

    let answered = AssertUnwindSafe(next.run(request)).catch_unwind().instrument(span.clone()).await;
    let response = answered.unwrap_or_else(|_| {
        RequestRefusal::new(RefusalKind::Internal, "the handler of this request panicked").into_response()
    });
    let mut response = problem::write_problem_document(response, &request_id, &path);
    if let Ok(value) = HeaderValue::from_str(&request_id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }

    let status = response.status();
    let seconds = begun.elapsed().as_secs_f64();
    span.in_scope(|| {
        if status.is_server_error() {
            tracing::warn!(http.status = status.as_u16(), seconds, "request failed");
        } else {
            tracing::debug!(http.status = status.as_u16(), seconds, "request answered");
        }
    });
    metrics::record_request(&method, &route, status, seconds);
    response
}
