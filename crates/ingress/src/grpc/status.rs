//! The one place that turns any refusal into a gRPC status. The message is the same as over HTTP; faults of a request are in the
//! error details as well (see `millstream_rpc::refusal`).

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, header};
use millstream_devices::claim::CurrentSeatHolder;
use millstream_model::id::EventId;
use millstream_model::problem::{ValidationProblem as Fault, ValidationProblems};
use millstream_rpc::refusal;
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

use crate::refusal::{RefusalKind, RequestRefusal};

pub(super) fn status_of_refusal(refusal: RequestRefusal) -> Status {
    let code = code_of_kind(refusal.kind);
    if let Some(holder) = &refusal.holder {
        return status_with_holder(code, &refusal, holder);
    }
    if code == Code::Internal {
        let mut status = Status::new(code, refusal.detail);
        status.metadata_mut().insert(OWN_FAILURE, MetadataValue::from_static("1"));
        status
    } else if refusal.faults.is_empty() {
        Status::new(code, refusal.detail)
    } else {
        refusal::refuse_with(code, &ValidationProblems(refusal.faults))
    }
}

/// Marks an `INTERNAL` that the engine sets itself. Removed before the answer leaves.
const OWN_FAILURE: &str = "millstream-own-failure";
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// Corrects the code of an answer, in its headers or its trailers.
///
/// The gRPC library answers a message that it cannot decode, or that is framed wrongly or missing, with
/// `INTERNAL`, the code of a server failure. The caller is at fault, so the code becomes
/// `INVALID_ARGUMENT`.
pub(super) fn correct_code(headers: &mut HeaderMap) -> Option<Code> {
    let code = Code::from_bytes(headers.get(GRPC_STATUS)?.as_bytes());
    let is_own = headers.remove(OWN_FAILURE).is_some();
    if code == Code::Internal && !is_own {
        headers.insert(GRPC_STATUS, HeaderValue::from(i32::from(Code::InvalidArgument)));
        return Some(Code::InvalidArgument);
    }
    Some(code)
}

/// A refusal with the current holder in its error details, for programs.
fn status_with_holder(code: Code, refusal: &RequestRefusal, holder: &CurrentSeatHolder) -> Status {
    let reason = refusal.kind.slug().replace('-', "_").to_uppercase();
    let facts = [
        ("device", holder.device.to_string()),
        ("since", holder.since.to_string()),
        ("status", holder.status.to_string()),
    ];
    refusal::refuse_with_reason(code, &refusal.detail, &reason, facts)
}

const fn code_of_kind(kind: RefusalKind) -> Code {
    match kind {
        RefusalKind::BadRequest
        | RefusalKind::Invalid
        | RefusalKind::InvalidAnswer
        | RefusalKind::UnknownEvent
        | RefusalKind::UnsupportedMediaType => Code::InvalidArgument,
        RefusalKind::Unauthorized => Code::Unauthenticated,
        RefusalKind::Forbidden | RefusalKind::HostRefused => Code::PermissionDenied,
        RefusalKind::NotFound => Code::NotFound,
        RefusalKind::NoRoute | RefusalKind::MethodNotAllowed => Code::Unimplemented,
        RefusalKind::BodyTimeout => Code::DeadlineExceeded,
        RefusalKind::Conflict | RefusalKind::NotOwner | RefusalKind::Unfit | RefusalKind::KeyReused => {
            Code::FailedPrecondition
        }
        RefusalKind::Exists => Code::AlreadyExists,
        RefusalKind::RevisionConflict => Code::Aborted,
        RefusalKind::TooLarge
        | RefusalKind::UriTooLong
        | RefusalKind::HeadersTooLarge
        | RefusalKind::Busy
        | RefusalKind::QuotaThrottled
        | RefusalKind::QuotaExceeded => Code::ResourceExhausted,
        RefusalKind::Internal => Code::Internal,
        RefusalKind::StoreUnavailable | RefusalKind::Draining => Code::Unavailable,
    }
}

/// The status of a request with one fault.
pub(super) fn invalid_field(path: &str, message: impl Into<String>) -> Status {
    status_of_refusal(RequestRefusal::invalid(vec![Fault::new(path, message)]))
}

/// A response without a body: headers and status only.
pub(super) fn refusal_response(refusal: RequestRefusal) -> Response<Body> {
    status_of_refusal(refusal).into_http()
}

/// Durable, and not decided while the caller waited.
pub(super) fn undecided_edits(event: EventId) -> Status {
    Status::deadline_exceeded(format!("the edits are durable as event {event} but not decided yet"))
}

/// The answer to a gRPC call of an unknown path; `None` where the request is not a gRPC call.
pub(crate) fn unknown_path(headers: &HeaderMap) -> Option<Response<Body>> {
    let media = headers.get(header::CONTENT_TYPE)?;
    let is_call = media.as_bytes().starts_with(b"application/grpc");
    is_call.then(|| {
        refusal_response(RequestRefusal::new(RefusalKind::NoRoute, "there is no such service or method"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_kinds_map_to_documented_codes() {
        for (kind, code) in [
            (RefusalKind::Invalid, Code::InvalidArgument),
            (RefusalKind::Unfit, Code::FailedPrecondition),
            (RefusalKind::RevisionConflict, Code::Aborted),
            (RefusalKind::Exists, Code::AlreadyExists),
            (RefusalKind::TooLarge, Code::ResourceExhausted),
            (RefusalKind::Busy, Code::ResourceExhausted),
            (RefusalKind::StoreUnavailable, Code::Unavailable),
        ] {
            assert_eq!(status_of_refusal(RequestRefusal::new(kind, "x")).code(), code);
        }
    }

    #[test]
    fn undecodable_message_is_invalid_argument() {
        let settled = |status: Status| {
            let (mut parts, _) = status.into_http::<Body>().into_parts();
            let code = correct_code(&mut parts.headers);
            assert!(!parts.headers.contains_key(OWN_FAILURE));
            assert_eq!(code, Some(Code::from_bytes(parts.headers["grpc-status"].as_bytes())));
            code
        };
        let undecodable = Status::internal("failed to decode Protobuf message: invalid wire type");
        assert_eq!(settled(undecodable), Some(Code::InvalidArgument));
        assert_eq!(
            settled(status_of_refusal(RequestRefusal::new(RefusalKind::Internal, "x"))),
            Some(Code::Internal)
        );
        assert_eq!(settled(Status::not_found("x")), Some(Code::NotFound));
        assert_eq!(correct_code(&mut HeaderMap::new()), None);
    }

    #[test]
    fn unknown_path_answers_grpc_calls_only() {
        let mut headers = HeaderMap::new();
        assert!(unknown_path(&headers).is_none());
        headers.insert(header::CONTENT_TYPE, "application/grpc+proto".parse().unwrap());
        let answer = unknown_path(&headers).unwrap();
        assert_eq!(answer.headers()["grpc-status"], "12");
    }
}
