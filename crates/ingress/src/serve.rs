//! Sockets: accept connections, serve them, and drain.
//!
//! Each port, with TLS or without it, speaks HTTP/1.1 and HTTP/2; the first bytes of a connection decide.
//! Served by hyper directly and not by `axum::serve`, because only hyper allows a timeout for slow request
//! heads and a deadline for the drain. Every connection is accepted; `connections` decides about evictions.
//!
//! Drain: readiness turns red, waits and tails end; after `drain_delay` no new connection is accepted;
//! requests in flight finish, at most until `drain_deadline`; then the queue is committed, the last
//! doorbells are rung, and `run` returns.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use millstream_store::StoreError;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connection::{ConnectionServer, Goodbye};
use crate::door::{Deps, Door, Life};
use crate::http::serve_routes;
use crate::options::{AuthMode, IngressOptions, Limits};
use crate::stall::Unstalled;
use crate::tls::CurrentTls;
use crate::transport::{IngressListeners, TlsListener, Transport};

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
pub async fn run(
    deps: Deps,
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

    let life = Life::until(shutdown.clone());
    let (limits, delay, deadline) = (options.limits.clone(), options.drain_delay, options.drain_deadline);
    let router = serve_routes(Door::open(deps, options, &addresses, &life));
    let connections = TaskTracker::new();
    let goodbye = Goodbye { leaving: CancellationToken::new(), cut: CancellationToken::new() };
    let server = ConnectionServer::new(router, limits, &goodbye, &connections);
    if let Some(listener) = listeners.plain {
        connections.spawn(accept(listener, None, server.clone()));
    }
    if let Some(TlsListener { listener, tls }) = listeners.tls {
        connections.spawn(accept(listener, Some(tls.current()), server.clone()));
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
    life.end().await;
    Ok(())
}

/// Serves a router of another role with the same connection limits, until `shutdown` is cancelled. Requests
/// in flight get two seconds to finish.
pub async fn run_router(router: Router, limits: Limits, listener: TcpListener, shutdown: CancellationToken) {
    let connections = TaskTracker::new();
    let goodbye = Goodbye { leaving: shutdown, cut: CancellationToken::new() };
    let server = ConnectionServer::new(router, limits, &goodbye, &connections);
    accept(listener, None, server).await;
    connections.close();
    if tokio::time::timeout(LEAVE, connections.wait()).await.is_err() {
        goodbye.cut.cancel();
        connections.wait().await;
    }
}

/// Drain deadline of another role's requests.
const LEAVE: Duration = Duration::from_secs(2);

/// Refuses to listen beyond loopback without keys, unless `--insecure-no-auth` is set.
async fn refuse_to_be_open(deps: &Deps, auth: AuthMode, address: SocketAddr) -> Result<(), IngressError> {
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
async fn warn_of_no_auth(deps: &Deps, auth: AuthMode, address: SocketAddr) {
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

async fn accept(listener: TcpListener, tls: Option<CurrentTls>, server: ConnectionServer) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = server.goodbye.leaving.cancelled() => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                // Answers are small and complete: Nagle's algorithm would only delay them.
                let _ = stream.set_nodelay(true);
                let place = server.registry.admit(peer.ip());
                let stream = Unstalled::new(stream, server.limits.stall_timeout);
                let tls = tls.clone();
                let opening = async move { Transport::establish(stream, tls.as_ref()).await };
                server.tasks.spawn(server.clone().serve(opening, place));
            }
            Err(error) => {
                // Neither a lack of descriptors nor a client that has gone ends the loop. The former needs
                // a pause and fewer connections.
                tracing::warn!(%error, "accepting a connection failed");
                server.registry.shed();
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}
