//! People benchmark at full speed: from the first `next` of any person to the last `submit`.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use super::watched::run_watched;
use super::window::{MeasuredWindow, per_second};
use crate::calls::CallFigure;
use crate::error::{BenchError, BenchResult};
use crate::generator::on_own_thread;
use crate::people::{self, BenchQueue, PeopleBench, PeopleReport, PeopleRun, PeopleWork};
use crate::target::{EngineUnderTest, WorkerStart};
use crate::verify;
use crate::workload::ActionPerformers;
use crate::world::BenchWorld;

pub(crate) async fn measure_people(world: &BenchWorld, wanted: &PeopleBench) -> BenchResult<PeopleReport> {
    let mut runs = Vec::with_capacity(world.plan.runs);
    for _ in 0..world.plan.runs {
        let start = world.new_run(ActionPerformers::Engine);
        let mut subject = world.start_engine(&start, WorkerStart::AtOnce).await?;
        let outcome = run_once(world, wanted, &mut subject, &start.run).await;
        runs.push(world.finish_run(subject, outcome).await?);
    }
    let size = (wanted.people, wanted.items, wanted.overlap);
    PeopleReport::from_runs(size, runs).ok_or_else(|| BenchError::Wrong("nothing was run".to_owned()))
}

async fn run_once(
    world: &BenchWorld,
    wanted: &PeopleBench,
    subject: &mut EngineUnderTest,
    run: &str,
) -> BenchResult<PeopleRun> {
    let queue = |kind: &str, items: usize| BenchQueue {
        name: format!("bench_{kind}_{run}"),
        items,
        overlap: wanted.overlap,
        people: wanted.people,
    };
    // The first answers of an engine pay for its connections, statements and caches.
    if wanted.warmup > 0 {
        let queue = queue("w", wanted.warmup);
        queue.create_queue(subject.front_connection()).await?;
        queue.import_items(subject.front_connection()).await?;
        let worked = work_off_queue(world, subject, &queue, "warm-up").await?;
        people::verify_queue(subject.front_connection(), &queue, &worked.answers).await?;
    }
    let queue = queue("m", wanted.items);
    queue.create_queue(subject.front_connection()).await?;
    let import_seconds = queue.import_items(subject.front_connection()).await?;
    let window = MeasuredWindow::open_window(world, subject).await?;
    let worked = work_off_queue(world, subject, &queue, "people").await?;
    let spent = window.usage_since_open(world, subject, worked.answers.len()).await?;
    people::verify_queue(subject.front_connection(), &queue, &worked.answers).await?;
    verify::verify_nothing_left(subject).await?;

    let seconds = (worked.ended - worked.began).as_secs_f64();
    Ok(PeopleRun {
        answers: worked.answers.len(),
        seconds,
        answers_per_second: per_second(worked.answers.len(), seconds),
        calls: vec![
            CallFigure::from_latencies("next", &worked.next),
            CallFigure::from_latencies("start", &worked.start),
            CallFigure::from_latencies("submit", &worked.submit),
        ],
        pushed_back: worked.pushed_back,
        imported_per_second: per_second(queue.items, import_seconds),
        cost: spent.work_cost(&subject.engine_roles(), seconds),
    })
}

async fn work_off_queue(
    world: &BenchWorld,
    subject: &mut EngineUnderTest,
    queue: &BenchQueue,
    what: &str,
) -> BenchResult<PeopleWork> {
    let bar = world.plan.progress.start_bar(what, queue.items * queue.overlap);
    let done = Arc::new(AtomicUsize::new(0));
    let (address, queue, counted) = (subject.address.clone(), queue.clone(), done.clone());
    let working = on_own_thread(move || people::run_people(address, queue, counted));
    run_watched(subject, (&bar, &done), working).await
}
