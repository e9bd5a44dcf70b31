//! Waits for quiet, and reports unfinished work when it is not reached (C7).

use std::time::{Duration, Instant};

use redis::AsyncCommands;
use sqlx::Row;

use crate::check::{TortureCheck, TortureViolation};
use crate::stage::TortureStage;

const GLANCE: Duration = Duration::from_millis(250);

/// Unfinished work. Paused executions wait for a person and are left out.
const WAITING: &str = "
SELECT
    (SELECT count(*) FROM mailbox m JOIN executions x USING (tenant, execution_id)
     WHERE NOT m.deferred AND x.paused_reason IS NULL) AS undecided,
    (SELECT count(*) FROM actions a JOIN executions x USING (tenant, execution_id)
     WHERE a.status IN ('waiting', 'ready', 'leased') AND x.paused_reason IS NULL) AS actions,
    (SELECT count(*) FROM timers) AS timers";

const SAMPLES: &str = "
(SELECT 'undecided: ' || e.name || ' of ' || m.execution_id || ', accepted as ' || m.accept_no AS what
 FROM mailbox m JOIN executions x USING (tenant, execution_id) JOIN events e USING (tenant, event_id)
 WHERE NOT m.deferred AND x.paused_reason IS NULL LIMIT 5)
UNION ALL
(SELECT 'action: ' || a.execution_id || '/' || a.seq || '/' || a.action || ' is ' || a.status || ', epoch ' || a.epoch
 FROM actions a JOIN executions x USING (tenant, execution_id)
 WHERE a.status IN ('waiting', 'ready', 'leased') AND x.paused_reason IS NULL LIMIT 5)
UNION ALL
(SELECT 'timer: ' || t.execution_id || ' of seq ' || t.armed_seq FROM timers t LIMIT 5)";

/// Waits for quiet; unfinished work after `patience` is a violation.
pub async fn until_quiet(stage: &TortureStage, patience: Duration) -> (Duration, Vec<TortureViolation>) {
    let began = Instant::now();
    loop {
        let left = unfinished_work(stage).await;
        match left {
            Ok(left) if left.is_empty() => return (began.elapsed(), Vec::new()),
            Ok(_) | Err(_) if began.elapsed() < patience => tokio::time::sleep(GLANCE).await,
            Ok(left) => {
                let mut violations: Vec<TortureViolation> = left
                    .into_iter()
                    .map(|what| TortureViolation::new_violation(TortureCheck::Quiet, "left over", what))
                    .collect();
                violations.extend(check_samples(stage).await);
                return (began.elapsed(), violations);
            }
            Err(error) => {
                return (
                    began.elapsed(),
                    vec![TortureViolation::new_violation(TortureCheck::Quiet, "services", error)],
                );
            }
        }
    }
}

async fn unfinished_work(stage: &TortureStage) -> Result<Vec<String>, String> {
    let mut sql = stage.connect_postgres().await.map_err(|error| error.to_string())?;
    let row = sqlx::query(WAITING).fetch_one(&mut sql).await.map_err(|error| error.to_string())?;
    let mut left = Vec::new();
    for name in ["undecided", "actions", "timers"] {
        let count: i64 = row.try_get(name).map_err(|error| error.to_string())?;
        if count > 0 {
            left.push(format!("{count} {name}"));
        }
    }
    left.extend(left_in_redis(stage).await.map_err(|error| error.to_string())?);
    Ok(left)
}

/// Unacknowledged doorbells, and locks that were not released.
async fn left_in_redis(stage: &TortureStage) -> redis::RedisResult<Vec<String>> {
    let mut connection = stage.redis_connection().await?;
    let mut left = Vec::new();
    let streams: Vec<String> = connection.keys("millstream:*:bells").await?;
    for stream in streams {
        let groups: redis::streams::StreamInfoGroupsReply =
            redis::cmd("XINFO").arg("GROUPS").arg(&stream).query_async(&mut connection).await?;
        let pending: usize = groups.groups.iter().map(|group| group.pending).sum();
        if pending > 0 {
            left.push(format!("{pending} doorbells in {stream} are not acknowledged"));
        }
    }
    let locks: Vec<String> = connection.keys("millstream:*:lock:*").await?;
    if !locks.is_empty() {
        left.push(format!("{} locks, such as {}", locks.len(), locks[0]));
    }
    Ok(left)
}

async fn check_samples(stage: &TortureStage) -> Vec<TortureViolation> {
    let Ok(mut sql) = stage.connect_postgres().await else { return Vec::new() };
    let rows = sqlx::query_scalar::<_, String>(SAMPLES).fetch_all(&mut sql).await.unwrap_or_default();
    rows.into_iter()
        .map(|what| TortureViolation::new_violation(TortureCheck::Quiet, "for example", what))
        .collect()
}
