//! `/healthz`, `/readyz` and `/metrics` of a worker process, for probes and scrapers.
//!
//! Limits as at the ingress: connections are bounded in number and time, metrics are rendered off the async
//! runtime and once for all concurrent requests, and keys are looked up in the store every few seconds at
//! most.
//!
//! Metrics count all tenants. Beyond loopback they need a key with the role operator once a key exists.
//! Without keys, a request with a foreign `Host` is refused, so that no web page can read them. On loopback
//! the store is not queried, so that metrics stay available while it hangs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use millstream_ingress::metrics_page::MetricsPage;
use millstream_ingress::{FleetKeys, IngressLimits, run_router};
use millstream_model::permission::Permission;
use millstream_store::Stores;
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::roles::RoleDependencies;
use crate::telemetry::MetricsText;

/// Connection limits of the probe: probes and scrapers are few.
fn probe_limits() -> IngressLimits {
    IngressLimits {
        connections: 256,
        connections_per_address: 64,
        connections_reserved: 16,
        streams_per_connection: 16,
        ..IngressLimits::default()
    }
}

/// Cache lifetime of the store's health.
const FRESH: Duration = Duration::from_secs(1);
/// Timeout of the health query to the store.
const PATIENCE: Duration = Duration::from_secs(2);

/// A running probe server.
#[derive(Debug)]
pub struct WorkerProbe {
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

impl WorkerProbe {
    /// Completes the requests in progress and stops.
    pub async fn stop_serving(self) {
        self.stop.cancel();
        if let Err(error) = self.serving.await {
            tracing::error!(%error, "the worker's probe stopped");
        }
    }
}

/// Serves until it is ended; without an address it serves nothing. `/readyz` fails from `shutdown` on.
pub async fn start_probe(
    address: Option<SocketAddr>,
    shared: &RoleDependencies,
    metrics: MetricsText,
    shutdown: CancellationToken,
) -> Result<WorkerProbe> {
    let Some(address) = address else {
        return Ok(WorkerProbe { stop: CancellationToken::new(), serving: tokio::spawn(async {}) });
    };
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    let state = ProbeState::of(listener.local_addr()?, shared, metrics, shutdown);
    Ok(serve_on(listener, state))
}

fn serve_on(listener: TcpListener, state: Arc<ProbeState>) -> WorkerProbe {
    let stop = CancellationToken::new();
    let serving = tokio::spawn(run_router(probe_router(state), probe_limits(), listener, stop.clone()));
    WorkerProbe { stop, serving }
}

/// State of the handlers.
struct ProbeState {
    address: SocketAddr,
    stores: Stores,
    keys: FleetKeys,
    page: MetricsPage,
    shutdown: CancellationToken,
    /// Locked during the health query; concurrent requests share its result.
    health: Mutex<Option<(Result<(), String>, Instant)>>,
}

impl ProbeState {
    fn of(
        address: SocketAddr,
        shared: &RoleDependencies,
        metrics: MetricsText,
        shutdown: CancellationToken,
    ) -> Arc<Self> {
        Arc::new(Self {
            address,
            stores: shared.stores.clone(),
            keys: FleetKeys::of(shared.stores.keys.clone(), shared.clock.clone()),
            page: MetricsPage::of(metrics),
            shutdown,
            health: Mutex::default(),
        })
    }
}

fn probe_router(state: Arc<ProbeState>) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(serve_readiness))
        .route("/metrics", get(serve_metrics))
        .with_state(state)
}

async fn serve_metrics(State(probe): State<Arc<ProbeState>>, headers: HeaderMap) -> Response {
    match metrics_refusal(&probe, &headers).await {
        Some((status, reason)) => (status, format!("{reason}\n")).into_response(),
        None => {
            let text = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
            (text, probe.page.render_shared().await).into_response()
        }
    }
}

/// The reason to refuse the metrics. Beyond loopback, a store that does not answer is a reason.
async fn metrics_refusal(probe: &ProbeState, headers: &HeaderMap) -> Option<(StatusCode, String)> {
    let needs_key = match probe.address.ip().is_loopback() {
        true => Ok(false),
        false => probe.keys.keys_exist().await,
    };
    match needs_key {
        Ok(true) => probe.keys.require_permission(headers, Permission::SeeFleet).await.err(),
        Ok(false) => {
            let mut hosts =
                headers.get_all(header::HOST).iter().map(|value| value.to_str().unwrap_or_default());
            let foreign = hosts.any(|host| !is_ours(host, probe.address));
            foreign.then(|| (StatusCode::FORBIDDEN, "this host is not served without a key".to_owned()))
        }
        Err(_) => Some((StatusCode::SERVICE_UNAVAILABLE, "the store does not answer".to_owned())),
    }
}

/// Whether the host names this machine or the address that the probe listens on.
fn is_ours(host: &str, address: SocketAddr) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        Some(_) | None => host,
    };
    ["localhost", "127.0.0.1", "[::1]"].iter().any(|known| name.eq_ignore_ascii_case(known))
        || host == address.to_string()
        || name == address.ip().to_string()
}

async fn serve_readiness(State(probe): State<Arc<ProbeState>>) -> (StatusCode, String) {
    if probe.shutdown.is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, "draining\n".to_owned());
    }
    match store_health(&probe).await {
        Ok(()) => (StatusCode::OK, "ready\n".to_owned()),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
    }
}

/// One query at a time.
async fn store_health(probe: &ProbeState) -> Result<(), String> {
    let mut last = probe.health.lock().await;
    if let Some((health, at)) = &*last
        && at.elapsed() < FRESH
    {
        return health.clone();
    }
    let health = match tokio::time::timeout(PATIENCE, probe.stores.housekeeping.ping()).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the store does not answer".to_owned()),
    };
    *last = Some((health.clone(), Instant::now()));
    health
}

#[cfg(test)]
#[path = "probe/tests.rs"]
mod tests;
