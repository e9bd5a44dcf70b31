//! Connection pools: two pools with limits, so that a dead peer does not hold locks or connections for long.
//!
//! Renewals of leases and heartbeats of workers have a small pool of their own: a saturated main pool must
//! not expire all leases at once. No connection is opened here; the first call opens one, so a role can start
//! (and report that it is not ready) while the database is unavailable.

use std::future::Future;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use millstream_store::{StoreError, StoreResult};
use sqlx::ConnectOptions;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};

use crate::connection_cache::WarmConnections;
use crate::errors::PostgresFailure;
use crate::queue_configs::QueueConfigCache;
use crate::session;
use crate::skill_sets::SkillSetCache;

/// How a store talks to PostgreSQL. All limits are per process.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// Connections for everything but renewals and heartbeats. Default 16.
    pub max_connections: u32,
    /// Connections for renewals and heartbeats alone. Default 2.
    pub lease_connections: u32,
    /// How long a call waits for a free connection before the store counts as unavailable. Default 3 s.
    pub acquire_timeout: Duration,
    /// The server gives up on a statement after this. Default 10 s.
    pub statement_timeout: Duration,
    /// The server gives up waiting for a row after this. Default 5 s.
    pub lock_timeout: Duration,
    /// The server ends a transaction whose client has been silent for this long, and with it its locks
    /// (a client cut off by the network would keep them for hours). Default 10 s.
    pub idle_in_transaction_timeout: Duration,
    /// The server drops a connection whose data was not acknowledged for this long. Default 10 s.
    pub tcp_user_timeout: Duration,
    /// The client gives up on a whole call after this: a server that vanished sends no error. Default 20 s.
    pub call_timeout: Duration,
    /// Shown in `pg_stat_activity`. Default `millstream`.
    pub application_name: String,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            max_connections: 16,
            lease_connections: 2,
            acquire_timeout: Duration::from_secs(3),
            statement_timeout: Duration::from_secs(10),
            lock_timeout: Duration::from_secs(5),
            idle_in_transaction_timeout: Duration::from_secs(10),
            tcp_user_timeout: Duration::from_secs(10),
            call_timeout: Duration::from_secs(20),
            application_name: "millstream".to_owned(),
        }
    }
}

/// A store on PostgreSQL. Cheap to share, made once per process.
#[derive(Debug)]
pub struct PostgresStore {
    /// For everything but renewals and heartbeats.
    pub(crate) pool: PgPool,
    /// The same connections, for single statements on the hot path.
    pub(crate) warm: WarmConnections,
    /// For renewals and heartbeats.
    pub(crate) leases: PgPool,
    /// Cache of skill sets.
    pub(crate) skills: SkillSetCache,
    pub(crate) configs: QueueConfigCache,
    /// Without our limits: migrations may take their time.
    pub(crate) unlimited: PgConnectOptions,
    /// With our limits, as the pools connect.
    pub(crate) limited: PgConnectOptions,
    call_timeout: Duration,
}

impl PostgresStore {
    /// A store at `url` (`postgres://…`). Fails only when the url is invalid.
    pub async fn connect(url: &str, options: PostgresOptions) -> StoreResult<Arc<Self>> {
        let unlimited = PgConnectOptions::from_str(url)
            .map_err(|error| StoreError::Unavailable(format!("invalid database url: {error}")))?
            .application_name(&options.application_name)
            .disable_statement_logging();
        let limited = unlimited.clone().options(session_settings(&options)).statement_cache_capacity(200);
        let pool = |connections: u32| {
            PgPoolOptions::new()
                .max_connections(connections)
                .acquire_timeout(options.acquire_timeout)
                .idle_timeout(Duration::from_secs(300))
                .max_lifetime(Duration::from_secs(1800))
                .after_connect(|connection, _| Box::pin(session::prepare_session(connection)))
                .connect_lazy_with(limited.clone())
        };
        let main = pool(options.max_connections.max(1));
        Ok(Arc::new(Self {
            // Half of them stay with the pool, for transactions and views.
            warm: WarmConnections::new(main.clone(), options.max_connections as usize / 2),
            pool: main,
            skills: SkillSetCache::default(),
            configs: QueueConfigCache::default(),
            leases: pool(options.lease_connections.max(1)),
            unlimited,
            limited,
            call_timeout: options.call_timeout,
        }))
    }

    pub(crate) fn call_timeout(&self) -> Duration {
        self.call_timeout
    }

    /// Close all connections, waiting for those in use.
    pub async fn close(&self) {
        // Closed from here on: calls in progress hold back no connections any more.
        let closed = self.pool.close();
        self.warm.return_all();
        closed.await;
        self.leases.close().await;
    }

    /// Run one transaction; retry it with backoff on contention.
    pub(crate) async fn with_retries<T, F>(&self, attempt: impl Fn() -> F) -> StoreResult<T>
    where
        F: Future<Output = std::result::Result<T, PostgresFailure>>,
    {
        for pause in BACKOFF {
            match self.without_retries(attempt()).await {
                Err(StoreError::Contention(reason)) => {
                    tracing::debug!(reason, "transaction lost to contention, retrying");
                    tokio::time::sleep(pause).await;
                }
                other => return other,
            }
        }
        self.without_retries(attempt()).await
    }

    /// Run a call without retries.
    pub(crate) async fn without_retries<T>(
        &self,
        attempt: impl Future<Output = std::result::Result<T, PostgresFailure>>,
    ) -> StoreResult<T> {
        match tokio::time::timeout(self.call_timeout, attempt).await {
            Ok(done) => done.map_err(PostgresFailure::into_store_error),
            Err(_) => Err(StoreError::Unavailable(format!("no answer within {:?}", self.call_timeout))),
        }
    }
}

/// Backoff between attempts of a transaction on contention.
const BACKOFF: [Duration; 5] = [
    Duration::from_millis(1),
    Duration::from_millis(3),
    Duration::from_millis(9),
    Duration::from_millis(27),
    Duration::from_millis(81),
];

fn session_settings(options: &PostgresOptions) -> Vec<(&'static str, String)> {
    let millis = |length: Duration| length.as_millis().to_string();
    let off = || "off".to_owned();
    vec![
        ("statement_timeout", millis(options.statement_timeout)),
        ("lock_timeout", millis(options.lock_timeout)),
        ("idle_in_transaction_session_timeout", millis(options.idle_in_transaction_timeout)),
        ("tcp_user_timeout", millis(options.tcp_user_timeout)),
        ("tcp_keepalives_idle", "10".to_owned()),
        ("tcp_keepalives_interval", "5".to_owned()),
        ("tcp_keepalives_count", "3".to_owned()),
        // Every statement of this crate has an index. A queue's tables are empty when they are analysed and
        // full a minute later: a plan that was cached for the empty table would read all of the full one.
        ("enable_seqscan", off()),
        ("enable_hashjoin", off()),
        ("enable_mergejoin", off()),
        // A lookup of one row by its key needs no bitmap.
        ("enable_bitmapscan", off()),
        ("jit", off()),
        // A plan that does not depend on statistics does not depend on the arrays either: without this the
        // larger statements are replanned on every call, which costs more than running them.
        ("plan_cache_mode", "force_generic_plan".to_owned()),
        // Proves on the server's side that these parameters have arrived.
        (session::MARK, "on".to_owned()),
    ]
}
