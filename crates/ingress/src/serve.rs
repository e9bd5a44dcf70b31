//! Sockets: accept connections, serve them, and leave in good order.
//!
//! Each port, with TLS or without it, speaks HTTP/1.1 and HTTP/2; a connection's first bytes say which. Served by hyper
//! itself and not by `axum::serve`, because only there can a slow client be timed out while it sends its head
//! and a drain have a deadline. Every connection is accepted; which one gives way for it is up to `connections`.
//!
//! Drain: readiness turns red and waits and tails end; after `drain_delay` no connection is accepted
//! any more; requests in flight finish, at most until `drain_deadline`; then the queue is committed,
//! the last bells are rung, and `run` returns.

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

/// Why the door does not open.
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
        tracing::warn!(open = connections.len(), "requests in flight are cut off at the deadline");
        goodbye.cut.cancel();
        connections.wait().await;
    }
    life.end().await;
    Ok(())
}

/// Serves a router of another role with the same bounds on connections, until `shutdown` is cancelled. Requests in
/// flight have two seconds to finish.
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

/// How long requests of another role may take to finish.
const LEAVE: Duration = Duration::from_secs(2);

/// Nobody comes in without a key from beyond this machine unless that was said out loud.
async fn refuse_to_be_open(deps: &Deps, auth: AuthMode, address: SocketAddr) -> Result<(), IngressError> {
    if address.ip().is_loopback() {
        return Ok(());
    }
    match auth {
        AuthMode::InsecureNoAuth => Ok(()),
        AuthMode::OpenOnLoopback => Err(IngressError::OpenBeyondLoopback(address)),
        AuthMode::Keys => match deps.stores.keys.keys_exist().await {
            Ok(false) => Err(IngressError::NoKeys(address)),
            // With a store that is down every call fails closed; the door may come up before it.
            Ok(true)
            | Err(StoreError::Unavailable(_) | StoreError::Contention(_) | StoreError::Corrupt(_)) => Ok(()),
        },
    }
}

/// On every start, so that a flag that was set for a trial is not forgotten.
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
                // Answers are small and complete: waiting for more to send only costs time.
                let _ = stream.set_nodelay(true);
                let place = server.registry.admit(peer.ip());
                let stream = Unstalled::new(stream, server.limits.stall_timeout);
                let tls = tls.clone();
                let opening = async move { Transport::establish(stream, tls.as_ref()).await };
                server.tasks.spawn(server.clone().serve(opening, place));
            }
            Err(error) => {
                // Out of descriptors, or the client has gone: neither ends the loop. The first needs a moment
                // to pass, and connections to close.
                tracing::warn!(%error, "a connection could not be accepted");
                server.registry.shed();
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}
