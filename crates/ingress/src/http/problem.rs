//! Errors of the HTTP API: the one place that turns any refusal into `application/problem+json` (RFC 9457).
//!
//! A handler returns a [`RequestRefusal`]; it travels as an extension of a bodiless response and
//! [`write_problem_document`] writes the document, so that answers of the router itself (404, 405) get the
//! same shape and every document names its request.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use millstream_api::runs::SeatHolder;
use millstream_model::problem::ValidationProblem as Fault;
use millstream_model::quota::QuotaRefusal;
use serde::Serialize;

use super::runs::views::seat_holder;
use crate::refusal::{RefusalKind, RequestRefusal};

/// The status code of a kind of refusals.
pub(crate) const fn status_of_kind(kind: RefusalKind) -> StatusCode {
    match kind {
        RefusalKind::BadRequest => StatusCode::BAD_REQUEST,
        RefusalKind::Unauthorized => StatusCode::UNAUTHORIZED,
        RefusalKind::Forbidden | RefusalKind::HostRefused | RefusalKind::QuotaExceeded => {
            StatusCode::FORBIDDEN
        }
        RefusalKind::NotFound | RefusalKind::NoRoute => StatusCode::NOT_FOUND,
        RefusalKind::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        RefusalKind::BodyTimeout => StatusCode::REQUEST_TIMEOUT,
        RefusalKind::Conflict
        | RefusalKind::NotOwner
        | RefusalKind::Exists
        | RefusalKind::RevisionConflict => StatusCode::CONFLICT,
        RefusalKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        RefusalKind::UriTooLong => StatusCode::URI_TOO_LONG,
        RefusalKind::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        RefusalKind::Invalid
        | RefusalKind::Unfit
        | RefusalKind::InvalidAnswer
        | RefusalKind::KeyReused
        | RefusalKind::UnknownEvent => StatusCode::UNPROCESSABLE_ENTITY,
        RefusalKind::Busy | RefusalKind::QuotaThrottled => StatusCode::TOO_MANY_REQUESTS,
        RefusalKind::HeadersTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        RefusalKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        RefusalKind::StoreUnavailable | RefusalKind::Draining => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// The `type` member of a problem document; the URN ends in the slug.
pub(crate) fn urn_of_kind(kind: RefusalKind) -> String {
    format!("urn:millstream:problem:{}", kind.slug())
}

/// A quota that rejects the request.
#[derive(Debug, Clone, Serialize)]
struct RefusingQuotaOut {
    name: &'static str,
    value: serde_json::Value,
    source: &'static str,
}

impl From<QuotaRefusal> for RefusingQuotaOut {
    fn from(QuotaRefusal { name, value, source, retry_after: _ }: QuotaRefusal) -> Self {
        Self { name: name.as_str(), value: value.to_json(name), source: source.as_str() }
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
    holder: Option<Box<SeatHolder>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<RefusingQuotaOut>,
}

impl<'a> ProblemDocument<'a> {
    /// The document without an instance, as it appears among the verdicts of a batch.
    pub(crate) fn of(refusal: &'a RequestRefusal) -> Self {
        Self {
            kind: urn_of_kind(refusal.kind),
            title: refusal.kind.title(),
            status: status_of_kind(refusal.kind).as_u16(),
            detail: &refusal.detail,
            instance: None,
            problems: &refusal.faults,
            holder: refusal.holder.clone().map(|holder| Box::new(seat_holder(holder))),
            quota: refusal.quota.as_deref().copied().map(RefusingQuotaOut::from),
        }
    }
}

impl IntoResponse for RequestRefusal {
    fn into_response(self) -> Response<Body> {
        let mut response = status_of_kind(self.kind).into_response();
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
    let problem = match response.extensions_mut().remove::<RequestRefusal>() {
        Some(problem) => problem,
        None => of_status(response.status(), path),
    };
    let document = ProblemDocument {
        instance: Some(format!("urn:millstream:request:{request_id}")),
        ..ProblemDocument::of(&problem)
    };
    let body = serde_json::to_vec(&document).unwrap_or_default();
    *response.status_mut() = status_of_kind(problem.kind);
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
    if matches!(problem.kind, RefusalKind::TooLarge | RefusalKind::BodyTimeout) {
        // The rest of the request body may still be in transit; it is not read.
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    *response.body_mut() = Body::from(body);
    response
}

/// The problem for a bare status of the router or of an extractor.
fn of_status(status: StatusCode, path: &str) -> RequestRefusal {
    let kind = match status {
        StatusCode::NOT_FOUND => RefusalKind::NoRoute,
        StatusCode::METHOD_NOT_ALLOWED => RefusalKind::MethodNotAllowed,
        StatusCode::PAYLOAD_TOO_LARGE => RefusalKind::TooLarge,
        StatusCode::UNSUPPORTED_MEDIA_TYPE => RefusalKind::UnsupportedMediaType,
        StatusCode::UNPROCESSABLE_ENTITY => RefusalKind::Invalid,
        status if status.is_client_error() => RefusalKind::BadRequest,
        _ => RefusalKind::Internal,
    };
    let detail = if kind == RefusalKind::NoRoute {
        format!("nothing is served at {path:?}")
    } else if kind == RefusalKind::MethodNotAllowed {
        format!("{path:?} does not know this method")
    } else {
        kind.title().to_owned()
    };
    RequestRefusal::new(kind, detail)
}

fn auth_challenge(kind: RefusalKind) -> Option<&'static str> {
    if kind == RefusalKind::Unauthorized {
        Some(r#"Bearer realm="millstream""#)
    } else if kind == RefusalKind::Forbidden {
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
        for kind in RefusalKind::ALL {
            let row = format!("| `{}` | {} |", kind.slug(), status_of_kind(*kind).as_u16());
            assert!(page.contains(&row), "docs/API.md lacks the row {row:?}");
        }
    }

    #[test]
    fn refusals_for_a_moment_say_when_to_retry() {
        for kind in RefusalKind::ALL {
            let is_temporary = matches!(
                status_of_kind(*kind),
                StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
            );
            assert_eq!(RequestRefusal::new(*kind, "x").retry_after.is_some(), is_temporary, "{kind:?}");
        }
    }
}
