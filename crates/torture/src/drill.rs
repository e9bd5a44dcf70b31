//! Recovery drills: one component breaks while nothing else does, and the time is measured until everything
//! affected has recovered.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::check::{TortureCheck, TortureViolation};
use crate::faults::seen;
use crate::load::PostRecord;
use crate::stage::TortureStage;

/// One measured recovery.
#[derive(Debug, Clone)]
pub struct DrillRecovery {
    pub what: &'static str,
    pub took: Duration,
    pub allowed: Duration,
    pub detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoveryDrill {
    WorkerKilled,
    RedisEmptied,
    PostgresRestarted,
}

impl RecoveryDrill {
    pub const ALL: &'static [RecoveryDrill] =
        &[Self::WorkerKilled, Self::RedisEmptied, Self::PostgresRestarted];
}

const PATIENCE: Duration = Duration::from_secs(90);
const GLANCE: Duration = Duration::from_millis(20);

/// Runs one drill. Violations are recoveries that took too long or did not happen.
pub async fn run_drill(
    drill: RecoveryDrill,
    stage: &TortureStage,
    record: &PostRecord,
) -> Result<(DrillRecovery, Vec<TortureViolation>), String> {
    let _alone = stage.alone.write().await;
    until_settled(stage).await?;
    match drill {
        RecoveryDrill::WorkerKilled => worker_killed(stage).await,
        RecoveryDrill::RedisEmptied => redis_emptied(stage, record).await,
        RecoveryDrill::PostgresRestarted => postgres_restarted(stage, record).await,
    }
}

/// Waits until no event has waited for long: earlier disturbances are over.
async fn until_settled(stage: &TortureStage) -> Result<(), String> {
    for process in stage.processes() {
        stage.until_ready(process).await;
    }
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if oldest_undecided(stage).await? < 1_000 {
            return Ok(());
        }
        tokio::time::sleep(GLANCE * 5).await;
    }
    Err("events wait for long although no fault is active".to_owned())
}

/// In milliseconds.
async fn oldest_undecided(stage: &TortureStage) -> Result<i64, String> {
    const AGE: &str = "
SELECT coalesce(max(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - m.created_at), 0)
FROM mailbox m JOIN executions x USING (tenant, execution_id)
WHERE NOT m.deferred AND x.paused_reason IS NULL";
    let mut sql = stage.connect_postgres().await.map_err(|error| error.to_string())?;
    sqlx::query_scalar(AGE).fetch_one(&mut sql).await.map_err(|error| error.to_string())
}

/// The present undecided events of executions that are not paused.
async fn undecided_ages(stage: &TortureStage) -> Result<Vec<i64>, String> {
    const READ: &str = "
SELECT m.accept_no FROM mailbox m JOIN executions x USING (tenant, execution_id)
WHERE NOT m.deferred AND x.paused_reason IS NULL";
    let mut sql = stage.connect_postgres().await.map_err(|error| error.to_string())?;
    sqlx::query_scalar(READ).fetch_all(&mut sql).await.map_err(|error| error.to_string())
}

/// How many of them still wait.
async fn still_waiting(stage: &TortureStage, of: &[i64]) -> Result<i64, String> {
    const READ: &str = "SELECT count(*) FROM mailbox WHERE accept_no = ANY($1) AND NOT deferred";
    let mut sql = stage.connect_postgres().await.map_err(|error| error.to_string())?;
    sqlx::query_scalar(READ).bind(of).fetch_one(&mut sql).await.map_err(|error| error.to_string())
}

/// Waits until all of them are decided. Returns when the first and the last one were decided.
async fn until_decided(
    stage: &TortureStage,
    waiting: &[i64],
    from: Instant,
) -> Result<(Duration, Duration), String> {
    let mut first = None;
    while from.elapsed() < PATIENCE {
        let left = still_waiting(stage, waiting).await?;
        if first.is_none() && usize::try_from(left).unwrap_or(0) < waiting.len() {
            first = Some(from.elapsed());
        }
        if left == 0 {
            return Ok((first.unwrap_or_default(), from.elapsed()));
        }
        tokio::time::sleep(GLANCE).await;
    }
    Err(format!(
        "{} of {} events were not decided within {PATIENCE:?}",
        still_waiting(stage, waiting).await?,
        waiting.len()
    ))
}

fn judge_recovery(recovery: DrillRecovery) -> (DrillRecovery, Vec<TortureViolation>) {
    let mut violations = Vec::new();
    if recovery.took > recovery.allowed {
        let what =
            format!("took {:.2?}, allowed {:.2?}: {}", recovery.took, recovery.allowed, recovery.detail);
        violations.push(TortureViolation::new_violation(TortureCheck::Recovery, recovery.what, what));
    }
    (recovery, violations)
}

/// A worker is caught with unacknowledged doorbells and killed.
async fn worker_killed(stage: &TortureStage) -> Result<(DrillRecovery, Vec<TortureViolation>), String> {
    let mut postgres = stage.postgres.lock().await;
    for _ in 0..50 {
        for worker in &stage.workers {
            let _busy = worker.busy.lock().await;
            let Some(pid) = worker.pid() else { continue };
            // All workers that are processing something now wait for the store.
            postgres.signal_all(Signal::SIGSTOP);
            tokio::time::sleep(Duration::from_millis(150)).await;
            let held = seen::doorbells_of(stage, pid).await;
            if held == 0 {
                postgres.signal_all(Signal::SIGCONT);
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
            worker.kill();
            let from = Instant::now();
            postgres.signal_all(Signal::SIGCONT);
            let waiting = undecided_ages(stage).await?;
            let (first, took) = until_decided(stage, &waiting, from).await?;
            let allowed = stage.deadlines.reclaim_idle + Duration::from_secs(2);
            let detail = format!(
                "it held {held} doorbells; of {} undecided events the first was decided after {first:.2?}",
                waiting.len()
            );
            return Ok(judge_recovery(DrillRecovery {
                what: "worker killed → its work is taken over",
                took,
                allowed,
                detail,
            }));
        }
    }
    Err("no worker was ever caught with doorbells in its hands".to_owned())
}

/// Redis dies and restarts empty, after events were accepted without it.
async fn redis_emptied(
    stage: &TortureStage,
    record: &PostRecord,
) -> Result<(DrillRecovery, Vec<TortureViolation>), String> {
    let before = record.accepted();
    let mut redis = stage.redis.lock().await;
    redis.kill();
    tokio::time::sleep(Duration::from_secs(2)).await;
    redis.start_empty().await;
    let from = Instant::now();
    let waiting = undecided_ages(stage).await?;
    let accepted = record.accepted() - before;
    let (first, took) = until_decided(stage, &waiting, from).await?;
    let detail = format!(
        "{accepted} events were accepted meanwhile, {} were undecided when it was back; the first moved after {first:.2?}",
        waiting.len()
    );
    let what = "redis back, empty → the backlog has moved";
    Ok(judge_recovery(DrillRecovery { what, took, allowed: Duration::from_secs(5), detail }))
}

/// Postgres crashes and restarts. No process may need a restart, and the ingresses report that they are not
/// ready.
async fn postgres_restarted(
    stage: &TortureStage,
    record: &PostRecord,
) -> Result<(DrillRecovery, Vec<TortureViolation>), String> {
    let pids = || stage.processes().map(|process| process.pid()).collect::<Vec<_>>();
    let before = pids();
    let mut violations = Vec::new();
    let mut postgres = stage.postgres.lock().await;
    postgres.stop_immediate();
    let down = Instant::now();
    let mut red = vec![false; stage.ingresses.len()];
    while down.elapsed() < Duration::from_secs(3)
        || (red.contains(&false) && down.elapsed() < Duration::from_secs(10))
    {
        for (at, ingress) in stage.ingresses.iter().enumerate() {
            red[at] |= !stage.is_ready(ingress).await;
        }
        tokio::time::sleep(GLANCE).await;
    }
    for (ingress, red) in stage.ingresses.iter().zip(red) {
        if !red {
            let what = "it said that it was ready while its store was down";
            violations.push(TortureViolation::new_violation(TortureCheck::Recovery, &ingress.name, what));
        }
    }
    postgres.start().await;
    let from = Instant::now();
    for process in stage.processes() {
        stage.until_ready(process).await;
    }
    let green = from.elapsed();
    let accepted = record.accepted();
    while record.accepted() == accepted && from.elapsed() < PATIENCE {
        tokio::time::sleep(GLANCE).await;
    }
    let took = from.elapsed();
    if pids() != before {
        violations.push(TortureViolation::new_violation(
            TortureCheck::Recovery,
            "fleet",
            "a process was restarted while Postgres was away",
        ));
    }
    let detail =
        format!("all doors had gone red; everything was ready again after {green:.2?}, no process restarted");
    let what = "postgres back → events are accepted again";
    let (recovery, late) =
        judge_recovery(DrillRecovery { what, took, allowed: Duration::from_secs(10), detail });
    violations.extend(late);
    Ok((recovery, violations))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_recovery_is_a_violation() {
        let recovery = |seconds| DrillRecovery {
            what: "redis back",
            took: Duration::from_secs(seconds),
            allowed: Duration::from_secs(5),
            detail: String::new(),
        };
        assert_eq!(judge_recovery(recovery(5)).1, []);
        let late = judge_recovery(recovery(6)).1;
        assert_eq!(
            late.iter().map(|violation| violation.check).collect::<Vec<_>>(),
            [TortureCheck::Recovery]
        );
    }
}
