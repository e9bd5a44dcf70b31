//! `/healthz`, `/readyz` and `/metrics` of a worker process, for probes and scrapers.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use millstream_ingress::metrics_page::MetricsPage;
use millstream_store::Stores;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::telemetry::MetricsText;

/// Serve until aborted; without an address, do nothing.
pub async fn start(
    address: Option<SocketAddr>,
    stores: Stores,
    metrics: MetricsText,
    shutdown: CancellationToken,
) -> Result<JoinHandle<()>> {
    let Some(address) = address else { return Ok(tokio::spawn(async {})) };
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    let page = MetricsPage::of(metrics);
    let router = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(move || ready(stores.clone(), shutdown.clone())))
        .route("/metrics", get(move || async move { page.text().await }));
    Ok(tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(%error, "the worker's probe stopped");
        }
    }))
}

async fn ready(stores: Stores, shutdown: CancellationToken) -> (StatusCode, String) {
    if shutdown.is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, "draining\n".to_owned());
    }
    match tokio::time::timeout(Duration::from_secs(2), stores.housekeeping.ping()).await {
        Ok(Ok(_)) => (StatusCode::OK, "ready\n".to_owned()),
        Ok(Err(error)) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the store does not answer\n".to_owned()),
    }
}
