//! Sockets: accept connections, serve them, and leave in good order.
//!
//! Each port, with TLS or without it, speaks HTTP/1.1 and HTTP/2; a connection's first bytes say which. Served by hyper
//! itself and not by `axum::serve`, because only there can a slow client be timed out while it sends its head
//! and a drain have a deadline. An HTTP/2 connection that is idle is asked now and then whether it is there.
//!
//! Drain: readiness turns red and waits and tails end; after `drain_delay` no connection is accepted
//! any more; requests in flight finish, at most until `drain_deadline`; then the queue is committed,
//! the last bells are rung, and `run` returns.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::rt::Executor;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use hyper_util::service::TowerToHyperService;
use millstream_store::StoreError;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::door::{Deps, Door, Life};
use crate::http::serve_routes;
use crate::options::{AuthMode, IngressOptions, Limits};
use crate::preface::{self, Version};
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
    }

    let life = Life::until(shutdown.clone());
    let (limits, delay, deadline) = (options.limits.clone(), options.drain_delay, options.drain_deadline);
    let router = serve_routes(Door::open(deps, options, &addresses, &life));
    let connections = TaskTracker::new();
    let goodbye = Goodbye { leaving: CancellationToken::new(), cut: CancellationToken::new() };
    let room = Arc::new(Semaphore::new(limits.connections.clamp(1, Semaphore::MAX_PERMITS)));
    let serving =
        Serving { router, limits, room, goodbye: goodbye.clone(), connections: connections.clone() };
    if let Some(listener) = listeners.plain {
        connections.spawn(accept(listener, None, serving.clone()));
    }
    if let Some(TlsListener { listener, tls }) = listeners.tls {
        connections.spawn(accept(listener, Some(tls.current()), serving.clone()));
        connections.spawn(tls.follow_files(goodbye.leaving.clone()));
    }
    drop(serving);
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

/// How connections are told to end.
#[derive(Debug, Clone)]
struct Goodbye {
    /// Finish the request in flight, take no other.
    leaving: CancellationToken,
    /// Now.
    cut: CancellationToken,
}

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

/// What the connections of all listeners share.
#[derive(Clone)]
struct Serving {
    router: Router,
    limits: Limits,
    room: Arc<Semaphore>,
    goodbye: Goodbye,
    connections: TaskTracker,
}

async fn accept(listener: TcpListener, tls: Option<CurrentTls>, serving: Serving) {
    let Serving { router, limits, room, goodbye, connections } = serving;
    loop {
        let arrival = async {
            // Room first: connections beyond the bound wait in the listen queue.
            let place = room.clone().acquire_owned().await.ok()?;
            Some((listener.accept().await, place))
        };
        let arrived = tokio::select! {
            arrived = arrival => arrived,
            () = goodbye.leaving.cancelled() => return,
        };
        match arrived {
            None => return,
            Some((Ok((stream, _)), place)) => {
                let streams = Streams { tasks: connections.clone(), cut: goodbye.cut.clone() };
                let arrival = Arrival { stream, tls: tls.clone(), _place: place };
                let serving = connection(arrival, router.clone(), limits.clone(), goodbye.clone(), streams);
                connections.spawn(serving);
            }
            Some((Err(error), _)) => {
                // Out of descriptors, or the client has gone: neither ends the loop, and the first
                // needs a moment to pass.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Requests of HTTP/2 connections: each is a task of its own, and ends with the others.
#[derive(Debug, Clone)]
struct Streams {
    tasks: TaskTracker,
    cut: CancellationToken,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        let cut = self.cut.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = stream => {}
                () = cut.cancelled() => {}
            }
        });
    }
}

/// Requests at once on one HTTP/2 connection.
const STREAMS: u32 = 256;
/// What is beyond our own limit is refused by us, with a reason.
const HEAD_BYTES: u32 = 64 * 1024;

/// A connection that was accepted and has said nothing yet.
struct Arrival {
    stream: TcpStream,
    tls: Option<CurrentTls>,
    _place: OwnedSemaphorePermit,
}

async fn connection(arrival: Arrival, router: Router, limits: Limits, goodbye: Goodbye, streams: Streams) {
    // Answers are small and complete: waiting for more to send only costs time.
    let Arrival { stream, tls, _place } = arrival;
    let _ = stream.set_nodelay(true);
    let stream = Unstalled::new(stream, limits.stall_timeout);
    // A TLS handshake counts as the beginning of the request head.
    let opening = async { preface::told(Transport::establish(stream, tls.as_ref()).await?).await };
    let told = tokio::select! {
        told = tokio::time::timeout(limits.head_timeout, opening) => told,
        () = goodbye.leaving.cancelled() => return,
    };
    let Ok(Ok((version, stream))) = told else { return };
    let (stream, service) = (TokioIo::new(stream), TowerToHyperService::new(router));
    match version {
        Version::Http1 => {
            let mut builder = http1::Builder::new();
            builder
                .timer(TokioTimer::new())
                .header_read_timeout(limits.head_timeout)
                .max_buf_size(64 * 1024)
                .max_headers(100)
                .keep_alive(true);
            until_goodbye(builder.serve_connection(stream, service), goodbye).await;
        }
        Version::Http2 => {
            let mut builder = http2::Builder::new(streams);
            builder
                .timer(TokioTimer::new())
                .keep_alive_interval(limits.head_timeout)
                .keep_alive_timeout(limits.stall_timeout)
                .max_header_list_size(HEAD_BYTES)
                .max_concurrent_streams(STREAMS);
            until_goodbye(builder.serve_connection(stream, service), goodbye).await;
        }
    }
}

async fn until_goodbye<C>(serving: C, goodbye: Goodbye)
where
    C: GracefulConnection,
    C::Error: std::fmt::Display,
{
    tokio::pin!(serving);
    let mut told = false;
    loop {
        tokio::select! {
            ended = &mut serving => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended badly");
                }
                return;
            }
            () = goodbye.cut.cancelled() => return,
            () = goodbye.leaving.cancelled(), if !told => {
                serving.as_mut().graceful_shutdown();
                told = true;
            }
        }
    }
}
