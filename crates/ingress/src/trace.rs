//! Request tracing: a request id, a trace context, a span and metrics for every request.
//!
//! The outermost layer. It also writes the error documents and turns a panic of a handler into a 500 with
//! the request id, so that every response has the same shape.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use millstream_model::entropy::{self, Entropy};
use tracing::Instrument;

use crate::http::problem::{self, ApiProblem, ProblemKind};
use crate::state::IngressState;

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Carried by the request as an extension.
#[derive(Debug, Clone)]
pub(crate) struct TraceContext {
    /// W3C trace context: the caller's, or a new one.
    pub(crate) traceparent: Arc<str>,
}

impl<S: Send + Sync> FromRequestParts<S> for TraceContext {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiProblem> {
        let trace = parts.extensions.get::<TraceContext>().cloned();
        trace.ok_or_else(|| ApiProblem::new(ProblemKind::Internal, "the request was not traced"))
    }
}

/// The outermost layer.
pub(crate) async fn trace_request(
    State(door): State<Arc<IngressState>>,
    mut request: Request,
    next: Next,
) -> Response {
    let begun = Instant::now();
    let request_id = request_id(request.headers(), &door);
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
        ApiProblem::new(ProblemKind::Internal, "the handler of this request panicked").into_response()
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
    crate::metrics::record_request(&method, &route, status, seconds);
    response
}

/// The caller's id, if it is short and plain; else a new one.
pub(crate) fn request_id(headers: &HeaderMap, door: &IngressState) -> Arc<str> {
    let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    let plain = |id: &&str| {
        (1..=128).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte))
    };
    match given.filter(plain) {
        Some(id) => id.into(),
        None => entropy::uuid_v7(door.clock.now(), &*door.entropy).to_string().into(),
    }
}

/// The caller's trace context, if it is valid (version 00); else a new one.
pub(crate) fn traceparent_of(headers: &HeaderMap, entropy: &dyn Entropy) -> Arc<str> {
    let given = headers.get("traceparent").and_then(|value| value.to_str().ok());
    match given.filter(|text| is_traceparent(text)) {
        Some(text) => text.into(),
        None => format!(
            "00-{:016x}{:016x}-{:016x}-01",
            entropy.next_u64().max(1),
            entropy.next_u64(),
            entropy.next_u64().max(1)
        )
        .into(),
    }
}

pub(crate) fn is_traceparent(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let hex = |part: &str, len: usize| {
        part.len() == len && part.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    };
    match parts.as_slice() {
        ["00", trace, span, flags] => {
            hex(trace, 32)
                && hex(span, 16)
                && hex(flags, 2)
                && trace.bytes().any(|byte| byte != b'0')
                && span.bytes().any(|byte| byte != b'0')
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_traceparent_is_replaced() {
        assert!(is_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"));
        for wrong in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert!(!is_traceparent(wrong), "{wrong}");
        }
    }
}
