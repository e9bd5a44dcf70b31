//! Redis for the bench: CPU, memory, version, and removal of our keys.

use std::collections::BTreeMap;

use redis::aio::MultiplexedConnection;
use serde::Serialize;

use crate::error::{BenchError, BenchResult};

/// A connection for queries.
#[derive(Clone)]
pub(crate) struct RedisServer {
    connection: MultiplexedConnection,
}

impl std::fmt::Debug for RedisServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisServer").finish_non_exhaustive()
    }
}

/// Facts from `INFO`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RedisFacts {
    pub version: String,
    pub appendonly: String,
    pub used_memory: u64,
    #[serde(skip)]
    pub(crate) cpu_seconds: f64,
    #[serde(skip)]
    pub(crate) pid: Option<u32>,
}

impl RedisServer {
    pub(crate) async fn connect(url: &str) -> BenchResult<Self> {
        let client = redis::Client::open(url)
            .map_err(|error| BenchError::Usage(format!("the redis url cannot be used: {error}")))?;
        let connection = client.get_multiplexed_async_connection().await.map_err(redis_error)?;
        Ok(Self { connection })
    }

    pub(crate) async fn server_facts(&mut self) -> BenchResult<RedisFacts> {
        let info: String = redis::cmd("INFO").query_async(&mut self.connection).await.map_err(redis_error)?;
        Ok(read_info(&info))
    }

    /// Removes the keys of one run.
    pub(crate) async fn remove_keys(&mut self, prefix: &str) -> BenchResult<()> {
        let mut cursor = 0u64;
        loop {
            let (next, keys): (u64, Vec<String>) = redis::cmd("SCAN")
                .arg(cursor)
                .arg("MATCH")
                .arg(format!("{prefix}*"))
                .arg("COUNT")
                .arg(1000)
                .query_async(&mut self.connection)
                .await
                .map_err(redis_error)?;
            if !keys.is_empty() {
                let _: u64 = redis::cmd("UNLINK")
                    .arg(&keys)
                    .query_async(&mut self.connection)
                    .await
                    .map_err(redis_error)?;
            }
            if next == 0 {
                return Ok(());
            }
            cursor = next;
        }
    }
}

fn read_info(info: &str) -> RedisFacts {
    let fields: BTreeMap<&str, &str> =
        info.lines().filter_map(|line| line.trim_end().split_once(':')).collect();
    let number = |name: &str| fields.get(name).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    RedisFacts {
        version: fields.get("redis_version").map(|text| (*text).to_owned()).unwrap_or_default(),
        appendonly: if fields.get("aof_enabled") == Some(&"1") { "yes" } else { "no" }.to_owned(),
        used_memory: fields.get("used_memory").and_then(|text| text.parse().ok()).unwrap_or(0),
        cpu_seconds: number("used_cpu_sys") + number("used_cpu_user"),
        pid: fields.get("process_id").and_then(|text| text.parse().ok()),
    }
}

fn redis_error(error: redis::RedisError) -> BenchError {
    BenchError::unreachable("Redis", error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redis_info_is_parsed_partially() {
        let info = "# Server\r\nredis_version:7.0.15\r\nprocess_id:77\r\n# Memory\r\nused_memory:1024\r\nused_memory_human:1K\r\naof_enabled:1\r\nused_cpu_sys:0.5\r\nused_cpu_user:1.25\r\n";
        let facts = read_info(info);
        assert_eq!((facts.version.as_str(), facts.appendonly.as_str()), ("7.0.15", "yes"));
        assert_eq!((facts.used_memory, facts.cpu_seconds, facts.pid), (1024, 1.75, Some(77)));
        assert_eq!(read_info("").version, "");
    }
}
