//! Observation from outside: doorbells held by a worker in Redis, the log of Postgres, stopped processes.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, Value};

use crate::stage::{StageProcess, TortureStage};

const GLANCE: Duration = Duration::from_millis(500);
const PREFIX: &str = "millstream";
pub(super) const GROUP: &str = "workers";

/// `None` when Redis does not answer at once.
pub(super) async fn connect_redis(stage: &TortureStage) -> Option<MultiplexedConnection> {
    tokio::time::timeout(GLANCE, stage.redis_connection()).await.ok()?.ok()
}

/// The streams that exist.
pub(super) async fn stream_names(connection: &mut MultiplexedConnection) -> Vec<String> {
    matching_keys(connection, &format!("{PREFIX}:*:bells")).await
}

/// Locks that are held, with their tokens.
pub(super) async fn lock_entries(connection: &mut MultiplexedConnection) -> Vec<(String, String)> {
    let mut held = Vec::new();
    for key in matching_keys(connection, &format!("{PREFIX}:*:lock:*")).await {
        if let Ok(Some(token)) = connection.get::<_, Option<String>>(&key).await {
            held.push((key, token));
        }
    }
    held
}

async fn matching_keys(connection: &mut MultiplexedConnection, pattern: &str) -> Vec<String> {
    redis::cmd("KEYS").arg(pattern).query_async(connection).await.unwrap_or_default()
}

/// Doorbells delivered to this process and not acknowledged.
pub(crate) async fn doorbells_of(stage: &TortureStage, pid: u32) -> usize {
    let Some(mut connection) = connect_redis(stage).await else { return 0 };
    let mut pending = 0;
    for stream in stream_names(&mut connection).await {
        let consumers: Vec<redis::streams::StreamInfoConsumer> = match redis::cmd("XINFO")
            .arg("CONSUMERS")
            .arg(&stream)
            .arg(GROUP)
            .query_async(&mut connection)
            .await
        {
            Ok(redis::streams::StreamInfoConsumersReply { consumers }) => consumers,
            Err(_) => continue,
        };
        pending += consumers
            .iter()
            .filter(|consumer| is_of(&consumer.name, pid))
            .map(|consumer| consumer.pending)
            .sum::<usize>();
    }
    pending
}

/// Whether a worker's id (host, process id, random part) belongs to this process.
pub(super) fn is_of(worker: &str, pid: u32) -> bool {
    worker.contains(&format!("-{pid}-"))
}

/// A line of `INFO`, as a number.
pub(super) async fn info_value(
    connection: &mut MultiplexedConnection,
    section: &str,
    name: &str,
) -> Option<String> {
    let text: String = redis::cmd("INFO").arg(section).query_async(connection).await.ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::to_owned)
}

/// Whether Redis answers.
pub(super) async fn redis_answers(stage: &TortureStage) -> bool {
    let Some(mut connection) = connect_redis(stage).await else { return false };
    let ping = redis::cmd("PING").query_async::<Value>(&mut connection).await;
    ping.is_ok()
}

/// Number of log lines of Postgres with these words.
pub(super) async fn count_in_logs(stage: &TortureStage, words: &str) -> usize {
    let log = stage.directory.path().join("postgres.log");
    let bytes = tokio::fs::read(log).await.unwrap_or_default();
    String::from_utf8_lossy(&bytes).lines().filter(|line| line.contains(words)).count()
}

/// Whether the kernel reports it as stopped.
pub(super) fn is_stopped(process: &StageProcess) -> bool {
    let Some(pid) = process.pid() else { return false };
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
}

/// Whether it serves its health endpoint, which starts after everything else.
pub(super) async fn is_up(stage: &TortureStage, process: &StageProcess) -> bool {
    let url = format!("http://127.0.0.1:{}/healthz", process.port);
    stage.http.get(url).timeout(GLANCE).send().await.is_ok_and(|answer| answer.status().is_success())
}

/// The sum of a worker's counter over all workers that answer.
pub(super) async fn metric_value(stage: &TortureStage, name: &str) -> f64 {
    let mut sum = 0.0;
    for worker in &stage.workers {
        let url = format!("http://127.0.0.1:{}/metrics", worker.port);
        let Ok(answer) = stage.http.get(url).timeout(GLANCE).send().await else { continue };
        let text = answer.text().await.unwrap_or_default();
        let lines = text.lines().filter(|line| line.starts_with(name));
        sum += lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>();
    }
    sum
}
