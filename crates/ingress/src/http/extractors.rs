//! What the layers have left in a request, as arguments of its handler.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::auth::{CallerIdentity, TenantCaller};
use crate::gate::RequestSlot;
use crate::refusal::{RefusalKind, RequestRefusal};
use crate::trace::TraceContext;

impl<S: Send + Sync> FromRequestParts<S> for CallerIdentity {
    type Rejection = RequestRefusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, RequestRefusal> {
        parts.extensions.get::<Self>().cloned().ok_or_else(unidentified_caller)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for TenantCaller {
    type Rejection = RequestRefusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, RequestRefusal> {
        parts.extensions.get::<Self>().cloned().ok_or_else(unidentified_caller)
    }
}

/// A route without a declared permission has no caller.
fn unidentified_caller() -> RequestRefusal {
    RequestRefusal::new(RefusalKind::Internal, "the caller was not identified")
}

impl<S: Send + Sync> FromRequestParts<S> for RequestSlot {
    type Rejection = RequestRefusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, RequestRefusal> {
        let slot = parts.extensions.get::<RequestSlot>().cloned();
        slot.ok_or_else(|| RequestRefusal::new(RefusalKind::Internal, "the request has no slot"))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for TraceContext {
    type Rejection = RequestRefusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, RequestRefusal> {
        let trace = parts.extensions.get::<TraceContext>().cloned();
        trace.ok_or_else(|| RequestRefusal::new(RefusalKind::Internal, "the request was not traced"))
    }
}
