//! Sockets: accept connections, serve them, and drain.
//!
//! Each port, with TLS or without it, speaks HTTP/1.1 and HTTP/2; the first bytes of a connection decide.
//! Served by hyper directly and not by `axum::serve`, because only hyper allows a timeout for slow request
//! heads and a deadline for the drain. Every connection is accepted; `connections` decides about evictions.
//!
//! Drain: readiness turns red, waits and tails end; after `drain_delay` no new connection is accepted;
//! requests in flight finish, at most until `drain_deadline`; then the queue is committed, the last
//! doorbells are rung, and `run_ingress` returns.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use millstream_store::StoreError;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connection::{ConnectionServer, ShutdownSignals};
use crate::options::{AuthMode, IngressLimits, IngressOptions};
use crate::router::open_router;
use crate::stall_timeout::StallTimeoutStream;
use crate::state::{IngressDeps, IngressLifecycle};
use crate::tls::CurrentTls;
use crate::transport::{ConnectionStream, IngressListeners, TlsListener};

/// Why the ingress does not start.
#[derive(Debug, thiserror::Error)]
pub enum IngressError {
    #[error("the listening socket is unusable: {0}")]
    Listener(#[from] std::io::Error),
    #[error("{0} is not a loopback address and calls would need no key; create a key first")]
    OpenBeyondLoopback(SocketAddr),
    #[error("{0} is not a loopback address and no key exists; create one with `millstream keys create`")]
    NoKeys(SocketAddr),
}

/// Serves until `shutdown` is cancelled and the drain is over.
pub async fn run_ingress(
    deps: IngressDeps,
    options: IngressOptions,
    listeners: impl Into<IngressListeners>,
    shutdown: CancellationToken,
) -> Result<(), IngressError> {
    let listeners = listeners.into();
    let addresses = listeners.addresses()?;
    for address in &addresses {
        refuse_to_be_open(&deps, options.auth, *address).await?;
        warn_of_no_auth(&deps, options.auth, *address).await;
    }

    let life = IngressLifecycle::until_drained(shutdown.clone());
    let (limits, delay, deadline) = (options.limits.clone(), options.drain_delay, options.drain_deadline);
    let router = open_router(deps, options, &addresses, &life);
    let connections = TaskTracker::new();
    let goodbye = ShutdownSignals { leaving: CancellationToken::new(), cut: CancellationToken::new() };
    let server = ConnectionServer::new(router, limits, &goodbye, &connections);
    if let Some(listener) = listeners.plain {
        connections.spawn(accept_connections(listener, None, server.clone()));
    }
    if let Some(TlsListener { listener, tls }) = listeners.tls {
        connections.spawn(accept_connections(listener, Some(tls.current_config()), server.clone()));
        connections.spawn(tls.follow_files(goodbye.leaving.clone()));
    }
    drop(server);
    tracing::info!(?addresses, "the ingress is listening");

    shutdown.cancelled().await;
    tracing::info!(?addresses, "the ingress is draining");
    tokio::time::sleep(delay).await;
    goodbye.leaving.cancel();
    connections.close();
    if tokio::time::timeout(deadline, connections.wait()).await.is_err() {
        tracing::warn!(
            open = connections.len(),
            "the drain deadline has passed; cutting off requests in flight"
        );
        goodbye.cut.cancel();
        connections.wait().await;
    }
    life.end_tasks().await;
    Ok(())
}

/// Serves a router of another role with the same connection limits, until `shutdown` is cancelled. Requests
/// in flight get two seconds to finish.
pub async fn run_router(
    router: Router,
    limits: IngressLimits,
    listener: TcpListener,
    shutdown: CancellationToken,
) {
    let connections = TaskTracker::new();
    let goodbye = ShutdownSignals { leaving: shutdown, cut: CancellationToken::new() };
    let server = ConnectionServer::new(router, limits, &goodbye, &connections);
    accept_connections(listener, None, server).await;
    connections.close();
    if tokio::time::timeout(LEAVE, connections.wait()).await.is_err() {
        goodbye.cut.cancel();
        connections.wait().await;
    }
}

/// Drain deadline of another role's requests.
const LEAVE: Duration = Duration::from_secs(2);

/// Refuses to listen beyond loopback without keys, unless `--insecure-no-auth` is set.
async fn refuse_to_be_open(
    deps: &IngressDeps,
    auth: AuthMode,
    address: SocketAddr,
) -> Result<(), IngressError> {
    if address.ip().is_loopback() {
        return Ok(());
    }
    match auth {
        AuthMode::InsecureNoAuth => Ok(()),
        AuthMode::OpenOnLoopback => Err(IngressError::OpenBeyondLoopback(address)),
        AuthMode::Keys => match deps.stores.keys.keys_exist().await {
            Ok(false) => Err(IngressError::NoKeys(address)),
            // While the store is unavailable every call fails closed, so the ingress may start before the
            // store.
            Ok(true)
            | Err(StoreError::Unavailable(_) | StoreError::Contention(_) | StoreError::Corrupt(_)) => Ok(()),
        },
    }
}

/// Warns on every start, so that a flag set for a trial is not forgotten.
async fn warn_of_no_auth(deps: &IngressDeps, auth: AuthMode, address: SocketAddr) {
    match auth {
        AuthMode::Keys | AuthMode::OpenOnLoopback => return,
        AuthMode::InsecureNoAuth => {}
    }
    if matches!(deps.stores.keys.keys_exist().await, Ok(true)) {
        tracing::warn!(%address, "--insecure-no-auth has no effect: API keys exist, and every call needs one");
    } else {
        tracing::warn!(
            %address,
            "--insecure-no-auth: every call without an API key is admin of the tenant default until the first key is created"
        );
    }
}

async fn accept_connections(listener: TcpListener, tls: Option<CurrentTls>, server: ConnectionServer) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = server.goodbye.leaving.cancelled() => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                // Answers are small and complete: Nagle's algorithm would only delay them.
                let _ = stream.set_nodelay(true);
                let place = server.registry.admit_connection(peer.ip());
                let stream = StallTimeoutStream::new(stream, server.limits.stall_timeout);
                let tls = tls.clone();
                let opening = async move { ConnectionStream::establish_stream(stream, tls.as_ref()).await };
                server.tasks.spawn(server.clone().serve_connection(opening, place));
            }
            Err(error) => {
                // Neither a lack of descriptors nor a client that has gone ends the loop. The former needs
                // a pause and fewer connections.
                tracing::warn!(%error, "accepting a connection failed");
                server.registry.shed_idle();
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}
