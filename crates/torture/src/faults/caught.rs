//! Faults in the middle of an operation: a service is stopped until processes wait for it, then a process is
//! killed or stopped, then the service continues.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use redis::AsyncCommands;

use super::inject::random_duration;
use super::{FaultEffect, FaultGround, processes, seen};
use crate::chance::TortureRandom;
use crate::check::{TortureCheck, TortureViolation};
use crate::stage::StageProcess;

/// Attempts to catch a process.
const TRIES: usize = 10;

/// Long enough that every active process waits for the service.
async fn let_them_wait(chance: &mut TortureRandom) {
    tokio::time::sleep(random_duration(chance, 120, 350)).await;
}

/// A worker dies while it waits for Postgres.
pub(super) async fn kill_mid_commit(ground: &FaultGround<'_>, chance: &mut TortureRandom) -> FaultEffect {
    let (worker, held) = catch_busy_worker(ground, chance, |worker| {
        worker.kill();
    })
    .await?;
    processes::until_started(worker).await?;
    Ok(format!("{} was killed while it held {held} doorbells and waited for Postgres", worker.name))
}

/// Applies a fault to a worker that holds doorbells while Postgres is stopped. Returns the worker and the
/// number of doorbells.
async fn catch_busy_worker<'a>(
    ground: &'a FaultGround<'_>,
    chance: &mut TortureRandom,
    act: impl Fn(&StageProcess),
) -> Result<(&'a StageProcess, usize), String> {
    let mut postgres = ground.stage.postgres.lock().await;
    for _ in 0..TRIES {
        postgres.signal_all(Signal::SIGSTOP);
        let_them_wait(chance).await;
        let first = chance.index(ground.stage.workers.len());
        let (before, after) = ground.stage.workers.split_at(first);
        for worker in after.iter().chain(before) {
            let Ok(_busy) = worker.busy.try_lock() else { continue };
            let held = match worker.pid() {
                Some(pid) => seen::doorbells_of(ground.stage, pid).await,
                None => 0,
            };
            if held > 0 {
                act(worker);
                postgres.signal_all(Signal::SIGCONT);
                return Ok((worker, held));
            }
        }
        postgres.signal_all(Signal::SIGCONT);
        let_them_wait(chance).await;
    }
    Err(format!("no worker held anything, {TRIES} times"))
}

/// A worker stands still between its load and its commit while others go on.
pub(super) async fn stop_mid_visit(ground: &FaultGround<'_>, chance: &mut TortureRandom) -> FaultEffect {
    let from = Instant::now();
    let (worker, held) = catch_busy_worker(ground, chance, |worker| worker.signal(Signal::SIGSTOP)).await?;
    let _busy = worker.busy.lock().await;
    let length = ground.stage.deadlines.long_stop();
    tokio::time::sleep(length).await;
    let stopped = seen::is_stopped(worker);
    worker.signal(Signal::SIGCONT);
    ground.delayed_since(from);
    if stopped {
        Ok(format!("{} stood still for {length:.1?} with {held} doorbells in its hands", worker.name))
    } else {
        Err(format!("{} did not stand still", worker.name))
    }
}

/// A worker's lock expires while the worker is stopped, and another worker takes it. When the first worker
/// continues, it must not change that lock.
pub(super) async fn overrun_lock(ground: &FaultGround<'_>, chance: &mut TortureRandom) -> FaultEffect {
    const OURS: &str = "torture/1";
    let mut connection = seen::connect_redis(ground.stage).await.ok_or("Redis does not answer")?;
    let from = Instant::now();
    let mut caught = None;
    for _ in 0..TRIES {
        caught = catch_holder(ground, chance, &mut connection).await;
        if caught.is_some() {
            break;
        }
    }
    let Some((worker, key)) = caught else { return Err("no worker held a lock".to_owned()) };
    let _busy = worker.busy.lock().await;
    let patience = ground.stage.deadlines.lock_ttl + Duration::from_secs(1);
    let mut taken = false;
    for _ in 0..patience.as_millis() / 20 {
        let set: redis::RedisResult<Option<String>> = redis::cmd("SET")
            .arg(&key)
            .arg(OURS)
            .arg("NX")
            .arg("PX")
            .arg(20_000)
            .query_async(&mut connection)
            .await;
        if matches!(set, Ok(Some(_))) {
            taken = true;
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    worker.signal(Signal::SIGCONT);
    ground.delayed_since(from);
    if !taken {
        return Err(format!("the lock that {} held did not run out", worker.name));
    }
    // It continues its visit, detects the loss, and releases the lock that it believes to hold.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let holder: Option<String> = connection.get(&key).await.map_err(|error| error.to_string())?;
    let _: redis::RedisResult<()> = connection.del(&key).await;
    match holder.as_deref() {
        Some(OURS) => {
            Ok(format!("{} went on after its lock had passed to another, and left it alone", worker.name))
        }
        other => {
            let what = format!("{} released or took {key}, which another held: {other:?}", worker.name);
            ground.record_violation(TortureViolation::new_violation(TortureCheck::Locks, &key, what.clone()));
            Ok(what)
        }
    }
}

/// A worker that holds a lock, stopped, and the lock's key.
async fn catch_holder<'a>(
    ground: &'a FaultGround<'_>,
    chance: &mut TortureRandom,
    connection: &mut redis::aio::MultiplexedConnection,
) -> Option<(&'a StageProcess, String)> {
    let mut postgres = ground.stage.postgres.lock().await;
    postgres.signal_all(Signal::SIGSTOP);
    let_them_wait(chance).await;
    let held = seen::lock_entries(connection).await;
    let caught = ground.stage.workers.iter().find_map(|worker| {
        let pid = worker.pid()?;
        let (key, _) = held.iter().find(|(_, token)| seen::is_of(token, pid))?;
        Some((worker, key.clone()))
    });
    if let Some((worker, _)) = &caught {
        worker.signal(Signal::SIGSTOP);
    }
    postgres.signal_all(Signal::SIGCONT);
    caught
}

/// An ingress dies after its commit and before it rings.
pub(super) async fn kill_unrung(ground: &FaultGround<'_>, chance: &mut TortureRandom) -> FaultEffect {
    let mut redis = ground.stage.redis.lock().await;
    let ingress = chance.pick(&ground.stage.ingresses);
    let _busy = ingress.busy.lock().await;
    let before = ground.record.accepted();
    redis.server_process().signal(Signal::SIGSTOP);
    tokio::time::sleep(random_duration(chance, 250, 700)).await;
    // Postgres may be down now, and then no event can be accepted.
    for _ in 0..TRIES {
        if ground.record.accepted() > before {
            break;
        }
        tokio::time::sleep(random_duration(chance, 250, 400)).await;
    }
    let accepted = ground.record.accepted() - before;
    let killed = ingress.kill();
    redis.server_process().signal(Signal::SIGCONT);
    drop(redis);
    if killed {
        processes::until_started(ingress).await?;
    }
    match accepted {
        0 => Err(format!("nothing was accepted before {} was killed", ingress.name)),
        accepted => Ok(format!(
            "{} was killed after {accepted} events were accepted while no doorbell could be rung",
            ingress.name
        )),
    }
}
