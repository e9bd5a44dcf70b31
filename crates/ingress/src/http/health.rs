//! Health, readiness, metrics and the OpenAPI document: exempt from the limit on requests in flight.
//!
//! `/healthz` reports that the process runs. `/readyz` reports whether it can do its job: the store takes
//! writes and no shutdown has begun. An unavailable stream is reported and does not make the process unready,
//! because accepting does not need it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use millstream_model::permission::Permission;
use serde::Serialize;
use tokio::sync::Mutex;

use super::problem::{ApiProblem, ProblemKind};
use super::route::Route;
use crate::auth::CallerIdentity;
use crate::gate::AnonymousBudget;
use crate::state::IngressState;
use crate::write_evidence::WriteOutcome;
use crate::{metrics, process_metrics};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/healthz", "healthz", healthz).summary("The process runs").answer(
            200,
            "Health",
            "The process runs",
        ),
        Route::get("/readyz", "readyz", readyz)
            .summary("The store takes writes and no shutdown has begun")
            .answer(200, "Readiness", "Ready")
            .problems(&[503]),
        Route::get("/metrics", "metrics", get_metrics)
            .summary("Prometheus text")
            .needs(Permission::SeeStatus)
            .answer_in(200, "text/plain", "Text", "Metrics"),
        Route::get("/openapi.json", "openapi", get_openapi).summary("This document").answer(
            200,
            "OpenApi",
            "OpenAPI 3.1",
        ),
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

#[derive(Debug, Serialize)]
struct HealthOut {
    status: &'static str,
    version: &'static str,
}

async fn healthz() -> Json<HealthOut> {
    Json(HealthOut { status: "ok", version: env!("CARGO_PKG_VERSION") })
}

/// The cached result of the last readiness check.
#[derive(Debug, Default)]
pub(crate) struct ReadinessCache(Mutex<Option<(ReadinessCheck, Instant)>>);

#[derive(Debug, Clone, Copy)]
struct ReadinessCheck {
    store: DependencyState,
    stream: DependencyState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum DependencyState {
    Up,
    Down,
}

/// How long a check's result is reused.
const FRESH: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug, Serialize)]
struct ReadinessOut {
    status: &'static str,
    store: DependencyState,
    stream: DependencyState,
}

async fn readyz(State(door): State<Arc<IngressState>>) -> Result<Json<ReadinessOut>, ApiProblem> {
    let ReadinessCheck { store, stream } = check_readiness(&door).await?;
    Ok(Json(ReadinessOut { status: "ready", store, stream }))
}

/// Whether the process can do its job.
pub(crate) async fn is_ready(door: &IngressState) -> Result<(), ApiProblem> {
    check_readiness(door).await.map(|_| ())
}

async fn check_readiness(door: &IngressState) -> Result<ReadinessCheck, ApiProblem> {
    if door.draining.is_cancelled() {
        return Err(ApiProblem::new(ProblemKind::Draining, "this process is shutting down"));
    }
    if door.accept.writes.current() == Some(WriteOutcome::Failed) {
        return Err(ApiProblem::new(ProblemKind::StoreUnavailable, "the store does not take writes"));
    }
    let found = check_dependencies(door).await;
    match found.store {
        DependencyState::Up => Ok(found),
        DependencyState::Down => {
            Err(ApiProblem::new(ProblemKind::StoreUnavailable, "the store does not answer"))
        }
    }
}

/// Coalesces concurrent checks: one runs at a time, and the callers that wait share its result.
async fn check_dependencies(door: &IngressState) -> ReadinessCheck {
    let mut last = door.readiness.0.lock().await;
    if let Some((found, at)) = *last
        && at.elapsed() < FRESH
    {
        return found;
    }
    let (store, stream) =
        tokio::join!(takes_writes(door), tokio::time::timeout(PATIENCE, door.streams.care.check_server()));
    let reach = |answered: bool| if answered { DependencyState::Up } else { DependencyState::Down };
    let found = ReadinessCheck { store: reach(store), stream: reach(matches!(stream, Ok(Ok(_)))) };
    *last = Some((found, Instant::now()));
    found
}

/// A recently committed event proves that the store takes writes; otherwise the store is pinged with a write.
async fn takes_writes(door: &IngressState) -> bool {
    match door.accept.writes.current() {
        Some(WriteOutcome::Committed) => true,
        Some(WriteOutcome::Failed) => false,
        None => matches!(tokio::time::timeout(PATIENCE, door.stores.housekeeping.ping()).await, Ok(Ok(_))),
    }
}

/// All metrics for operators; for a tenant's key, only those that reveal nothing about other tenants.
async fn get_metrics(State(door): State<Arc<IngressState>>, identity: CallerIdentity) -> Response {
    let text = if identity.permits(Permission::SeeFleet) {
        metrics::render_scrape(&door).await
    } else {
        Bytes::from(process_metrics::render_for_tenant())
    };
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

async fn get_openapi(State(door): State<Arc<IngressState>>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], door.document.clone()).into_response()
}
