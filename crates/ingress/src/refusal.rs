//! Refusal of a request, independent of the transport: its kind, its details, and what a caller can do.
//!
//! The services return a [`RequestRefusal`]. Each transport translates it at one place: `http::problem` into
//! a problem document with a status code, `grpc::status` into a gRPC status. Details are written for the
//! caller; information for operators is logged where the error is handled.

use std::time::Duration;

use millstream_devices::claim::CurrentSeatHolder;
use millstream_model::problem::{ValidationProblem as Fault, ValidationProblems};
use millstream_model::quota::QuotaRefusal;
use millstream_store::StoreError;

macro_rules! refusal_kinds {
    ($($(#[$doc:meta])* $variant:ident = $word:literal, $title:literal;)+) => {
        /// The documented kinds of refusals.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum RefusalKind { $($(#[$doc])* $variant,)+ }

        impl RefusalKind {
            pub(crate) const ALL: &'static [RefusalKind] = &[$(RefusalKind::$variant,)+];

            /// The word of the kind, which every transport uses.
            pub(crate) const fn slug(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            pub(crate) const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)+ }
            }
        }
    };
}

refusal_kinds! {
    /// The request cannot be parsed: JSON syntax, the value of a header.
    BadRequest = "bad-request", "The request cannot be read";
    /// The call requires a key, and the request has none or an invalid one.
    Unauthorized = "unauthorized", "A valid API key is required";
    /// The key's role does not permit this call.
    Forbidden = "forbidden", "The API key does not permit this call";
    /// The process accepts requests without keys, on loopback, and the request names another host or origin.
    HostRefused = "host-refused", "This host or origin is not served";
    /// No such definition, execution or event, or it belongs to another tenant.
    NotFound = "not-found", "Not found";
    /// No such path.
    NoRoute = "no-such-route", "No such path";
    /// The path exists, the method does not; `Allow` lists the methods that do.
    MethodNotAllowed = "method-not-allowed", "Method not allowed on this path";
    /// The body did not arrive in time.
    BodyTimeout = "body-timeout", "The body did not arrive in time";
    /// The current state of the resource does not permit the call, or the id is in use with other content.
    Conflict = "conflict", "Conflicts with the current state";
    /// Another device holds the seat, or the token is of an assignment that has ended; `holder` names the
    /// current holder. Or the assignment belongs to another person.
    NotOwner = "not-owner", "Not held by the caller";
    /// A graph or an execution with this id exists with different content.
    Exists = "already-exists", "Already exists with different content";
    /// Optimistic concurrency: the graph is at another revision than the edits expect.
    RevisionConflict = "revision-conflict", "The graph is at another revision";
    /// A body, payload or batch exceeds its limit.
    TooLarge = "too-large", "The request is too large";
    /// Path and query exceed their limit.
    UriTooLong = "uri-too-long", "The URI is too long";
    /// A `Content-Type` that this path does not accept.
    UnsupportedMediaType = "unsupported-media-type", "The content type is not supported";
    /// The request is well formed and invalid; `problems` lists the faults with their paths.
    Invalid = "invalid", "The request is not valid";
    /// The edits are well formed and do not fit the current shape of the graph; `problems` lists the faults.
    Unfit = "edits-do-not-fit", "The edits do not fit the graph";
    /// A submitted answer violates the queue's schema or rules; `problems` lists the faults with their paths
    /// in the answer.
    InvalidAnswer = "invalid-answer", "The answer is not valid";
    /// The idempotency key was used before with other content.
    KeyReused = "idempotency-key-reused", "The idempotency key was used before";
    /// The execution's definition does not mention the event, or its name is reserved.
    UnknownEvent = "unknown-event", "The definition does not mention this event";
    /// Backpressure: too many requests are in flight; nothing was accepted.
    Busy = "busy", "Too many requests in flight";
    /// Throttled: the tenant is at a quota that passes with time, a rate or its share of the requests in
    /// flight. `quota` names it.
    QuotaThrottled = "quota-throttled", "The tenant is throttled by its quota";
    /// The tenant has reached the maximum of a quota; `quota` names it. Nothing was accepted.
    QuotaExceeded = "quota-exceeded", "The tenant is at its quota";
    /// Headers exceed their limit.
    HeadersTooLarge = "headers-too-large", "The headers are too large";
    /// An internal fault; the log has the details.
    Internal = "internal", "Internal error";
    /// The store is unavailable. The request may or may not have been accepted: repeat it with the same
    /// idempotency key.
    StoreUnavailable = "store-unavailable", "The store is unavailable";
    /// The process is shutting down.
    Draining = "draining", "This process is shutting down";
}

impl RefusalKind {
    /// When to repeat a request that is refused for a moment only. A quota may set another time.
    const fn retry_after(self) -> Option<Duration> {
        match self {
            Self::Busy | Self::QuotaThrottled | Self::StoreUnavailable | Self::Draining => {
                Some(Duration::from_secs(1))
            }
            Self::BadRequest
            | Self::Unauthorized
            | Self::Forbidden
            | Self::HostRefused
            | Self::NotFound
            | Self::NoRoute
            | Self::MethodNotAllowed
            | Self::BodyTimeout
            | Self::Conflict
            | Self::NotOwner
            | Self::Exists
            | Self::RevisionConflict
            | Self::TooLarge
            | Self::UriTooLong
            | Self::UnsupportedMediaType
            | Self::Invalid
            | Self::Unfit
            | Self::InvalidAnswer
            | Self::KeyReused
            | Self::UnknownEvent
            | Self::QuotaExceeded
            | Self::HeadersTooLarge
            | Self::Internal => None,
        }
    }
}

/// One refused request.
#[derive(Debug, Clone)]
pub(crate) struct RequestRefusal {
    pub(crate) kind: RefusalKind,
    pub(crate) detail: String,
    pub(crate) faults: Vec<Fault>,
    pub(crate) retry_after: Option<Duration>,
    /// The device that holds the seat.
    pub(crate) holder: Option<CurrentSeatHolder>,
    /// The quota that rejects the request.
    pub(crate) quota: Option<Box<QuotaRefusal>>,
}

impl RequestRefusal {
    pub(crate) fn new(kind: RefusalKind, detail: impl Into<String>) -> Self {
        let retry_after = kind.retry_after();
        Self { kind, detail: detail.into(), faults: Vec::new(), retry_after, holder: None, quota: None }
    }

    pub(crate) fn held_by(self, holder: Option<CurrentSeatHolder>) -> Self {
        Self { holder, ..self }
    }

    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(RefusalKind::BadRequest, detail)
    }

    pub(crate) fn not_found(what: &str, id: impl std::fmt::Display) -> Self {
        Self::new(RefusalKind::NotFound, format!("there is no {what} {id:?}", id = id.to_string()))
    }

    pub(crate) fn invalid(faults: Vec<Fault>) -> Self {
        let detail = match faults.as_slice() {
            [only] => only.to_string(),
            several => format!("{} problems, the first: {}", several.len(), several[0]),
        };
        Self { faults, ..Self::new(RefusalKind::Invalid, detail) }
    }
}

impl From<QuotaRefusal> for RequestRefusal {
    fn from(refusal: QuotaRefusal) -> Self {
        let kind = match refusal.retry_after {
            Some(_) => RefusalKind::QuotaThrottled,
            None => RefusalKind::QuotaExceeded,
        };
        Self {
            retry_after: refusal.retry_after,
            quota: Some(Box::new(refusal)),
            ..Self::new(kind, refusal.to_string())
        }
    }
}

impl From<StoreError> for RequestRefusal {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) | StoreError::Contention(_) => {
                tracing::warn!(%error, "store unavailable during a request");
                Self::new(RefusalKind::StoreUnavailable, "the store cannot be reached, try again")
            }
            StoreError::Corrupt(_) => {
                tracing::error!(%error, "stored data is unreadable");
                Self::new(RefusalKind::Internal, "stored data cannot be read; the log has more")
            }
        }
    }
}

impl From<ValidationProblems> for RequestRefusal {
    fn from(problems: ValidationProblems) -> Self {
        Self::invalid(problems.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_slugs_are_unique() {
        let words: std::collections::BTreeSet<_> = RefusalKind::ALL.iter().map(|kind| kind.slug()).collect();
        assert_eq!(words.len(), RefusalKind::ALL.len());
    }
}
