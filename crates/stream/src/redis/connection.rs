//! Connections: shared ones for short commands, dedicated ones for blocking commands.
//!
//! Callers share a connection, one pipeline after the other. A pool would check each connection before use: a
//! round trip for a fact that the next command reveals anyway. A broken connection is replaced and the
//! pipeline is sent once more; every pipeline of this crate is idempotent (a repeated doorbell is coalesced,
//! an own lock is recognised, an acknowledgement repeats harmlessly).
//!
//! A command has two time limits (for a new connection, and for the answer): a server that disappeared from
//! the network must become `Unavailable` and never block a caller.

use std::sync::atomic::{AtomicUsize, Ordering};

use deadpool_redis::{Manager, Pool, PoolConfig, Runtime, Timeouts};
use redis::aio::{MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, Client, ClientTlsConfig, Pipeline, RedisResult, TlsCertificates, Value};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::error_kind::{is_server_answer, to_unavailable};
use super::{RedisOptions, RedisTls};
use crate::{StreamError, StreamResult};

pub(super) struct RedisLink {
    client: Client,
    pool: Pool,
    lines: Vec<Mutex<Option<MultiplexedConnection>>>,
    next: AtomicUsize,
    options: RedisOptions,
}

impl RedisLink {
    /// Opens no connection yet.
    pub(super) fn new(url: &str, options: &RedisOptions) -> StreamResult<Self> {
        let unusable = |error: &dyn std::fmt::Display| StreamError::Unusable(format!("redis url: {error}"));
        let client = open_client(url, options).map_err(|error| unusable(&error))?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(options.connect_timeout))
            .set_response_timeout(Some(options.response_timeout));
        let manager = Manager::new_with_config(client.get_connection_info().clone(), config)
            .map_err(|error| unusable(&error))?;
        let mut sizes = PoolConfig::new(options.connections.max(1));
        sizes.timeouts = Timeouts {
            wait: Some(options.connect_timeout),
            create: Some(options.connect_timeout),
            recycle: Some(options.connect_timeout),
        };
        let pool = Pool::builder(manager)
            .config(sizes)
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| unusable(&error))?;
        let lines = std::iter::repeat_with(Mutex::default).take(options.connections.max(1)).collect();
        Ok(Self { client, pool, lines, next: AtomicUsize::new(0), options: options.clone() })
    }

    /// Sends a pipeline in one round trip; one answer per command, errors included.
    pub(super) async fn run_pipeline(
        &self,
        pipeline: &mut Pipeline,
    ) -> StreamResult<Vec<RedisResult<Value>>> {
        if pipeline.is_empty() {
            return Ok(Vec::new());
        }
        pipeline.ignore_errors();
        let line = &self.lines[self.next.fetch_add(1, Ordering::Relaxed) % self.lines.len()];
        let mut fresh = ConnectionAge::No;
        loop {
            let mut connection = self.shared_connection(line, &mut fresh).await?;
            match pipeline.query_async(&mut connection).await {
                Ok(answers) => return Ok(answers),
                Err(error) if is_server_answer(&error) => return Err(to_unavailable(error)),
                Err(error) => {
                    *line.lock().await = None;
                    // A connection that was just opened, or that timed out, is not retried.
                    if fresh == ConnectionAge::Yes || error.is_timeout() {
                        return Err(to_unavailable(error));
                    }
                }
            }
        }
    }

    /// The connection of a line, opened on demand.
    async fn shared_connection(
        &self,
        line: &Mutex<Option<MultiplexedConnection>>,
        fresh: &mut ConnectionAge,
    ) -> StreamResult<MultiplexedConnection> {
        let mut line = line.lock().await;
        if let Some(connection) = &*line {
            return Ok(connection.clone());
        }
        *fresh = ConnectionAge::Yes;
        let opening = timeout(self.options.connect_timeout, self.pool.get());
        let opened = match opening.await {
            Ok(opened) => deadpool_redis::Connection::take(opened.map_err(to_unavailable)?),
            Err(_) => return Err(StreamError::Unavailable("no connection in time".to_owned())),
        };
        Ok(line.insert(opened).clone())
    }

    /// A connection for one reader. It has no response timeout: the server may hand entries to a request
    /// whose caller has gone.
    pub(super) async fn dedicated_connection(&self) -> StreamResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.options.connect_timeout))
            .set_response_timeout(None);
        self.client.get_multiplexed_async_connection_with_config(&config).await.map_err(to_unavailable)
    }

    /// A connection with a subscription to `channel`.
    pub(super) async fn subscribed_connection(&self, channel: &str) -> StreamResult<PubSub> {
        let subscribe = async {
            let mut pubsub = self.client.get_async_pubsub().await?;
            pubsub.subscribe(channel).await?;
            RedisResult::Ok(pubsub)
        };
        match timeout(self.options.connect_timeout, subscribe).await {
            Ok(subscribed) => subscribed.map_err(to_unavailable),
            Err(_) => Err(StreamError::Unavailable("no subscription in time".to_owned())),
        }
    }
}

fn open_client(url: &str, options: &RedisOptions) -> RedisResult<Client> {
    match &options.tls {
        None => Client::open(url),
        Some(RedisTls { ca, identity }) => {
            let client_tls =
                identity.clone().map(|(client_cert, client_key)| ClientTlsConfig { client_cert, client_key });
            Client::build_with_tls(url, TlsCertificates { client_tls, root_cert: ca.clone() })
        }
    }
}

/// Whether a connection was opened for this call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionAge {
    Yes,
    No,
}
