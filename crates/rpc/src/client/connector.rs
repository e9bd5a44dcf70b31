//! Connects to an executor: resolves the host, checks the addresses, and dials only allowed ones (SSRF
//! protection).
//!
//! The address of a registered executor is data from a tenant. Its host is resolved here, each address is
//! checked against the [`NetworkPolicy`], and the connection is made to one of the allowed addresses: the
//! name is not resolved a second time, so that a DNS answer cannot change between check and use. Executors
//! from the operator's settings are not checked.
//!
//! The connector yields a plain stream. `tls` adds TLS where the address requires it.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::TokioIo;
use millstream_model::network_policy::NetworkPolicy;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tonic::transport::Uri;
use tower::Service;

use super::options::ExecutorClientOptions;
use crate::address::literal_ip;

type DialError = Box<dyn std::error::Error + Send + Sync>;
type DialFuture = Pin<Box<dyn Future<Output = Result<TokioIo<TcpStream>, DialError>> + Send>>;

/// Network operations of the connector. Tests substitute a double that opens no external connections.
#[tonic::async_trait]
pub trait ExecutorNetwork: Send + Sync + std::fmt::Debug {
    /// Resolves a host name.
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;

    /// Connects to one of these addresses and to no other.
    async fn dial(&self, addresses: Vec<SocketAddr>) -> Result<TcpStream, DialError>;
}

/// No address of the host is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{host} is not allowed: {why} (see executor_allow)")]
struct ForbiddenHost {
    host: String,
    why: &'static str,
}

#[derive(Debug, Clone)]
pub(super) struct ExecutorConnector {
    network: Arc<dyn ExecutorNetwork>,
    /// `None`: every address is allowed.
    policy: Option<Arc<NetworkPolicy>>,
    resolve_timeout: Duration,
}

impl ExecutorConnector {
    pub(super) fn new(
        network: Arc<dyn ExecutorNetwork>,
        policy: Option<Arc<NetworkPolicy>>,
        resolve_timeout: Duration,
    ) -> Self {
        Self { network, policy, resolve_timeout }
    }

    async fn connect(self, uri: Uri) -> Result<TokioIo<TcpStream>, DialError> {
        let (Some(host), Some(port)) = (uri.host(), uri.port_u16()) else {
            return Err(format!("{uri} names no host and port").into());
        };
        let found = match literal_ip(host) {
            Some(ip) => vec![SocketAddr::new(ip, port)],
            None => timeout(self.resolve_timeout, self.network.resolve(host, port))
                .await
                .map_err(|_| format!("the name {host} was not resolved in time"))??,
        };
        let addresses = match &self.policy {
            Some(policy) => allowed_addresses(policy, host, found)?,
            None => found,
        };
        if addresses.is_empty() {
            return Err(format!("{host} has no address").into());
        }
        Ok(TokioIo::new(self.network.dial(addresses).await?))
    }
}

/// The addresses that the policy allows.
fn allowed_addresses(
    policy: &NetworkPolicy,
    host: &str,
    found: Vec<SocketAddr>,
) -> Result<Vec<SocketAddr>, ForbiddenHost> {
    let mut refused = None;
    let allowed: Vec<SocketAddr> = found
        .into_iter()
        .filter(|address| policy.check_address(address.ip()).inspect_err(|why| refused = Some(*why)).is_ok())
        .collect();
    match refused {
        Some(why) if allowed.is_empty() => Err(ForbiddenHost { host: host.to_owned(), why }),
        Some(_) | None => Ok(allowed),
    }
}

impl Service<Uri> for ExecutorConnector {
    type Response = TokioIo<TcpStream>;
    type Error = DialError;
    type Future = DialFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> DialFuture {
        Box::pin(self.clone().connect(uri))
    }
}

/// The real network: the system's resolver, and TCP with keepalive and a bound on unacknowledged data.
#[derive(Debug, Clone)]
pub(super) struct SystemNetwork {
    connect_timeout: Duration,
    silence: Duration,
}

impl SystemNetwork {
    pub(super) fn new(options: &ExecutorClientOptions) -> Self {
        Self { connect_timeout: options.connect_timeout, silence: options.silence }
    }
}

/// Unanswered keepalive probes until the host is considered gone.
const PROBES: u32 = 3;

#[tonic::async_trait]
impl ExecutorNetwork for SystemNetwork {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(tokio::net::lookup_host((host, port)).await?.collect())
    }

    /// Like tonic's own connector, which tries both address families in parallel. Without a TCP timeout the
    /// kernel would resend a request to a dead host for a quarter of an hour.
    async fn dial(&self, addresses: Vec<SocketAddr>) -> Result<TcpStream, DialError> {
        let Some(port) = addresses.first().map(SocketAddr::port) else {
            return Err("there is no address to connect to".into());
        };
        let mut http = HttpConnector::new_with_resolver(PinnedResolver(addresses));
        http.set_nodelay(true);
        // Set here and not on the endpoint: the endpoint's timeout error is indistinguishable from a broken
        // connection.
        http.set_connect_timeout(Some(self.connect_timeout));
        let step = (self.silence / (PROBES + 1)).max(Duration::from_secs(1));
        http.set_keepalive(Some(step));
        http.set_keepalive_interval(Some(step));
        http.set_keepalive_retries(Some(PROBES));
        #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
        http.set_tcp_user_timeout(Some(self.silence));
        // A placeholder name, which the pinned resolver maps to the addresses.
        let pinned: Uri = format!("http://executor:{port}").parse()?;
        Ok(http.call(pinned).await?.into_inner())
    }
}

/// A resolver that returns the allowed addresses.
#[derive(Debug, Clone)]
struct PinnedResolver(Vec<SocketAddr>);

impl Service<Name> for PinnedResolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = std::future::Ready<Result<Self::Response, io::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Name) -> Self::Future {
        std::future::ready(Ok(self.0.clone().into_iter()))
    }
}
