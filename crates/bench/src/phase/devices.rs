//! Device benchmark: runs are created at a set rate, each assigned in its request; then all are completed.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use super::watched::run_watched;
use super::window::{MeasuredWindow, per_second};
use crate::calls::CallFigure;
use crate::devices::{
    self, BenchRoster, BenchSeat, DeviceBench, DevicesReport, DevicesRun, DrivenRuns, RosterHeartbeats,
    RunCreation,
};
use crate::error::{BenchError, BenchResult};
use crate::generator::{self, LoadPace, OpenLoopResult, on_own_thread};
use crate::plan::BenchTarget;
use crate::target::{EngineUnderTest, WorkerStart};
use crate::verify;
use crate::workload::ActionPerformers;
use crate::world::BenchWorld;

pub(crate) async fn measure_devices(world: &BenchWorld, wanted: &DeviceBench) -> BenchResult<DevicesReport> {
    let mut runs = Vec::with_capacity(world.plan.runs);
    for _ in 0..world.plan.runs {
        let start = world.new_run(ActionPerformers::Engine);
        let mut subject = world.start_engine(&start, WorkerStart::AtOnce).await?;
        let roster = BenchRoster { prefix: format!("bench-{}-", start.run), devices: wanted.devices };
        let outcome = run_once(world, wanted, &mut subject, &roster, &start.run).await;
        // An engine of ours is removed with its data.
        if let BenchTarget::Url { .. } = world.plan.target {
            let left = roster.remove_all(&subject.address).await;
            if outcome.is_ok() {
                left?;
            }
        }
        runs.push(world.finish_run(subject, outcome).await?);
    }
    let size = (wanted.devices, wanted.per_second, wanted.connections);
    DevicesReport::from_runs(size, runs).ok_or_else(|| BenchError::Wrong("nothing was run".to_owned()))
}

async fn run_once(
    world: &BenchWorld,
    wanted: &DeviceBench,
    subject: &mut EngineUnderTest,
    roster: &BenchRoster,
    run: &str,
) -> BenchResult<DevicesRun> {
    roster.register_all(&subject.address).await?;
    let heartbeats = RosterHeartbeats::start(roster, &subject.address);
    let creation = |kind: &str, runs: usize| {
        RunCreation::for_roster(format!("{kind}-{run}-"), format!("bench_{kind}_{run}"), roster, runs)
    };
    // The first runs of an engine pay for its connections, statements and caches.
    if wanted.warmup > 0 {
        let pace = LoadPace { per_second: wanted.per_second, count: wanted.warmup };
        let (_, creation) = create_runs(world, subject, creation("w", wanted.warmup), pace).await?;
        let given = creation.assigned_seats()?;
        complete_runs(world, wanted, subject, &creation.prefix, &given).await?;
        devices::verify_all_have_status(subject.front_connection(), &creation, &given, "completed").await?;
    }
    let runs = wanted.run_count();
    let pace = LoadPace { per_second: wanted.per_second, count: runs };
    let window = MeasuredWindow::open_window(world, subject).await?;
    let (opened, creation) = create_runs(world, subject, creation("m", runs), pace).await?;
    let create_spent = window.usage_since_open(world, subject, runs).await?;
    let given = creation.assigned_seats()?;
    devices::verify_all_have_status(subject.front_connection(), &creation, &given, "assigned").await?;
    let window = MeasuredWindow::open_window(world, subject).await?;
    let driven = complete_runs(world, wanted, subject, &creation.prefix, &given).await?;
    let drive_spent = window.usage_since_open(world, subject, runs).await?;
    devices::verify_all_have_status(subject.front_connection(), &creation, &given, "completed").await?;
    let heartbeats = heartbeats.stop().await?;
    verify::verify_nothing_left(subject).await?;

    let (engine, seconds) = (subject.engine_roles(), (driven.ended - driven.began).as_secs_f64());
    let create_seconds = (opened.sent.ended - opened.sent.began).as_secs_f64();
    Ok(DevicesRun {
        created: runs,
        calls: vec![
            CallFigure::from_latencies("create", &opened.sent.latencies),
            CallFigure::from_latencies("accept", &driven.accept),
            CallFigure::from_latencies("start", &driven.start),
            CallFigure::from_latencies("complete", &driven.complete),
        ],
        send_delay: opened.delay.percentiles(),
        seconds,
        runs_per_second: per_second(runs, seconds),
        pushed_back: opened.sent.pushed_back + driven.pushed_back,
        heartbeats,
        create_cost: create_spent.work_cost(&engine, create_seconds),
        drive_cost: drive_spent.work_cost(&engine, seconds),
    })
}

async fn create_runs(
    world: &BenchWorld,
    subject: &mut EngineUnderTest,
    creation: RunCreation,
    pace: LoadPace,
) -> BenchResult<(OpenLoopResult, RunCreation)> {
    let (bar, done) = (world.plan.progress.start_bar("create runs", pace.count), AtomicUsize::new(0));
    let address = subject.address.clone();
    let creating = on_own_thread(move || generator::run_open_loop(address, creation, pace));
    run_watched(subject, (&bar, &done), creating).await
}

/// Completes all runs in the name of their devices.
async fn complete_runs(
    world: &BenchWorld,
    wanted: &DeviceBench,
    subject: &mut EngineUnderTest,
    prefix: &str,
    given: &[BenchSeat],
) -> BenchResult<DrivenRuns> {
    let (bar, done) =
        (world.plan.progress.start_bar("drive runs", given.len()), Arc::new(AtomicUsize::new(0)));
    let (address, runs, connections) =
        (subject.address.clone(), (prefix.to_owned(), given.to_vec()), wanted.connections);
    let counted = done.clone();
    let driving = on_own_thread(move || devices::drive_runs(address, runs, connections, counted));
    run_watched(subject, (&bar, &done), driving).await
}
