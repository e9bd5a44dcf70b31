//! One connection, from its first byte to its end: HTTP version, requests, and the reason for closing.
//!
//! Generic over the stream, so that plain sockets and sockets behind a handshake are served alike. A
//! connection ends when its client closes it, when it has been idle for `idle_timeout` (pings do not count
//! as activity), when it is evicted for another connection, when its client reads nothing of a complete
//! answer for `stall_timeout`, at the drain, and, as long as no authenticated caller has used it, after
//! [`UNPROVEN_LIFE`].

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::server::conn::{http1, http2};
use hyper::service::{HttpService, Service, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::answer_body::AnswerBody;
use crate::connection_use::{BeyondUnproven, ConnectionLane, ConnectionUse, OnReserve};
use crate::connections::{ConnectionPlace, ConnectionRegistry};
use crate::http_version::{self, HttpVersion};
use crate::metrics;
use crate::options::IngressLimits;

/// Signals that end connections.
#[derive(Debug, Clone)]
pub(crate) struct ShutdownSignals {
    /// Finish the requests in flight, take no others (graceful shutdown).
    pub(crate) leaving: CancellationToken,
    /// Close at once.
    pub(crate) cut: CancellationToken,
}

/// Shared by all connections of a listener.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionServer {
    pub(crate) router: Router,
    pub(crate) limits: Arc<IngressLimits>,
    pub(crate) registry: Arc<ConnectionRegistry>,
    pub(crate) goodbye: ShutdownSignals,
    /// Connections, and the requests of HTTP/2 connections.
    pub(crate) tasks: TaskTracker,
}

/// Larger heads than our own limit are read as well, so that the ingress refuses them with a reason.
const HEAD_BYTES: u32 = 64 * 1024;
/// Lifetime of a connection that only anonymous callers use. They do not need longer, and a client that
/// opens a stream and never reads it would otherwise keep its connection.
const UNPROVEN_LIFE: Duration = Duration::from_secs(600);
/// How long a request waits for a place on an unproven connection.
const PLACE_PATIENCE: Duration = Duration::from_secs(5);
/// Time for a client to close a connection after the graceful shutdown.
const LEAVING: Duration = Duration::from_secs(5);

impl ConnectionServer {
    pub(crate) fn new(
        router: Router,
        limits: IngressLimits,
        goodbye: &ShutdownSignals,
        tasks: &TaskTracker,
    ) -> Self {
        let registry = ConnectionRegistry::of(&limits);
        let (goodbye, tasks) = (goodbye.clone(), tasks.clone());
        Self { router, limits: Arc::new(limits), registry, goodbye, tasks }
    }

    /// Serves an admitted connection until it ends. `opening` produces the stream, with a handshake if
    /// there is one; it has the time of a request head.
    pub(crate) async fn serve_connection<S>(
        self,
        opening: impl Future<Output = io::Result<S>>,
        place: ConnectionPlace,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let connection = &place.connection;
        let opening = async { http_version::detect_version(opening.await?).await };
        let told = tokio::select! {
            told = tokio::time::timeout(self.limits.head_timeout, opening) => told,
            () = self.goodbye.leaving.cancelled() => return,
            () = connection.wait_for_eviction() => return,
        };
        let Ok(Ok((version, stream))) = told else { return };
        let stream = TokioIo::new(stream);
        let patience = PLACE_PATIENCE.min(self.limits.head_timeout);
        let service = counted_service(self.router, Arc::clone(connection), patience);
        let ends = ConnectionDriver { connection, limits: &self.limits, goodbye: &self.goodbye };
        match version {
            HttpVersion::Http1 => {
                let mut builder = http1::Builder::new();
                builder
                    .timer(TokioTimer::new())
                    .header_read_timeout(self.limits.head_timeout)
                    .max_buf_size(64 * 1024)
                    .max_headers(100)
                    .keep_alive(true);
                ends.drive_connection(builder.serve_connection(stream, service)).await;
            }
            HttpVersion::Http2 => {
                let streams = StreamExecutor { tasks: self.tasks.clone(), cut: self.goodbye.cut.clone() };
                let mut builder = http2::Builder::new(streams);
                builder
                    .timer(TokioTimer::new())
                    .keep_alive_interval(self.limits.head_timeout)
                    .keep_alive_timeout(self.limits.stall_timeout)
                    .max_header_list_size(HEAD_BYTES)
                    .max_concurrent_streams(self.limits.streams_per_connection);
                ends.drive_connection(builder.serve_connection(stream, service)).await;
            }
        }
    }
}

/// Executor for the requests of HTTP/2 connections: each is a tracked task and ends at the cut.
#[derive(Debug, Clone)]
struct StreamExecutor {
    tasks: TaskTracker,
    cut: CancellationToken,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for StreamExecutor {
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

/// The router, counting every request as a use of the connection until its answer is complete.
fn counted_service(
    router: Router,
    connection: Arc<ConnectionUse>,
    patience: Duration,
) -> impl HttpService<
    Incoming,
    ResBody = AnswerBody,
    Error = Infallible,
    Future = impl Future<Output = Result<Response<AnswerBody>, Infallible>> + Send + 'static,
> {
    let router = TowerToHyperService::new(router);
    service_fn(move |mut request: Request<Incoming>| {
        let mut in_progress = connection.begin_request();
        if connection.lane == ConnectionLane::Reserve {
            request.extensions_mut().insert(OnReserve);
        }
        // Only until the connection is proven: afterwards the authentication layer has nothing to report.
        if !connection.is_proven() {
            request.extensions_mut().insert(Arc::clone(&connection));
        }
        let (router, connection) = (router.clone(), Arc::clone(&connection));
        async move {
            if !in_progress.take_place(patience).await {
                request.extensions_mut().insert(BeyondUnproven);
            }
            let answer = router.call(request).await?;
            Ok(AnswerBody::attach_to_response(answer, &connection, in_progress))
        }
    })
}

/// The conditions under which the ingress ends a connection.
#[derive(Clone, Copy)]
struct ConnectionDriver<'a> {
    connection: &'a ConnectionUse,
    limits: &'a IngressLimits,
    goodbye: &'a ShutdownSignals,
}

/// Decision about a connection when its timer fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionVerdict {
    /// Check again after this time.
    Keep(Duration),
    AskToLeave,
    /// Close at once: a client that does not read its answers does not read a goodbye either.
    CutOff,
}

impl ConnectionDriver<'_> {
    async fn drive_connection<C>(&self, serving: C)
    where
        C: GracefulConnection,
        C::Error: std::fmt::Display,
    {
        tokio::pin!(serving);
        let look = tokio::time::sleep(self.limits.idle_timeout.min(self.limits.stall_timeout));
        tokio::pin!(look);
        let mut asked = false;
        loop {
            tokio::select! {
                ended = &mut serving => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "a connection ended badly");
                    }
                    return;
                }
                () = self.goodbye.cut.cancelled() => return,
                () = self.goodbye.leaving.cancelled(), if !asked => {
                    serving.as_mut().graceful_shutdown();
                    asked = true;
                }
                () = self.connection.wait_for_eviction() => {
                    // An authenticated caller sent a request just before the eviction: answer it, then end
                    // the connection.
                    serving.as_mut().graceful_shutdown();
                    if self.connection.gives_way() {
                        // Send the goodbye if the socket accepts it at once.
                        let _ = futures::poll!(serving.as_mut());
                        return;
                    }
                    return self.finish_requests(serving).await;
                }
                () = &mut look => match self.judge_connection() {
                    ConnectionVerdict::Keep(time) => look.as_mut().reset(Instant::now() + time),
                    ConnectionVerdict::CutOff => {
                        metrics::record_timeout();
                        return;
                    }
                    ConnectionVerdict::AskToLeave if asked => {
                        if self.connection.idle_for().is_some() || !self.connection.is_proven() {
                            return;
                        }
                        look.as_mut().reset(Instant::now() + LEAVING);
                    }
                    ConnectionVerdict::AskToLeave => {
                        metrics::record_timeout();
                        serving.as_mut().graceful_shutdown();
                        asked = true;
                        look.as_mut().reset(Instant::now() + LEAVING);
                    }
                },
            }
        }
    }

    /// Serves the requests in flight and takes no others.
    async fn finish_requests<C>(&self, serving: Pin<&mut C>)
    where
        C: GracefulConnection,
        C::Error: std::fmt::Display,
    {
        tokio::select! {
            _ended = serving => {}
            () = self.goodbye.cut.cancelled() => {}
        }
    }

    fn judge_connection(&self) -> ConnectionVerdict {
        let (unread, stall) = (self.connection.unread_for(), self.limits.stall_timeout);
        if unread >= stall {
            return ConnectionVerdict::CutOff;
        }
        let age = self.connection.age();
        if !self.connection.is_proven() && age >= UNPROVEN_LIFE {
            return ConnectionVerdict::AskToLeave;
        }
        let limit = self.limits.idle_timeout;
        match self.connection.idle_for() {
            Some(idle) if idle >= limit => ConnectionVerdict::AskToLeave,
            Some(idle) => ConnectionVerdict::Keep(limit - idle),
            None => ConnectionVerdict::Keep(limit.min(stall.saturating_sub(unread))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_or_unproven_connection_is_closed() {
        let (limits, goodbye) = (
            IngressLimits::default(),
            ShutdownSignals { leaving: CancellationToken::new(), cut: CancellationToken::new() },
        );
        let verdict = |connection: &ConnectionUse| {
            ConnectionDriver { connection, limits: &limits, goodbye: &goodbye }.judge_connection()
        };
        let idle = ConnectionUse::begun_before(limits.idle_timeout);
        assert_eq!(verdict(&idle), ConnectionVerdict::AskToLeave);
        let in_progress = idle.begin_request();
        assert_eq!(verdict(&idle), ConnectionVerdict::Keep(limits.stall_timeout), "a request is in progress");
        drop(in_progress);

        // A stream that its client does not read keeps a connection busy.
        let old = ConnectionUse::begun_before(UNPROVEN_LIFE);
        let _in_progress = old.begin_request();
        assert_eq!(verdict(&old), ConnectionVerdict::AskToLeave);
        old.mark_proven();
        assert_eq!(
            verdict(&old),
            ConnectionVerdict::Keep(limits.stall_timeout),
            "an identified caller uses it"
        );
    }

    #[test]
    fn unread_answer_cuts_connection_off() {
        let limits = IngressLimits { stall_timeout: Duration::ZERO, ..IngressLimits::default() };
        let goodbye = ShutdownSignals { leaving: CancellationToken::new(), cut: CancellationToken::new() };
        let connection = ConnectionUse::begun_before(Duration::ZERO);
        connection.mark_proven();
        let patient = ConnectionDriver {
            connection: &connection,
            limits: &IngressLimits::default(),
            goodbye: &goodbye,
        };
        let impatient = ConnectionDriver { limits: &limits, ..patient };
        let _in_progress = connection.begin_request();
        let answer = connection.begin_answer();
        assert_eq!(impatient.judge_connection(), ConnectionVerdict::CutOff);
        assert!(matches!(patient.judge_connection(), ConnectionVerdict::Keep(_)));
        answer.record_progress();
        assert!(connection.unread_for() < IngressLimits::default().stall_timeout);
        drop(answer);
        assert_eq!(connection.unread_for(), Duration::ZERO, "it was read");
    }
}
