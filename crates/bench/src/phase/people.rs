//! People benchmark at full speed: from the first `next` of any person to the last `submit`.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use super::watched::watched;
use super::window::{Window, per_second};
use crate::calls::CallFigure;
use crate::error::{BenchError, Result};
use crate::generator::on_own_thread;
use crate::people::{self, People, PeopleReport, PeopleRun, Queue, Worked};
use crate::target::{Subject, Workers};
use crate::verify;
use crate::workload::Hands;
use crate::world::World;

pub(crate) async fn measure(world: &World, wanted: &People) -> Result<PeopleReport> {
    let mut runs = Vec::with_capacity(world.plan.runs);
    for _ in 0..world.plan.runs {
        let start = world.new_run(Hands::Engine);
        let mut subject = world.start(&start, Workers::AtOnce).await?;
        let outcome = course(world, wanted, &mut subject, &start.run).await;
        runs.push(world.finish(subject, outcome).await?);
    }
    let size = (wanted.people, wanted.items, wanted.overlap);
    PeopleReport::of(size, runs).ok_or_else(|| BenchError::Wrong("nothing was run".to_owned()))
}

async fn course(world: &World, wanted: &People, subject: &mut Subject, run: &str) -> Result<PeopleRun> {
    let queue = |kind: &str, items: usize| Queue {
        name: format!("bench_{kind}_{run}"),
        items,
        overlap: wanted.overlap,
        people: wanted.people,
    };
    // The first answers of an engine pay for its connections, statements and caches.
    if wanted.warmup > 0 {
        let queue = queue("w", wanted.warmup);
        queue.make(subject.front()).await?;
        queue.import(subject.front()).await?;
        let worked = drive(world, subject, &queue, "warm-up").await?;
        people::all_done(subject.front(), &queue, &worked.answers).await?;
    }
    let queue = queue("m", wanted.items);
    queue.make(subject.front()).await?;
    let import_seconds = queue.import(subject.front()).await?;
    let window = Window::open(world, subject).await?;
    let worked = drive(world, subject, &queue, "people").await?;
    let spent = window.spent(world, subject, worked.answers.len()).await?;
    people::all_done(subject.front(), &queue, &worked.answers).await?;
    verify::nothing_left(subject).await?;

    let seconds = (worked.ended - worked.began).as_secs_f64();
    Ok(PeopleRun {
        answers: worked.answers.len(),
        seconds,
        answers_per_second: per_second(worked.answers.len(), seconds),
        calls: vec![
            CallFigure::of("next", &worked.next),
            CallFigure::of("start", &worked.start),
            CallFigure::of("submit", &worked.submit),
        ],
        pushed_back: worked.pushed_back,
        imported_per_second: per_second(queue.items, import_seconds),
        cost: spent.cost(&subject.engine_roles(), seconds),
    })
}

async fn drive(world: &World, subject: &mut Subject, queue: &Queue, what: &str) -> Result<Worked> {
    let bar = world.plan.progress.bar(what, queue.items * queue.overlap);
    let done = Arc::new(AtomicUsize::new(0));
    let (address, queue, counted) = (subject.address.clone(), queue.clone(), done.clone());
    let working = on_own_thread(move || people::work(address, queue, counted));
    watched(subject, (&bar, &done), working).await
}
