//! Connections: a pool for commands that end soon, dedicated ones for those that wait.
//!
//! A pooled command is bounded three times (a free connection, a new connection, the answer), because
//! a server that vanished from the network must become `Unavailable` and never hold up a caller.

use deadpool_redis::{Manager, Pool, PoolConfig, Runtime, Timeouts};
use redis::aio::{MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, Client, Pipeline, RedisResult, Value};
use tokio::time::timeout;

use super::RedisOptions;
use super::fault::{is_answer, unavailable};
use crate::{Result, StreamError};

pub(super) struct Link {
    client: Client,
    pool: Pool,
    options: RedisOptions,
}

impl Link {
    /// Opens nothing yet.
    pub(super) fn new(url: &str, options: &RedisOptions) -> Result<Self> {
        let unusable = |error: &dyn std::fmt::Display| StreamError::Unusable(format!("redis url: {error}"));
        let client = Client::open(url).map_err(|error| unusable(&error))?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(options.connect_timeout))
            .set_response_timeout(Some(options.response_timeout));
        let manager = Manager::new_with_config(url, config).map_err(|error| unusable(&error))?;
        let mut sizes = PoolConfig::new(options.pool_size.max(1));
        sizes.timeouts = Timeouts {
            wait: Some(options.pool_wait),
            create: Some(options.connect_timeout),
            recycle: Some(options.connect_timeout),
        };
        let pool = Pool::builder(manager)
            .config(sizes)
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| unusable(&error))?;
        Ok(Self { client, pool, options: options.clone() })
    }

    /// Sends a pipeline in one round trip; one answer per command, refusals included.
    pub(super) async fn run(&self, pipeline: &mut Pipeline) -> Result<Vec<RedisResult<Value>>> {
        if pipeline.is_empty() {
            return Ok(Vec::new());
        }
        // Several dead connections may have to be thrown away before a good one is found, each with a
        // timeout of its own: the whole search has one too.
        let search = timeout(self.options.pool_wait + self.options.connect_timeout, self.pool.get());
        let mut connection = match search.await {
            Ok(found) => found.map_err(unavailable)?,
            Err(_) => return Err(StreamError::Unavailable("no connection in time".to_owned())),
        };
        match pipeline.ignore_errors().query_async(&mut connection).await {
            Ok(answers) => Ok(answers),
            Err(error) => {
                if !is_answer(&error) {
                    drop(deadpool_redis::Connection::take(connection));
                }
                Err(unavailable(error))
            }
        }
    }

    /// A connection for one reader. It has no response timeout: the server may hand entries to a
    /// request that nobody waits for any more.
    pub(super) async fn dedicated(&self) -> Result<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.options.connect_timeout))
            .set_response_timeout(None);
        self.client.get_multiplexed_async_connection_with_config(&config).await.map_err(unavailable)
    }

    /// A connection that is subscribed to `channel`.
    pub(super) async fn subscribed(&self, channel: &str) -> Result<PubSub> {
        let subscribe = async {
            let mut pubsub = self.client.get_async_pubsub().await?;
            pubsub.subscribe(channel).await?;
            RedisResult::Ok(pubsub)
        };
        match timeout(self.options.connect_timeout, subscribe).await {
            Ok(subscribed) => subscribed.map_err(unavailable),
            Err(_) => Err(StreamError::Unavailable("no subscription in time".to_owned())),
        }
    }
}
