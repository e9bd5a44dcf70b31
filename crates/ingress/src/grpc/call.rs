//! Context of a call: the caller, and the extensions set by the layers.

use std::sync::{Arc, OnceLock};

use axum::http::Extensions;
use tonic::{Request, Status};

use super::status::status;
use crate::auth::Caller;
use crate::gate::Slot;
use crate::http::problem::{Kind, Problem};
use crate::trace::Trace;

#[derive(Debug)]
pub(super) struct Call {
    pub(super) caller: Caller,
    pub(super) trace: Trace,
    pub(super) slot: Slot,
    /// Metadata `idempotency-key`, if present.
    pub(super) idempotency_key: Option<String>,
}

/// Name of the caller, once authenticated: for the log.
#[derive(Debug, Clone, Default)]
pub(super) struct Who(Arc<OnceLock<String>>);

impl Who {
    pub(super) fn name(&self) -> &str {
        self.0.get().map_or("", String::as_str)
    }
}

/// The call as the layers have left it; [`super::methods`] lists the permission of each method.
pub(super) fn begin<T>(request: &Request<T>) -> Result<Call, Status> {
    begun(request).map_err(status)
}

fn begun<T>(request: &Request<T>) -> Result<Call, Problem> {
    let headers = request.metadata().as_ref();
    let caller: Caller = beside(request.extensions())?;
    if let (Some(who), Some(actor)) = (request.extensions().get::<Who>(), &caller.actor) {
        let _ = who.0.set(actor.clone());
    }
    Ok(Call {
        caller,
        trace: beside(request.extensions())?,
        slot: beside(request.extensions())?,
        idempotency_key: crate::http::posting::idempotency_header(headers)?,
    })
}

fn beside<T: Clone + Send + Sync + 'static>(extensions: &Extensions) -> Result<T, Problem> {
    let missing = || Problem::new(Kind::Internal, "the call did not pass the middleware layers");
    extensions.get::<T>().cloned().ok_or_else(missing)
}
