//! Redis faults: every way to lose doorbells.

use std::collections::HashMap;
use std::time::Duration;

use millstream_testkit::redis::copy_files;
use nix::sys::signal::Signal;
use redis::Value;
use redis::aio::MultiplexedConnection;

use super::inject::random_duration;
use super::{FaultEffect, FaultGround, seen};
use crate::chance::TortureRandom;
use crate::check::{TortureCheck, TortureViolation};

async fn connect_redis(ground: &FaultGround<'_>) -> Result<MultiplexedConnection, String> {
    // The server may still be loading its file.
    for _ in 0..20 {
        if let Some(connection) = seen::connect_redis(ground.stage).await {
            return Ok(connection);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Err("Redis does not answer".to_owned())
}

async fn run(connection: &mut MultiplexedConnection, command: &[&str]) -> Result<Value, String> {
    let (name, arguments) = command.split_first().expect("a command");
    let mut command = redis::cmd(name);
    for argument in arguments {
        command.arg(argument);
    }
    command.query_async(connection).await.map_err(|error| error.to_string())
}

/// SIGKILL; it restarts with its append-only file.
pub(super) async fn kill_redis(ground: &FaultGround<'_>, chance: &mut TortureRandom) -> FaultEffect {
    let mut redis = ground.stage.redis.lock().await;
    redis.kill();
    tokio::time::sleep(random_duration(chance, 100, 1_500)).await;
    let gone = !seen::redis_answers(ground.stage).await;
    redis.start().await;
    if gone {
        Ok("did not answer, and came back with its file".to_owned())
    } else {
        Err("it answered".to_owned())
    }
}

pub(super) async fn restart_empty(ground: &FaultGround<'_>, chance: &mut TortureRandom) -> FaultEffect {
    let mut redis = ground.stage.redis.lock().await;
    let keys = database_size(&mut connect_redis(ground).await?).await;
    redis.kill();
    tokio::time::sleep(random_duration(chance, 100, 2_500)).await;
    redis.start_empty().await;
    until_groups(ground).await?;
    Ok(format!("came back empty; it had held {keys} keys, and the groups were recreated"))
}

async fn database_size(connection: &mut MultiplexedConnection) -> i64 {
    redis::cmd("DBSIZE").query_async(connection).await.unwrap_or(0)
}

/// Waits until the workers have detected the missing groups and recreated them.
async fn until_groups(ground: &FaultGround<'_>) -> Result<(), String> {
    for _ in 0..400 {
        if let Some(mut connection) = seen::connect_redis(ground.stage).await
            && !seen::stream_names(&mut connection).await.is_empty()
        {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    Err("the groups were not recreated within 10 s".to_owned())
}

/// Restarts with an older append-only file: acknowledged doorbells ring again, and later ones are lost
/// without an error.
pub(super) async fn restart_older(ground: &FaultGround<'_>, chance: &mut TortureRandom) -> FaultEffect {
    let mut redis = ground.stage.redis.lock().await;
    let (files, copy) = (redis.append_only_files(), ground.stage.directory.path().join("older-aof"));
    copy_files(&files, &copy).map_err(|error| error.to_string())?;
    tokio::time::sleep(random_duration(chance, 1_200, 2_500)).await;
    let before = entries_added(&mut connect_redis(ground).await?).await;
    redis.kill();
    let restored = copy_files(&copy, &files).map_err(|error| error.to_string());
    redis.start().await;
    restored?;
    let after = entries_added(&mut connect_redis(ground).await?).await;
    if after < before {
        Ok(format!("came back after {after} doorbells instead of {before}"))
    } else {
        Err(format!("nothing was rung meanwhile: {before} doorbells before, {after} after"))
    }
}

/// Number of doorbells ever rung, as recorded by the server.
async fn entries_added(connection: &mut MultiplexedConnection) -> i64 {
    let mut added = 0;
    for stream in seen::stream_names(connection).await {
        let info: redis::RedisResult<HashMap<String, Value>> =
            redis::cmd("XINFO").arg("STREAM").arg(&stream).query_async(connection).await;
        if let Ok(Some(Value::Int(entries))) = info.map(|mut info| info.remove("entries-added")) {
            added += entries;
        }
    }
    added
}

pub(super) async fn stop_redis(ground: &FaultGround<'_>, chance: &mut TortureRandom) -> FaultEffect {
    let mut redis = ground.stage.redis.lock().await;
    let length = random_duration(chance, 800, 4_000);
    redis.server_process().signal(Signal::SIGSTOP);
    tokio::time::sleep(length / 2).await;
    let answers = seen::redis_answers(ground.stage).await;
    tokio::time::sleep(length / 2).await;
    redis.server_process().signal(Signal::SIGCONT);
    if answers { Err("it answered".to_owned()) } else { Ok(format!("did not answer for {length:.1?}")) }
}

pub(super) async fn flush_redis(ground: &FaultGround<'_>) -> FaultEffect {
    let _redis = ground.stage.redis.lock().await;
    let mut connection = connect_redis(ground).await?;
    let keys = database_size(&mut connection).await;
    run(&mut connection, &["FLUSHALL"]).await?;
    until_groups(ground).await?;
    Ok(format!("{keys} keys were gone; the groups were recreated"))
}

pub(super) async fn flush_scripts(ground: &FaultGround<'_>) -> FaultEffect {
    let _redis = ground.stage.redis.lock().await;
    let mut connection = connect_redis(ground).await?;
    run(&mut connection, &["SCRIPT", "FLUSH"]).await?;
    for _ in 0..200 {
        let cached = seen::info_value(&mut connection, "memory", "number_of_cached_scripts").await;
        if let Some(cached) = cached.filter(|cached| cached != "0") {
            return Ok(format!("all scripts were forgotten; {cached} were sent again"));
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    Err("no script was sent again within 5 s".to_owned())
}

pub(super) async fn destroy_groups(ground: &FaultGround<'_>) -> FaultEffect {
    let _redis = ground.stage.redis.lock().await;
    let mut connection = connect_redis(ground).await?;
    let mut destroyed = 0;
    for stream in seen::stream_names(&mut connection).await {
        if run(&mut connection, &["XGROUP", "DESTROY", &stream, seen::GROUP]).await? == Value::Int(1) {
            destroyed += 1;
        }
    }
    match destroyed {
        0 => Err("there was no group".to_owned()),
        destroyed => Ok(format!("{destroyed} groups were destroyed")),
    }
}

/// It serves reads and acknowledgements, and refuses writes.
pub(super) async fn fill_redis(ground: &FaultGround<'_>, chance: &mut TortureRandom) -> FaultEffect {
    let _redis = ground.stage.redis.lock().await;
    let mut connection = connect_redis(ground).await?;
    run(&mut connection, &["CONFIG", "RESETSTAT"]).await?;
    run(&mut connection, &["CONFIG", "SET", "maxmemory", "1"]).await?;
    tokio::time::sleep(random_duration(chance, 1_000, 3_000)).await;
    let refused = seen::info_value(&mut connection, "errorstats", "errorstat_OOM").await;
    run(&mut connection, &["CONFIG", "SET", "maxmemory", "0"]).await?;
    refused.map(|count| format!("refused to write ({count})")).ok_or_else(|| "nothing was refused".to_owned())
}

/// A server that may evict streams: a worker must refuse to start on it.
pub(super) async fn wrong_policy(ground: &FaultGround<'_>) -> FaultEffect {
    let _redis = ground.stage.redis.lock().await;
    let mut connection = connect_redis(ground).await?;
    run(&mut connection, &["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await?;
    // Direct connection: the result must not depend on network faults.
    let started = tokio::process::Command::from(ground.stage.workers[0].command())
        .env("MILLSTREAM_WORKER__LISTEN", "")
        .env("MILLSTREAM_DATABASE_URL", &ground.stage.postgres_url)
        .env("MILLSTREAM_REDIS_URL", &ground.stage.redis_url)
        .kill_on_drop(true)
        .output();
    let ended = tokio::time::timeout(Duration::from_secs(10), started).await;
    run(&mut connection, &["CONFIG", "SET", "maxmemory-policy", "noeviction"]).await?;
    match ended {
        Ok(Ok(output)) if !output.status.success() => {
            let said =
                String::from_utf8_lossy(&output.stderr).trim().lines().last().unwrap_or_default().to_owned();
            if said.contains("polic") {
                Ok(format!("a worker refused to start: {said}"))
            } else {
                Err(format!("a worker did not start for another reason: {said}"))
            }
        }
        Ok(Ok(_)) | Err(_) => {
            let what = "a worker started on a Redis that evicts".to_owned();
            ground.record_violation(TortureViolation::new_violation(
                TortureCheck::Startup,
                "redis",
                what.clone(),
            ));
            Ok(what)
        }
        Ok(Err(error)) => Err(error.to_string()),
    }
}

/// Rings old doorbells again, several times and in another order.
pub(super) async fn ring_again(ground: &FaultGround<'_>, chance: &mut TortureRandom) -> FaultEffect {
    let _redis = ground.stage.redis.lock().await;
    let mut connection = connect_redis(ground).await?;
    let streams = seen::stream_names(&mut connection).await;
    let stream = streams.first().ok_or("there is no stream")?;
    let mut executions: Vec<String> =
        ground.record.lock_state().posts.iter().rev().take(300).map(|post| post.execution.clone()).collect();
    chance.shuffle(&mut executions);
    let mut pipeline = redis::pipe();
    for execution in &executions {
        pipeline
            .cmd("XADD")
            .arg(stream)
            .arg("*")
            .arg(&["b", "m", "t", "default", "e", execution.as_str()])
            .ignore();
    }
    pipeline.query_async::<()>(&mut connection).await.map_err(|error| error.to_string())?;
    Ok(format!("{} doorbells rang again in another order", executions.len()))
}
