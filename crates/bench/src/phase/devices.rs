//! Device benchmark: runs are created at a set rate, each assigned in its request; then all are completed.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use super::watched::watched;
use super::window::{Window, per_second};
use crate::calls::CallFigure;
use crate::devices::{self, Creation, Devices, DevicesReport, DevicesRun, Driven, Heartbeats, Roster, Seat};
use crate::error::{BenchError, Result};
use crate::generator::{self, Opened, Pace, on_own_thread};
use crate::plan::Target;
use crate::target::{Subject, Workers};
use crate::verify;
use crate::workload::Hands;
use crate::world::World;

pub(crate) async fn measure(world: &World, wanted: &Devices) -> Result<DevicesReport> {
    let mut runs = Vec::with_capacity(world.plan.runs);
    for _ in 0..world.plan.runs {
        let start = world.new_run(Hands::Engine);
        let mut subject = world.start(&start, Workers::AtOnce).await?;
        let roster = Roster { prefix: format!("bench-{}-", start.run), devices: wanted.devices };
        let outcome = course(world, wanted, &mut subject, &roster, &start.run).await;
        // An engine of ours is removed with its data.
        if let Target::Url { .. } = world.plan.target {
            let left = roster.leave(&subject.address).await;
            if outcome.is_ok() {
                left?;
            }
        }
        runs.push(world.finish(subject, outcome).await?);
    }
    let size = (wanted.devices, wanted.per_second, wanted.connections);
    DevicesReport::of(size, runs).ok_or_else(|| BenchError::Wrong("nothing was run".to_owned()))
}

async fn course(
    world: &World,
    wanted: &Devices,
    subject: &mut Subject,
    roster: &Roster,
    run: &str,
) -> Result<DevicesRun> {
    roster.register(&subject.address).await?;
    let heartbeats = Heartbeats::start(roster, &subject.address);
    let creation = |kind: &str, runs: usize| {
        Creation::of(format!("{kind}-{run}-"), format!("bench_{kind}_{run}"), roster, runs)
    };
    // The first runs of an engine pay for its connections, statements and caches.
    if wanted.warmup > 0 {
        let pace = Pace { per_second: wanted.per_second, count: wanted.warmup };
        let (_, creation) = create(world, subject, creation("w", wanted.warmup), pace).await?;
        let given = creation.given()?;
        drive(world, wanted, subject, &creation.prefix, &given).await?;
        devices::all_are(subject.front(), &creation, &given, "completed").await?;
    }
    let runs = wanted.runs();
    let pace = Pace { per_second: wanted.per_second, count: runs };
    let window = Window::open(world, subject).await?;
    let (opened, creation) = create(world, subject, creation("m", runs), pace).await?;
    let create_spent = window.spent(world, subject, runs).await?;
    let given = creation.given()?;
    devices::all_are(subject.front(), &creation, &given, "assigned").await?;
    let window = Window::open(world, subject).await?;
    let driven = drive(world, wanted, subject, &creation.prefix, &given).await?;
    let drive_spent = window.spent(world, subject, runs).await?;
    devices::all_are(subject.front(), &creation, &given, "completed").await?;
    let heartbeats = heartbeats.stop().await?;
    verify::nothing_left(subject).await?;

    let (engine, seconds) = (subject.engine_roles(), (driven.ended - driven.began).as_secs_f64());
    let create_seconds = (opened.sent.ended - opened.sent.began).as_secs_f64();
    Ok(DevicesRun {
        created: runs,
        calls: vec![
            CallFigure::of("create", &opened.sent.latencies),
            CallFigure::of("accept", &driven.accept),
            CallFigure::of("start", &driven.start),
            CallFigure::of("complete", &driven.complete),
        ],
        send_delay: opened.delay.percentiles(),
        seconds,
        runs_per_second: per_second(runs, seconds),
        pushed_back: opened.sent.pushed_back + driven.pushed_back,
        heartbeats,
        create_cost: create_spent.cost(&engine, create_seconds),
        drive_cost: drive_spent.cost(&engine, seconds),
    })
}

async fn create(
    world: &World,
    subject: &mut Subject,
    creation: Creation,
    pace: Pace,
) -> Result<(Opened, Creation)> {
    let (bar, done) = (world.plan.progress.bar("create runs", pace.count), AtomicUsize::new(0));
    let address = subject.address.clone();
    let creating = on_own_thread(move || generator::open(address, creation, pace));
    watched(subject, (&bar, &done), creating).await
}

/// Completes all runs in the name of their devices.
async fn drive(
    world: &World,
    wanted: &Devices,
    subject: &mut Subject,
    prefix: &str,
    given: &[Seat],
) -> Result<Driven> {
    let (bar, done) = (world.plan.progress.bar("drive runs", given.len()), Arc::new(AtomicUsize::new(0)));
    let (address, runs, connections) =
        (subject.address.clone(), (prefix.to_owned(), given.to_vec()), wanted.connections);
    let counted = done.clone();
    let driving = on_own_thread(move || devices::drive(address, runs, connections, counted));
    watched(subject, (&bar, &done), driving).await
}
