//! Errors of the HTTP API: the one place that turns any error into `application/problem+json` (RFC 9457).
//!
//! A handler returns a [`ApiProblem`]; it travels as an extension of a bodiless response and [`write_problem_document`] writes
//! the document, so that answers of the router itself (404, 405) get the same shape and every document names
//! its request. Details are written for the caller; information for operators is logged where the error is
//! handled.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use millstream_devices::claim::{CurrentSeatHolder, SeatStatus};
use millstream_model::id::DeviceId;
use millstream_model::problem::{ValidationProblem as Fault, ValidationProblems};
use millstream_model::quota::QuotaRefusal;
use millstream_model::time::Timestamp;
use millstream_store::StoreError;
use serde::Serialize;

use crate::accept::AcceptError;

macro_rules! problem_kinds {
    ($($(#[$doc:meta])* $variant:ident = $word:literal, $status:ident, $title:literal;)+) => {
        /// The documented `type`s; the URN ends in the slug.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ProblemKind { $($(#[$doc])* $variant,)+ }

        impl ProblemKind {
            pub const ALL: &'static [ProblemKind] = &[$(ProblemKind::$variant,)+];

            pub const fn slug(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            pub const fn status(self) -> StatusCode {
                match self { $(Self::$variant => StatusCode::$status,)+ }
            }

            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)+ }
            }
        }
    };
}

problem_kinds! {
    /// The request cannot be parsed: JSON syntax, the value of a header.
    BadRequest = "bad-request", BAD_REQUEST, "The request cannot be read";
    /// The call requires a key, and the request has none or an invalid one.
    Unauthorized = "unauthorized", UNAUTHORIZED, "A valid API key is required";
    /// The key's role does not permit this call.
    Forbidden = "forbidden", FORBIDDEN, "The API key does not permit this call";
    /// The process accepts requests without keys, on loopback, and the request names another host or origin.
    HostRefused = "host-refused", FORBIDDEN, "This host or origin is not served";
    /// No such definition, execution or event, or it belongs to another tenant.
    NotFound = "not-found", NOT_FOUND, "Not found";
    /// No such path.
    NoRoute = "no-such-route", NOT_FOUND, "No such path";
    /// The path exists, the method does not; `Allow` lists the methods that do.
    MethodNotAllowed = "method-not-allowed", METHOD_NOT_ALLOWED, "Method not allowed on this path";
    /// The body did not arrive in time.
    BodyTimeout = "body-timeout", REQUEST_TIMEOUT, "The body did not arrive in time";
    /// The current state of the resource does not permit the call, or the id is in use with other content.
    Conflict = "conflict", CONFLICT, "Conflicts with the current state";
    /// Another device holds the seat, or the token is of an assignment that has ended; `holder` names the
    /// current holder. Or the assignment belongs to another person.
    NotOwner = "not-owner", CONFLICT, "Not held by the caller";
    /// A graph or an execution with this id exists with different content.
    Exists = "already-exists", CONFLICT, "Already exists with different content";
    /// Optimistic concurrency: the graph is at another revision than the edits expect.
    RevisionConflict = "revision-conflict", CONFLICT, "The graph is at another revision";
    /// A body, payload or batch exceeds its limit.
    TooLarge = "too-large", PAYLOAD_TOO_LARGE, "The request is too large";
    /// Path and query exceed their limit.
    UriTooLong = "uri-too-long", URI_TOO_LONG, "The URI is too long";
    /// A `Content-Type` that this path does not accept.
    UnsupportedMediaType = "unsupported-media-type", UNSUPPORTED_MEDIA_TYPE, "The content type is not supported";
    /// The request is well formed and invalid; `problems` lists the faults with their paths.
    Invalid = "invalid", UNPROCESSABLE_ENTITY, "The request is not valid";
    /// The edits are well formed and do not fit the current shape of the graph; `problems` lists the faults.
    Unfit = "edits-do-not-fit", UNPROCESSABLE_ENTITY, "The edits do not fit the graph";
    /// A submitted answer violates the queue's schema or rules; `problems` lists the faults with their paths
    /// in the answer.
    InvalidAnswer = "invalid-answer", UNPROCESSABLE_ENTITY, "The answer is not valid";
    /// The idempotency key was used before with other content.
    KeyReused = "idempotency-key-reused", UNPROCESSABLE_ENTITY, "The idempotency key was used before";
    /// The execution's definition does not mention the event, or its name is reserved.
    UnknownEvent = "unknown-event", UNPROCESSABLE_ENTITY, "The definition does not mention this event";
    /// Backpressure: too many requests are in flight; nothing was accepted.
    Busy = "busy", TOO_MANY_REQUESTS, "Too many requests in flight";
    /// Throttled: the tenant is at a quota that passes with time, a rate or its share of the requests in
    /// flight. `quota` names it.
    QuotaThrottled = "quota-throttled", TOO_MANY_REQUESTS, "The tenant is throttled by its quota";
    /// The tenant has reached the maximum of a quota; `quota` names it. Nothing was accepted.
    QuotaExceeded = "quota-exceeded", FORBIDDEN, "The tenant is at its quota";
    /// Headers exceed their limit.
    HeadersTooLarge = "headers-too-large", REQUEST_HEADER_FIELDS_TOO_LARGE, "The headers are too large";
    /// An internal fault; the log has the details.
    Internal = "internal", INTERNAL_SERVER_ERROR, "Internal error";
    /// The store is unavailable. The request may or may not have been accepted: repeat it with the same
    /// idempotency key.
    StoreUnavailable = "store-unavailable", SERVICE_UNAVAILABLE, "The store is unavailable";
    /// The process is shutting down.
    Draining = "draining", SERVICE_UNAVAILABLE, "This process is shutting down";
}

impl ProblemKind {
    /// The `type` member.
    pub fn urn(self) -> String {
        format!("urn:millstream:problem:{}", self.slug())
    }
}

/// One error response.
#[derive(Debug, Clone)]
pub struct ApiProblem {
    pub(crate) kind: ProblemKind,
    pub(crate) detail: String,
    pub(crate) faults: Vec<Fault>,
    pub(crate) retry_after: Option<Duration>,
    /// The device that holds the seat.
    pub(crate) holder: Option<SeatHolderOut>,
    /// The quota that rejects the request.
    pub(crate) quota: Option<Box<RefusingQuotaOut>>,
}

/// A quota that rejects the request.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct RefusingQuotaOut {
    pub(crate) name: &'static str,
    pub(crate) value: serde_json::Value,
    pub(crate) source: &'static str,
}

/// The holder of a seat.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct SeatHolderOut {
    pub(crate) device: DeviceId,
    pub(crate) since: Timestamp,
    pub(crate) status: SeatStatus,
}

impl From<CurrentSeatHolder> for SeatHolderOut {
    fn from(CurrentSeatHolder { device, since, status }: CurrentSeatHolder) -> Self {
        Self { device, since, status }
    }
}

impl ApiProblem {
    pub(crate) fn new(kind: ProblemKind, detail: impl Into<String>) -> Self {
        let retry_after = match kind.status() {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => Some(Duration::from_secs(1)),
            _ => None,
        };
        Self { kind, detail: detail.into(), faults: Vec::new(), retry_after, holder: None, quota: None }
    }

    pub(crate) fn held_by(self, holder: Option<CurrentSeatHolder>) -> Self {
        Self { holder: holder.map(SeatHolderOut::from), ..self }
    }

    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(ProblemKind::BadRequest, detail)
    }

    pub(crate) fn not_found(what: &str, id: impl std::fmt::Display) -> Self {
        Self::new(ProblemKind::NotFound, format!("there is no {what} {id:?}", id = id.to_string()))
    }

    pub(crate) fn invalid(faults: Vec<Fault>) -> Self {
        let detail = match faults.as_slice() {
            [only] => only.to_string(),
            several => format!("{} problems, the first: {}", several.len(), several[0]),
        };
        Self { faults, ..Self::new(ProblemKind::Invalid, detail) }
    }

    /// The document without an instance, as it appears among the verdicts of a batch.
    pub(crate) fn document(&self) -> ProblemDocument<'_> {
        ProblemDocument {
            kind: self.kind.urn(),
            title: self.kind.title(),
            status: self.kind.status().as_u16(),
            detail: &self.detail,
            instance: None,
            problems: &self.faults,
            holder: self.holder.as_ref(),
            quota: self.quota.as_deref(),
        }
    }
}

/// RFC 9457, with the fields in our order.
#[derive(Debug, Serialize)]
pub(crate) struct ProblemDocument<'a> {
    #[serde(rename = "type")]
    kind: String,
    title: &'static str,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<String>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    problems: &'a [Fault],
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<&'a SeatHolderOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<&'a RefusingQuotaOut>,
}

impl From<QuotaRefusal> for ApiProblem {
    fn from(refusal: QuotaRefusal) -> Self {
        let QuotaRefusal { name, value, source, retry_after } = refusal;
        let kind =
            if retry_after.is_some() { ProblemKind::QuotaThrottled } else { ProblemKind::QuotaExceeded };
        let quota =
            RefusingQuotaOut { name: name.as_str(), value: value.to_json(name), source: source.as_str() };
        Self { retry_after, quota: Some(Box::new(quota)), ..Self::new(kind, refusal.to_string()) }
    }
}

impl From<StoreError> for ApiProblem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) | StoreError::Contention(_) => {
                tracing::warn!(%error, "store unavailable during a request");
                Self::new(ProblemKind::StoreUnavailable, "the store cannot be reached, try again")
            }
            StoreError::Corrupt(_) => {
                tracing::error!(%error, "stored data is unreadable");
                Self::new(ProblemKind::Internal, "stored data cannot be read; the log has more")
            }
        }
    }
}

impl From<AcceptError> for ApiProblem {
    fn from(error: AcceptError) -> Self {
        match error {
            AcceptError::QueueFull => {
                Self::new(ProblemKind::Busy, "too many events are waiting for a commit")
            }
            AcceptError::TenantQueueFull => Self::new(
                ProblemKind::Busy,
                "too many events of this tenant are waiting for a commit: it has three quarters of the queue",
            ),
            AcceptError::Unavailable => Self::new(
                ProblemKind::StoreUnavailable,
                "the store cannot be reached; repeat the request with the same Idempotency-Key",
            ),
            AcceptError::InDoubt => Self::new(
                ProblemKind::StoreUnavailable,
                "the store did not answer in time; repeat the request with the same Idempotency-Key",
            ),
            AcceptError::Closed => Self::new(ProblemKind::Draining, "this process is shutting down"),
        }
    }
}

impl From<ValidationProblems> for ApiProblem {
    fn from(problems: ValidationProblems) -> Self {
        Self::invalid(problems.0)
    }
}

impl IntoResponse for ApiProblem {
    fn into_response(self) -> Response<Body> {
        let mut response = self.kind.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Writes the problem document of any error response, including those of the router.
pub(crate) fn write_problem_document(
    mut response: Response<Body>,
    request_id: &str,
    path: &str,
) -> Response<Body> {
    if !response.status().is_client_error() && !response.status().is_server_error() {
        return response;
    }
    let problem = match response.extensions_mut().remove::<ApiProblem>() {
        Some(problem) => problem,
        None => of_status(response.status(), path),
    };
    let document = ProblemDocument {
        instance: Some(format!("urn:millstream:request:{request_id}")),
        ..problem.document()
    };
    let body = serde_json::to_vec(&document).unwrap_or_default();
    *response.status_mut() = problem.kind.status();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    if let Some(wait) = problem.retry_after {
        headers.insert(
            header::RETRY_AFTER,
            HeaderValue::from(wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0)).max(1)),
        );
    }
    if let Some(challenge) = auth_challenge(problem.kind) {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    }
    if matches!(problem.kind, ProblemKind::TooLarge | ProblemKind::BodyTimeout) {
        // The rest of the request body may still be in transit; it is not read.
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    *response.body_mut() = Body::from(body);
    response
}

/// The problem for a bare status of the router or of an extractor.
fn of_status(status: StatusCode, path: &str) -> ApiProblem {
    let kind = match status {
        StatusCode::NOT_FOUND => ProblemKind::NoRoute,
        StatusCode::METHOD_NOT_ALLOWED => ProblemKind::MethodNotAllowed,
        StatusCode::PAYLOAD_TOO_LARGE => ProblemKind::TooLarge,
        StatusCode::UNSUPPORTED_MEDIA_TYPE => ProblemKind::UnsupportedMediaType,
        StatusCode::UNPROCESSABLE_ENTITY => ProblemKind::Invalid,
        status if status.is_client_error() => ProblemKind::BadRequest,
        _ => ProblemKind::Internal,
    };
    let detail = if kind == ProblemKind::NoRoute {
        format!("nothing is served at {path:?}")
    } else if kind == ProblemKind::MethodNotAllowed {
        format!("{path:?} does not know this method")
    } else {
        kind.title().to_owned()
    };
    ApiProblem::new(kind, detail)
}

fn auth_challenge(kind: ProblemKind) -> Option<&'static str> {
    if kind == ProblemKind::Unauthorized {
        Some(r#"Bearer realm="millstream""#)
    } else if kind == ProblemKind::Forbidden {
        Some(r#"Bearer realm="millstream", error="insufficient_scope""#)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_kinds_are_documented() {
        let page = include_str!("../../../../docs/API.md");
        for kind in ProblemKind::ALL {
            let row = format!("| `{}` | {} |", kind.slug(), kind.status().as_u16());
            assert!(page.contains(&row), "docs/API.md lacks the row {row:?}");
        }
    }

    #[test]
    fn problem_slugs_are_unique() {
        let words: std::collections::BTreeSet<_> = ProblemKind::ALL.iter().map(|kind| kind.slug()).collect();
        assert_eq!(words.len(), ProblemKind::ALL.len());
    }
}
