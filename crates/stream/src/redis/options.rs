//! What can be set about the Redis backend.

use std::time::Duration;

/// Defaults suit one server in the same data centre.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisOptions {
    /// First part of every key, so that several installations can share a server.
    pub prefix: String,
    /// Connections for everything but blocking reads and listening. They are shared: commands go out in
    /// pipelines, one after the other, so very few are enough.
    pub connections: usize,
    /// How long to wait for a new connection.
    pub connect_timeout: Duration,
    /// How long to wait for the answer to a pipeline.
    pub response_timeout: Duration,
    /// About how many bells a lane keeps. Beyond it the oldest are dropped, read or not, and the
    /// sweeps have to find what they stood for; a million of them take some 65 MB.
    pub lane_capacity: usize,
    /// For a `rediss://` address whose certificate no public CA has signed, or that asks for one of ours.
    pub tls: Option<RedisTls>,
}

/// What to trust and what to present, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisTls {
    /// CAs that are trusted instead of the public ones.
    pub ca: Option<Vec<u8>>,
    /// A certificate and its key.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

/// Without the key.
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
