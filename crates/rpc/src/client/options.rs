//! Connection options of executors, and the detection of dead peers.
//!
//! TCP detects a dead host: the kernel probes a quiet connection and gives up when nothing is acknowledged.
//! HTTP/2 pings would also detect a hanging process, but servers in other languages close connections that
//! ping more often than every five minutes unless configured otherwise (`too_many_pings`): a call of a
//! minute would fail. Pings are for executors that are known to allow them.

use std::num::NonZeroUsize;
use std::time::Duration;

use millstream_model::network_policy::NetworkPolicy;
use rustls::pki_types::CertificateDer;
use tonic::transport::{Channel, Endpoint, Error};

use super::tls::SecuredConnector;

/// Options of calls to executors.
#[derive(Debug, Clone)]
pub struct ExecutorClientOptions {
    /// Timeout of connecting.
    pub connect_timeout: Duration,
    /// A host that acknowledges nothing for about this long is gone, and its calls fail as crashes.
    pub silence: Duration,
    /// Only for executors that allow it.
    pub ping: Option<Http2Ping>,
    /// Cached connections. Beyond this number, the least recently used one is closed after its calls.
    pub connections: NonZeroUsize,
    /// Networks in which registered executors may be. Executors from the settings may be anywhere.
    pub policy: NetworkPolicy,
    /// CAs that verify executors with TLS, in addition to those of the system.
    pub private_roots: Vec<CertificateDer<'static>>,
}

/// HTTP/2 pings while a call is in flight.
#[derive(Debug, Clone, Copy)]
pub struct Http2Ping {
    pub every: Duration,
    /// Without an answer for this long the connection is closed.
    pub timeout: Duration,
}

/// Enough for one process, at some hundred bytes each.
const CONNECTIONS: NonZeroUsize = NonZeroUsize::new(4096).expect("4096 is not zero");

impl Default for ExecutorClientOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            silence: Duration::from_secs(15),
            ping: None,
            connections: CONNECTIONS,
            policy: NetworkPolicy::default(),
            private_roots: Vec::new(),
        }
    }
}

/// A channel that connects on first use.
pub(super) fn lazy_channel(
    address: &str,
    options: &ExecutorClientOptions,
    connector: SecuredConnector,
) -> Result<Channel, Error> {
    let mut endpoint = Endpoint::from_shared(address.to_owned())?;
    if let Some(Http2Ping { every, timeout }) = options.ping {
        endpoint = endpoint.http2_keep_alive_interval(every).keep_alive_timeout(timeout);
    }
    Ok(endpoint.connect_with_connector_lazy(connector))
}
