//! Context of a call: the caller, and the extensions set by the layers.

use std::sync::{Arc, OnceLock};

use axum::http::Extensions;
use tonic::{Request, Status};

use super::status::status_of_refusal;
use crate::auth::TenantCaller;
use crate::gate::RequestSlot;
use crate::refusal::{RefusalKind, RequestRefusal};
use crate::submit::idempotency_key;
use crate::trace::TraceContext;

#[derive(Debug)]
pub(super) struct GrpcCall {
    pub(super) caller: TenantCaller,
    pub(super) trace: TraceContext,
    pub(super) slot: RequestSlot,
    /// Metadata `idempotency-key`, if present.
    pub(super) idempotency_key: Option<String>,
}

/// Name of the caller, once authenticated: for the log.
#[derive(Debug, Clone, Default)]
pub(super) struct GrpcCallerName(Arc<OnceLock<String>>);

impl GrpcCallerName {
    pub(super) fn name(&self) -> &str {
        self.0.get().map_or("", String::as_str)
    }
}

/// The call as the layers have left it; [`super::methods`] lists the permission of each method.
pub(super) fn begin_call<T>(request: &Request<T>) -> Result<GrpcCall, Status> {
    read_call(request).map_err(status_of_refusal)
}

fn read_call<T>(request: &Request<T>) -> Result<GrpcCall, RequestRefusal> {
    let headers = request.metadata().as_ref();
    let caller: TenantCaller = extension_of(request.extensions())?;
    if let (Some(who), Some(actor)) = (request.extensions().get::<GrpcCallerName>(), &caller.actor) {
        let _ = who.0.set(actor.clone());
    }
    Ok(GrpcCall {
        caller,
        trace: extension_of(request.extensions())?,
        slot: extension_of(request.extensions())?,
        idempotency_key: idempotency_key::idempotency_header(headers)?,
    })
}

fn extension_of<T: Clone + Send + Sync + 'static>(extensions: &Extensions) -> Result<T, RequestRefusal> {
    let missing =
        || RequestRefusal::new(RefusalKind::Internal, "the call did not pass the middleware layers");
    extensions.get::<T>().cloned().ok_or_else(missing)
}
