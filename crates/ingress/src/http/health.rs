//! Health, readiness, metrics and the OpenAPI document: exempt from the limit on requests in flight.
//!
//! `/healthz` reports that the process runs. `/readyz` reports whether it can do its job: the store takes
//! writes and no shutdown has begun. An unavailable stream is reported and does not make the process unready,
//! because accepting does not need it.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use millstream_api::scalar;
use millstream_api::status::{DependencyStatus, Health, Readiness};
use millstream_model::permission::Permission;

use super::metrics_scrape;
use super::route::Route;
use crate::auth::CallerIdentity;
use crate::gate::AnonymousBudget;
use crate::process_metrics;
use crate::readiness::{DependencyState, ReadinessCheck};
use crate::refusal::RequestRefusal;
use crate::state::IngressState;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/healthz", "healthz", healthz)
            .summary("The process runs")
            .returns::<Health>(200, "The process runs"),
        Route::get("/readyz", "readyz", readyz)
            .summary("The store takes writes and no shutdown has begun")
            .returns::<Readiness>(200, "Ready")
            .problems(&[503]),
        Route::get("/metrics", "metrics", get_metrics)
            .summary("Prometheus text")
            .needs(Permission::SeeStatus)
            .returns_in::<scalar::Text>(200, "text/plain", "Metrics"),
        Route::get("/openapi.json", "openapi", get_openapi)
            .summary("This document")
            .returns::<scalar::OpenApi>(200, "OpenAPI 3.1"),
    ]
}

/// The rate-limit budget of a path that is served without a key.
pub(super) fn anonymous_budget(path: &str) -> Option<AnonymousBudget> {
    match path {
        "/healthz" | "/readyz" => Some(AnonymousBudget::Probe),
        "/openapi.json" => Some(AnonymousBudget::OpenApi),
        _ => None,
    }
}

async fn healthz() -> Json<Health> {
    Json(Health { status: "ok".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() })
}

async fn readyz(State(door): State<Arc<IngressState>>) -> Result<Json<Readiness>, RequestRefusal> {
    let ReadinessCheck { store, stream } = door.readiness.check_readiness().await?;
    Ok(Json(Readiness {
        status: "ready".to_owned(),
        store: dependency_status(store),
        stream: dependency_status(stream),
    }))
}

fn dependency_status(state: DependencyState) -> DependencyStatus {
    match state {
        DependencyState::Up => DependencyStatus::Up,
        DependencyState::Down => DependencyStatus::Down,
    }
}

/// All metrics for operators; for a tenant's key, only those that reveal nothing about other tenants.
async fn get_metrics(State(door): State<Arc<IngressState>>, identity: CallerIdentity) -> Response {
    let text = if identity.permits(Permission::SeeFleet) {
        metrics_scrape::render_scrape(&door).await
    } else {
        Bytes::from(process_metrics::render_for_tenant())
    };
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

async fn get_openapi(State(door): State<Arc<IngressState>>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], door.document.clone()).into_response()
}
