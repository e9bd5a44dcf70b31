//! Options of the ingress, each with its purpose.
//!
//! Plain data: the app fills it from files, environment and flags; this crate reads none of those.

use std::time::Duration;

use millstream_devices::claim::DevicePolicy;
use millstream_model::crash::CrashPoint;
use millstream_model::document::MAX_SOURCE_BYTES;
use millstream_model::fair::TenantWeights;
use millstream_model::network_policy::NetworkPolicy;
use millstream_model::quota::QuotaSettings;
use millstream_rpc::evaluation_pool::EvaluationPlace;

/// Behaviour of the ingress. `Default` is the production setting.
#[derive(Debug, Clone)]
pub struct IngressOptions {
    /// Authentication mode.
    pub auth: AuthMode,
    /// Limits of a request.
    pub limits: IngressLimits,
    /// `Host` names (and origins) that are served besides loopback names and the listen address while
    /// no key is needed. Without a port: any port.
    pub allowed_hosts: Vec<String>,
    /// Default wait of callers of a `mode: sync` definition.
    pub sync_wait: Duration,
    /// Upper bound of a granted `Prefer: wait`; longer ones are shortened to it.
    pub max_wait: Duration,
    /// Interval at which waits and tails poll the store in case an announcement was lost.
    pub reread: Duration,
    /// Interval of comments on a silent tail, which keep proxies from closing the connection.
    pub keep_alive: Duration,
    /// How long an answer waits for its commit. After that the outcome is in doubt and the answer is 503;
    /// the commit itself continues.
    pub commit_timeout: Duration,
    /// Concurrent commits under load: see [`millstream_model::batch_pacing`]. Beside a bulk commit there is one more
    /// for small requests of other tenants.
    pub appenders: usize,
    /// Cache time of a key, or of its absence. At most 5 s: a revoked key remains valid for that long.
    pub key_ttl: Duration,
    /// Runs of devices: weights of the device selection, and default timeouts.
    pub devices: DevicePolicy,
    /// Networks in which executors may register. Workers check again before every connection.
    pub executor_networks: NetworkPolicy,
    /// Weights of the tenants' shares of commits while several tenants wait (fair queueing).
    pub weights: TenantWeights,
    /// Quotas from the settings; rows of the store take precedence.
    pub quotas: QuotaSettings,
    /// Where slow expressions are evaluated and definitions are compiled.
    pub evaluation_place: EvaluationPlace,
    /// Workers without a heartbeat for this long are not listed.
    pub worker_ttl: Duration,
    /// After the stop signal: how long `/readyz` is red before the ingress stops accepting connections.
    pub drain_delay: Duration,
    /// After the delay: how long requests in flight may take before they are cut off.
    pub drain_deadline: Duration,
    /// Crash point (fault injection). Only in test builds.
    pub crash: Option<CrashPoint>,
}

impl Default for IngressOptions {
    fn default() -> Self {
        Self {
            auth: AuthMode::Keys,
            limits: IngressLimits::default(),
            allowed_hosts: Vec::new(),
            sync_wait: Duration::from_secs(10),
            max_wait: Duration::from_secs(60),
            reread: Duration::from_millis(500),
            keep_alive: Duration::from_secs(15),
            commit_timeout: Duration::from_secs(15),
            appenders: 2,
            key_ttl: Duration::from_secs(3),
            devices: DevicePolicy::default(),
            executor_networks: NetworkPolicy::default(),
            weights: TenantWeights::default(),
            quotas: QuotaSettings::default(),
            evaluation_place: EvaluationPlace::Threads,
            worker_ttl: Duration::from_secs(30),
            drain_delay: Duration::ZERO,
            drain_deadline: Duration::from_secs(25),
            crash: None,
        }
    }
}

/// Authentication mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthMode {
    /// Every call needs a key.
    Keys,
    /// While no key exists, every call is an admin of tenant `default`; from the first key on, keys are
    /// required. Refuses to listen on an address that is not loopback.
    OpenOnLoopback,
    /// The same on any address: while no key exists, every call is an admin of tenant `default`, wherever
    /// it comes from. `Host` and `Origin` are checked as on loopback.
    InsecureNoAuth,
}

/// Limits of a request. Beyond them the answer is 413, 414, 422, 429 or 431, before memory grows.
#[derive(Debug, Clone)]
pub struct IngressLimits {
    /// One event's payload, and one execution's input.
    pub payload_bytes: usize,
    /// The items of one batch.
    pub batch_items: usize,
    /// The body of one batch.
    pub batch_bytes: usize,
    /// The body of one definition.
    pub definition_bytes: usize,
    /// The body of one graph, as JSON or as a message.
    pub graph_bytes: usize,
    /// The body of edits of a graph, of the result of a node, and any other message.
    pub message_bytes: usize,
    /// Path and query together.
    pub uri_bytes: usize,
    /// All header names and values together.
    pub header_bytes: usize,
    /// Requests in flight; waits and tails have counts of their own.
    pub in_flight: usize,
    /// Callers that wait for an outcome. Beyond it no wait is granted: the answer is 202 at once.
    pub waits: usize,
    /// Open tails.
    pub tails: usize,
    /// Open connections. At the limit the oldest idle one is closed for a new one.
    pub connections: usize,
    /// Open connections of one client address (of IPv6: of one /64); 0 for no limit.
    pub connections_per_address: usize,
    /// Reserve connections: beyond the limit, they serve probes alone while no other connection can be
    /// evicted.
    pub connections_reserved: usize,
    /// Requests at once on one HTTP/2 connection.
    pub streams_per_connection: u32,
    /// Answers of `/healthz` and `/readyz` in preparation. Anonymous calls, as the next four.
    pub probes: usize,
    /// Unsent answers of `/openapi.json`.
    pub documents: usize,
    /// gRPC health checks at once.
    pub health_checks: usize,
    /// Open `Health.Watch` streams.
    pub health_watches: usize,
    /// Open reflection streams.
    pub reflections: usize,
    /// Bodies in memory, over all requests.
    pub body_bytes_in_flight: usize,
    /// Requests that wait for a commit or are in one. One tenant gets three quarters of it at most, also of
    /// the next limit.
    pub queue_items: usize,
    /// Their bytes of payload.
    pub queue_bytes: usize,
    /// Executions whose doorbell could not be rung yet; beyond it they are left to the overdue sweep.
    pub unrung: usize,
    /// Time for a client to send its request head (also the idle time of an HTTP/1.1 connection).
    pub head_timeout: Duration,
    /// Lifetime of a connection without a request in progress. Pings do not extend it.
    pub idle_timeout: Duration,
    /// Time for a client to send its body.
    pub body_timeout: Duration,
    /// Time for a client to take the next piece of an answer; a client that takes nothing is cut off.
    pub stall_timeout: Duration,
}

impl Default for IngressLimits {
    fn default() -> Self {
        Self {
            payload_bytes: 256 * 1024,
            batch_items: 1_000,
            batch_bytes: 8 * 1024 * 1024,
            definition_bytes: MAX_SOURCE_BYTES,
            graph_bytes: 16 * 1024 * 1024,
            message_bytes: 4 * 1024 * 1024,
            uri_bytes: 8 * 1024,
            header_bytes: 16 * 1024,
            in_flight: 1_024,
            waits: 4_096,
            tails: 512,
            connections: 8_192,
            connections_per_address: 4_096,
            connections_reserved: 64,
            streams_per_connection: 256,
            probes: 256,
            documents: 32,
            health_checks: 256,
            health_watches: 256,
            reflections: 32,
            body_bytes_in_flight: 128 * 1024 * 1024,
            queue_items: 8_192,
            queue_bytes: 64 * 1024 * 1024,
            unrung: 100_000,
            head_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(60),
            body_timeout: Duration::from_secs(30),
            stall_timeout: Duration::from_secs(30),
        }
    }
}
