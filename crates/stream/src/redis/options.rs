//! Options of the Redis backend.

use std::time::Duration;

/// Defaults suit one server in the same data centre.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisOptions {
    /// Prefix of every key, so that several installations can share a server.
    pub prefix: String,
    /// Number of shared connections, used for everything except blocking reads and subscriptions. Commands
    /// are pipelined, so very few are enough.
    pub connections: usize,
    /// Time limit for opening a connection.
    pub connect_timeout: Duration,
    /// Time limit for the answer to a pipeline.
    pub response_timeout: Duration,
    /// Approximate number of doorbells a lane keeps. Beyond it the oldest are dropped, read or not, and the
    /// sweeps find their executions; a million doorbells take about 65 MB.
    pub lane_capacity: usize,
    /// For a `rediss://` address whose certificate is not signed by a public CA, or that requires a client
    /// certificate.
    pub tls: Option<RedisTls>,
}

/// Trusted CAs and client certificate, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisTls {
    /// CAs that are trusted instead of the public ones.
    pub ca: Option<Vec<u8>>,
    /// Client certificate and key.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

/// Omits the key.
impl std::fmt::Debug for RedisTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisTls").finish_non_exhaustive()
    }
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self {
            prefix: "millstream".to_owned(),
            connections: 2,
            connect_timeout: Duration::from_secs(1),
            response_timeout: Duration::from_secs(2),
            lane_capacity: 1_000_000,
            tls: None,
        }
    }
}
