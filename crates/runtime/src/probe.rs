//! `/healthz`, `/readyz` and `/metrics` of a worker process, for probes and scrapers.
//!
//! Metrics count all tenants. Beyond loopback they need a key with the role operator once a key exists; where none is
//! needed, a request that names another host is refused, so that no web page reads them.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::get;
use millstream_core::permission::Permission;
use millstream_store::Stores;
use millstream_store::clock::Clock;
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::roles::Shared;
use crate::telemetry::MetricsText;

/// Serve until aborted; without an address, do nothing.
pub async fn start(
    address: Option<SocketAddr>,
    shared: &Shared,
    metrics: MetricsText,
    shutdown: CancellationToken,
) -> Result<JoinHandle<()>> {
    let Some(address) = address else { return Ok(tokio::spawn(async {})) };
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    let router = router(listener.local_addr()?, shared, metrics, shutdown);
    Ok(tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(%error, "the worker's probe stopped");
        }
    }))
}

fn router(address: SocketAddr, shared: &Shared, metrics: MetricsText, shutdown: CancellationToken) -> Router {
    let (stores, shared) = (shared.stores.clone(), shared.clone());
    let scrape = move |headers: HeaderMap| {
        let (shared, metrics) = (shared.clone(), metrics.clone());
        async move {
            match refused(address, &shared, &headers).await {
                Some((status, reason)) => (status, format!("{reason}\n")),
                None => (StatusCode::OK, metrics()),
            }
        }
    };
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(move || ready(stores.clone(), shutdown.clone())))
        .route("/metrics", get(scrape))
}

/// Why the metrics are not shown; when the store does not answer beyond loopback, they are not.
async fn refused(
    address: SocketAddr,
    shared: &Shared,
    headers: &HeaderMap,
) -> Option<(StatusCode, &'static str)> {
    let needs_key = match shared.stores.keys.keys_exist().await {
        _ if address.ip().is_loopback() => false,
        Ok(exist) => exist,
        Err(_) => return Some((StatusCode::SERVICE_UNAVAILABLE, "the store does not answer")),
    };
    if !needs_key {
        let hosts = headers.get_all(header::HOST).iter().map(|value| value.to_str().unwrap_or(""));
        let foreign = hosts.into_iter().any(|host| !is_ours(host, address));
        return foreign.then_some((StatusCode::FORBIDDEN, "this host is not served without a key"));
    }
    let secret = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some(secret) = secret.and_then(|value| value.strip_prefix("Bearer ")) else {
        return Some((
            StatusCode::UNAUTHORIZED,
            "send a key with the role operator: Authorization: Bearer ms_...",
        ));
    };
    match shared.stores.keys.find_key(&Sha256::digest(secret.trim().as_bytes()).into()).await {
        Ok(Some(key)) if key.is_live(shared.clock.now()) && key.role.permits(Permission::SeeFleet) => None,
        Ok(Some(key)) if key.is_live(shared.clock.now()) => {
            Some((StatusCode::FORBIDDEN, "metrics of all tenants need a key with the role operator"))
        }
        Ok(Some(_) | None) => Some((StatusCode::UNAUTHORIZED, "the API key is unknown, revoked or expired")),
        Err(_) => Some((StatusCode::SERVICE_UNAVAILABLE, "the store does not answer")),
    }
}

/// A name of this machine or of the address that the probe listens on.
fn is_ours(host: &str, address: SocketAddr) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        Some(_) | None => host,
    };
    ["localhost", "127.0.0.1", "[::1]"].iter().any(|known| name.eq_ignore_ascii_case(known))
        || host == address.to_string()
        || name == address.ip().to_string()
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

#[cfg(test)]
mod tests {
    use millstream_core::id::TenantId;
    use millstream_core::status::Role;
    use millstream_store::key_secret::KeySecret;
    use millstream_store::key_store::NewKey;
    use millstream_stream::Streams;
    use millstream_stream::embedded::EmbeddedStream;

    use super::*;
    use crate::backend::Database;
    use crate::entropy::SystemEntropy;

    const LOOPBACK: &str = "127.0.0.1:9100";
    const BEYOND: &str = "10.1.2.3:9100";

    async fn refusal(shared: &Shared, address: &str, host: &str, key: Option<&KeySecret>) -> Option<u16> {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(key) = key {
            headers.insert(header::AUTHORIZATION, format!("Bearer {}", key.expose()).parse().unwrap());
        }
        refused(address.parse().unwrap(), shared, &headers).await.map(|(status, _)| status.as_u16())
    }

    async fn create_key(shared: &Shared, role: Role) -> KeySecret {
        let secret = KeySecret::draw();
        let key = NewKey::of(TenantId::default_tenant(), role.to_string(), role, secret.hash());
        assert!(shared.stores.keys.create_key(&key, shared.clock.now()).await.unwrap());
        secret
    }

    #[tokio::test]
    async fn metrics_of_a_worker_need_its_own_host_or_the_key_of_an_operator() {
        let dir = tempfile::tempdir().unwrap();
        let database = Database::open_sqlite(&dir.path().join("millstream.db")).await.unwrap();
        database.migrate().await.unwrap();
        let streams = Streams::of(EmbeddedStream::new(&SystemEntropy::seeded()));
        let shared = Shared::new(database.stores(), streams).await;
        for address in [LOOPBACK, BEYOND] {
            assert_eq!(refusal(&shared, address, "evil.example", None).await, Some(403), "{address}");
            assert_eq!(refusal(&shared, address, address, None).await, None, "{address}");
        }
        let (operator, read) =
            (create_key(&shared, Role::Operator).await, create_key(&shared, Role::Read).await);
        assert_eq!(refusal(&shared, BEYOND, BEYOND, None).await, Some(401));
        assert_eq!(refusal(&shared, BEYOND, BEYOND, Some(&KeySecret::draw())).await, Some(401));
        assert_eq!(refusal(&shared, BEYOND, BEYOND, Some(&read)).await, Some(403));
        assert_eq!(refusal(&shared, BEYOND, "mill.example", Some(&operator)).await, None);
        assert_eq!(refusal(&shared, LOOPBACK, LOOPBACK, None).await, None, "scrapers of the machine itself");
        assert_eq!(refusal(&shared, LOOPBACK, "evil.example", None).await, Some(403));
    }
}
