//! The router of the ingress: the HTTP routes, and beside them the gRPC services, which have layers of their
//! own.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;

use crate::options::IngressOptions;
use crate::state::{IngressDeps, IngressLifecycle, IngressState};
use crate::{grpc, http, openapi};

/// The router without a listener, for tests and for embedding. Its tasks run in `life`.
pub fn build_router(deps: IngressDeps, options: IngressOptions, life: &IngressLifecycle) -> Router {
    open_router(deps, options, &[], life)
}

/// The router of an ingress that listens at these addresses.
pub(crate) fn open_router(
    deps: IngressDeps,
    options: IngressOptions,
    listen: &[SocketAddr],
    life: &IngressLifecycle,
) -> Router {
    serve_routes(&IngressState::open_ingress(deps, options, listen, life, openapi::render_document))
}

fn serve_routes(door: &Arc<IngressState>) -> Router {
    http::http_routes(door, grpc::unknown_path).merge(grpc::grpc_routes(door))
}
