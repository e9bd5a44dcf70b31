//! Processes that are killed, stopped, or have a clock that jumps.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::inject::random_duration;
use super::{FaultEffect, FaultGround, seen};
use crate::chance::TortureRandom;
use crate::stage::StageProcess;

pub(super) async fn kill_worker(ground: &FaultGround<'_>, chance: &mut TortureRandom) -> FaultEffect {
    let worker = chance.pick(&ground.stage.workers);
    let _busy = worker.busy.lock().await;
    let held = match worker.pid() {
        Some(pid) => seen::doorbells_of(ground.stage, pid).await,
        None => 0,
    };
    kill_process(worker).await?;
    Ok(format!("{} was gone and came back; it held {held} doorbells", worker.name))
}

pub(super) async fn kill_ingress(ground: &FaultGround<'_>, chance: &mut TortureRandom) -> FaultEffect {
    let ingress = chance.pick(&ground.stage.ingresses);
    let _busy = ingress.busy.lock().await;
    let before = ground.record.post_tries().unanswered;
    kill_process(ingress).await?;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let unanswered = ground.record.post_tries().unanswered - before;
    Ok(format!("{} was gone and came back; {unanswered} requests were not answered", ingress.name))
}

/// SIGKILL, and waits for the supervisor to start it again.
pub(super) async fn kill_process(process: &StageProcess) -> Result<(), String> {
    if !process.kill() {
        return Err(format!("{} was not running", process.name));
    }
    until_started(process).await
}

pub(super) async fn until_started(process: &StageProcess) -> Result<(), String> {
    for _ in 0..400 {
        tokio::time::sleep(Duration::from_millis(25)).await;
        if process.is_running() {
            return Ok(());
        }
    }
    Err(format!("{} was not started again", process.name))
}

/// Longer than the expiry of its locks and its unacknowledged doorbells.
pub(super) async fn stop_worker(ground: &FaultGround<'_>, chance: &mut TortureRandom) -> FaultEffect {
    let worker = chance.pick(&ground.stage.workers);
    let _busy = worker.busy.lock().await;
    let before = seen::metric_value(ground.stage, "millstream_worker_reclaimed_total").await;
    let length = ground.stage.deadlines.long_stop();
    let from = Instant::now();
    let stopped = stop_process(worker, length).await;
    ground.delayed_since(from);
    stopped?;
    let after = seen::metric_value(ground.stage, "millstream_worker_reclaimed_total").await;
    let taken = (after - before).max(0.0);
    Ok(format!("{} stood still for {length:.1?}; {taken} doorbells were taken over", worker.name))
}

pub(super) async fn stop_ingress(ground: &FaultGround<'_>, chance: &mut TortureRandom) -> FaultEffect {
    let ingress = chance.pick(&ground.stage.ingresses);
    let _busy = ingress.busy.lock().await;
    let before = ground.record.post_tries().unanswered;
    let length = random_duration(chance, 1_500, 4_500);
    stop_process(ingress, length).await?;
    let unanswered = ground.record.post_tries().unanswered - before;
    Ok(format!("{} stood still for {length:.1?}; {unanswered} requests were not answered", ingress.name))
}

/// SIGSTOP, and SIGCONT after this time. The kernel must report the process as stopped.
async fn stop_process(process: &StageProcess, length: Duration) -> Result<(), String> {
    process.signal(Signal::SIGSTOP);
    tokio::time::sleep(length / 2).await;
    let stopped = seen::is_stopped(process);
    tokio::time::sleep(length / 2).await;
    process.signal(Signal::SIGCONT);
    if stopped { Ok(()) } else { Err(format!("{} did not stand still", process.name)) }
}

/// Moves the clock forward, and back a little later.
pub(super) async fn jump_clock(ground: &FaultGround<'_>, chance: &mut TortureRandom) -> FaultEffect {
    if !ground.stage.drills {
        return Err("this build's clock cannot be made to jump: it has no debug assertions".to_owned());
    }
    let worker = chance.pick(&ground.stage.workers);
    let _busy = worker.busy.lock().await;
    if !seen::is_up(ground.stage, worker).await {
        return Err(format!("{} is not up", worker.name));
    }
    let jumps = || worker.log().matches("the clock of this process jumps").count();
    let before = jumps();
    for _ in 0..2 {
        // An event that kills workers may have been faster.
        if seen::is_up(ground.stage, worker).await {
            worker.signal(Signal::SIGUSR2);
        }
        tokio::time::sleep(random_duration(chance, 500, 2_500)).await;
    }
    match jumps() - before {
        0 => Err(format!("the clock of {} did not jump", worker.name)),
        jumps => Ok(format!("the clock of {} jumped {jumps} times", worker.name)),
    }
}
