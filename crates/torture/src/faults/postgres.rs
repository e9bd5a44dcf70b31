//! Postgres faults: crash, stop, refusal, full disk. Postgres is the source of truth: without it nothing is
//! accepted.

use std::time::Duration;

use nix::sys::signal::Signal;
use sqlx::{Connection, PgConnection};

use super::inject::random_duration;
use super::{FaultEffect, FaultGround, seen};
use crate::chance::TortureRandom;

pub(super) async fn kill_postgres(ground: &FaultGround<'_>, chance: &mut TortureRandom) -> FaultEffect {
    let mut postgres = ground.stage.postgres.lock().await;
    let before = ground.record.post_tries().put_off;
    postgres.kill().await;
    tokio::time::sleep(random_duration(chance, 100, 1_500)).await;
    let gone = ground.stage.connect_postgres().await.is_err();
    postgres.start().await;
    gone_or_not(ground, gone, before)
}

pub(super) async fn restart_postgres(ground: &FaultGround<'_>, chance: &mut TortureRandom) -> FaultEffect {
    let mut postgres = ground.stage.postgres.lock().await;
    let before = ground.record.post_tries().put_off;
    postgres.stop_immediate();
    tokio::time::sleep(random_duration(chance, 100, 2_000)).await;
    let gone = ground.stage.connect_postgres().await.is_err();
    postgres.start().await;
    gone_or_not(ground, gone, before)
}

fn gone_or_not(ground: &FaultGround<'_>, gone: bool, put_off: u64) -> FaultEffect {
    let put_off = ground.record.post_tries().put_off - put_off;
    if gone {
        Ok(format!("refused connections; {put_off} requests were put off"))
    } else {
        Err("it answered".to_owned())
    }
}

/// Stops every process of it.
pub(super) async fn stop_postgres(ground: &FaultGround<'_>, chance: &mut TortureRandom) -> FaultEffect {
    let mut postgres = ground.stage.postgres.lock().await;
    let length = random_duration(chance, 800, 3_500);
    postgres.signal_all(Signal::SIGSTOP);
    tokio::time::sleep(length / 2).await;
    let answers = tokio::time::timeout(Duration::from_millis(300), ground.stage.connect_postgres()).await;
    tokio::time::sleep(length / 2).await;
    postgres.signal_all(Signal::SIGCONT);
    match answers {
        Err(_) => Ok(format!("did not answer for {length:.1?}")),
        Ok(_) => Err("it answered".to_owned()),
    }
}

async fn connect_postgres(ground: &FaultGround<'_>) -> Result<PgConnection, String> {
    ground.stage.connect_postgres().await.map_err(|error| error.to_string())
}

pub(super) async fn cut_connections(ground: &FaultGround<'_>) -> FaultEffect {
    const CUT: &str = "
SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let _postgres = ground.stage.postgres.lock().await;
    let cut: i64 = sqlx::query_scalar(CUT)
        .fetch_one(&mut connect_postgres(ground).await?)
        .await
        .map_err(|error| error.to_string())?;
    if cut == 0 {
        Err("no process was connected".to_owned())
    } else {
        Ok(format!("{cut} connections were cut"))
    }
}

/// Locks tables for longer than statement and lock timeouts.
pub(super) async fn hold_tables(ground: &FaultGround<'_>) -> FaultEffect {
    const WORDS: &str = "canceling statement due to";
    let _postgres = ground.stage.postgres.lock().await;
    let before = seen::count_in_logs(ground.stage, WORDS).await;
    let mut connection = connect_postgres(ground).await?;
    let mut transaction = connection.begin().await.map_err(|error| error.to_string())?;
    sqlx::query("LOCK TABLE executions, mailbox, events IN ACCESS EXCLUSIVE MODE")
        .execute(&mut *transaction)
        .await
        .map_err(|error| error.to_string())?;
    tokio::time::sleep(ground.stage.deadlines.statement_timeout + Duration::from_millis(600)).await;
    transaction.rollback().await.map_err(|error| error.to_string())?;
    match seen::count_in_logs(ground.stage, WORDS).await - before {
        0 => Err("no statement was cut off".to_owned()),
        cut => Ok(format!("{cut} statements were cut off")),
    }
}

pub(super) async fn read_only(ground: &FaultGround<'_>, chance: &mut TortureRandom) -> FaultEffect {
    const WORDS: &str = "in a read-only transaction";
    let _postgres = ground.stage.postgres.lock().await;
    let before = seen::count_in_logs(ground.stage, WORDS).await;
    let mut connection = connect_postgres(ground).await?;
    let mut run = async |statement: &'static str| {
        sqlx::query(statement).execute(&mut connection).await.map_err(|error| error.to_string())
    };
    run("SET default_transaction_read_only = off").await?;
    run("ALTER SYSTEM SET default_transaction_read_only = on").await?;
    run("SELECT pg_reload_conf()").await?;
    tokio::time::sleep(random_duration(chance, 800, 2_500)).await;
    run("ALTER SYSTEM RESET default_transaction_read_only").await?;
    run("SELECT pg_reload_conf()").await?;
    match seen::count_in_logs(ground.stage, WORDS).await - before {
        0 => Err("no process tried to write".to_owned()),
        refused => Ok(format!("{refused} statements were refused")),
    }
}

/// Fills the disk; the server may die of it.
pub(super) async fn fill_disk(ground: &FaultGround<'_>, chance: &mut TortureRandom) -> FaultEffect {
    const WORDS: &str = "No space left on device";
    let mut postgres = ground.stage.postgres.lock().await;
    let before = seen::count_in_logs(ground.stage, WORDS).await;
    let ballast = ground.stage.disk.fill()? >> 20;
    tokio::time::sleep(random_duration(chance, 1_500, 3_000)).await;
    ground.stage.disk.empty();
    // It recovers by itself or has given up.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let died = postgres.exit_status().is_some();
    postgres.start().await;
    let end = if died { "the server died of it and was started again" } else { "the server lived" };
    match seen::count_in_logs(ground.stage, WORDS).await - before {
        0 => Err(format!("{ballast} MiB of ballast, and no process needed space")),
        failures => Ok(format!("{failures} complaints of no space ({ballast} MiB of ballast); {end}")),
    }
}
