//! How connections to executors are made, and how it is noticed that nobody is there any more.
//!
//! A host that is gone is noticed by TCP: the kernel asks when it is quiet and gives up when nothing is
//! acknowledged. Pings of HTTP/2 would notice a process that hangs as well, but servers of other languages
//! hang up on who pings more often than every five minutes unless they are told otherwise (`too_many_pings`): a
//! call of a minute would fail. They are for executors that are known to allow them.

use std::num::NonZeroUsize;
use std::time::Duration;

use hyper_util::client::legacy::connect::HttpConnector;
use tonic::transport::{Channel, Endpoint, Error};

/// How executors are called.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// A host that acknowledges nothing for about that long is gone, and its calls are crashes.
    pub silence: Duration,
    /// Only for executors that allow it.
    pub ping: Option<Ping>,
    /// Connections that are kept. Beyond, the one that was used least recently is closed when its calls are
    /// over.
    pub connections: NonZeroUsize,
}

/// HTTP/2 pings while a call is under way.
#[derive(Debug, Clone, Copy)]
pub struct Ping {
    pub every: Duration,
    /// Without an answer for that long the connection is given up.
    pub timeout: Duration,
}

/// Plenty for one process, and some hundred bytes each.
const CONNECTIONS: NonZeroUsize = NonZeroUsize::new(4096).expect("4096 is not zero");

impl Default for Options {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            silence: Duration::from_secs(15),
            ping: None,
            connections: CONNECTIONS,
        }
    }
}

/// Probes that go unanswered before the host is gone.
const PROBES: u32 = 3;

/// A channel that connects when it is used.
pub(super) fn channel(address: &str, options: &Options) -> Result<Channel, Error> {
    let mut endpoint = Endpoint::from_shared(address.to_owned())?;
    if let Some(Ping { every, timeout }) = options.ping {
        endpoint = endpoint.http2_keep_alive_interval(every).keep_alive_timeout(timeout);
    }
    Ok(endpoint.connect_with_connector_lazy(connector(options)))
}

/// As tonic's own, and with an end to what is not acknowledged: the kernel alone would resend a request to a
/// dead host for a quarter of an hour.
fn connector(options: &Options) -> HttpConnector {
    let mut http = HttpConnector::new();
    http.set_nodelay(true);
    // Not by the endpoint: a timeout of its making could not be told from a broken connection.
    http.set_connect_timeout(Some(options.connect_timeout));
    let step = (options.silence / (PROBES + 1)).max(Duration::from_secs(1));
    http.set_keepalive(Some(step));
    http.set_keepalive_interval(Some(step));
    http.set_keepalive_retries(Some(PROBES));
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    http.set_tcp_user_timeout(Some(options.silence));
    http
}
