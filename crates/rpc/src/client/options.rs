//! How connections to executors are made, and how it is noticed that nobody is there any more.
//!
//! A host that is gone is noticed by TCP: the kernel asks when it is quiet and gives up when nothing is
//! acknowledged. Pings of HTTP/2 would notice a process that hangs as well, but servers of other languages
//! hang up on who pings more often than every five minutes unless they are told otherwise (`too_many_pings`): a
//! call of a minute would fail. They are for executors that are known to allow them.

use std::num::NonZeroUsize;
use std::time::Duration;

use millstream_core::network_policy::NetworkPolicy;
use tonic::transport::{Channel, Endpoint, Error};

use super::connector::ExecutorConnector;

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
    /// Where registered executors may be. Those from the settings may be anywhere.
    pub policy: NetworkPolicy,
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
            policy: NetworkPolicy::default(),
        }
    }
}

/// A channel that connects when it is used.
pub(super) fn channel(
    address: &str,
    options: &Options,
    connector: ExecutorConnector,
) -> Result<Channel, Error> {
    let mut endpoint = Endpoint::from_shared(address.to_owned())?;
    if let Some(Ping { every, timeout }) = options.ping {
        endpoint = endpoint.http2_keep_alive_interval(every).keep_alive_timeout(timeout);
    }
    Ok(endpoint.connect_with_connector_lazy(connector))
}
