//! Long polls of waiting external workers: their cost for the ingress, and the latency of a task.
//!
//! Every worker keeps one long poll open and takes one task at a time. Events are posted one at a time, and
//! then in bursts of one per worker. The clock of a task starts when the answer to its event is read and
//! stops when a worker has read the task.

use std::time::{Duration, Instant};

use crate::crew::Shape;
use crate::error::{BenchError, Result};
use crate::latency::Latencies;
use crate::plan::Size;
use crate::process;
use crate::report::{BurstReport, PollersReport};
use crate::request::{Requests, Submit};
use crate::setup;
use crate::target::{Subject, Workers};
use crate::usage::others;
use crate::wire::Connection;
use crate::workload::Workload;
use crate::world::World;
use crate::{quiet, verify};

const WORKLOAD: Workload = Workload::Task;
/// Pause between two events, so that all workers wait again.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_AFTER_BURST: Duration = Duration::from_millis(300);
/// A task that no worker has by then is lost.
const PATIENCE: Duration = Duration::from_secs(30);

/// Number of rounds, and duration of the waiting phase.
struct Extent {
    singles: usize,
    bursts: usize,
    idle: Duration,
}

pub(crate) async fn measure(world: &World) -> Result<PollersReport> {
    let start = world.new_run(WORKLOAD.hands());
    let mut subject = world.start(&start, Workers::AtOnce).await?;
    let outcome = course(world, &mut subject, &start.run).await;
    world.finish(subject, outcome).await
}

async fn course(world: &World, subject: &mut Subject, run: &str) -> Result<PollersReport> {
    let extent = match world.plan.size {
        Size::Full => Extent { singles: 500, bursts: 20, idle: Duration::from_secs(5) },
        Size::Smoke => Extent { singles: 10, bursts: 2, idle: Duration::from_millis(300) },
    };
    let workers = world.plan.pollers;
    setup::apply(subject, WORKLOAD, &world.sink.url()).await?;
    let rss = |subject: &Subject| subject.front_process().and_then(process::rss);
    let rss_before = rss(subject);
    subject.hire(Shape { workers, most: 1, complete: world.plan.complete }).await?;
    wake(world, subject, &format!("w-{run}-"), 1, workers).await?;
    tokio::time::sleep(Duration::from_secs(1).min(extent.idle)).await;

    let ((before, _), began) = (world.meter(&subject.roles()).await?, Instant::now());
    tokio::time::sleep(extent.idle).await;
    let (idle, _) = world.meter(&subject.roles()).await?;
    let idle_seconds = began.elapsed().as_secs_f64();
    let rss_idle = rss(subject);

    let single = wake(world, subject, &format!("s-{run}-"), extent.singles, 1).await?;
    let burst = wake(world, subject, &format!("b-{run}-"), extent.bursts, workers).await?;
    let (after, _) = world.meter(&subject.roles()).await?;
    Ok(PollersReport {
        workers,
        ingress_rss_before: rss_before,
        ingress_rss_idle: rss_idle,
        ingress_rss_peak: subject.front_process().and_then(process::peak_rss),
        idle_cores: idle
            .since(&before, 1)
            .into_iter()
            .map(|role| (role.role, role.cpu_seconds / idle_seconds))
            .collect(),
        cores_taken_by_others: others(&after, &before).map(|seconds| seconds / began.elapsed().as_secs_f64()),
        single: single.percentiles(),
        burst: BurstReport { size: workers, bursts: extent.bursts, wake: burst.percentiles() },
    })
}

/// Posts `size` events, `rounds` times, each time after all tasks of the previous round have arrived; returns
/// the latency of each task.
async fn wake(
    world: &World,
    subject: &mut Subject,
    prefix: &str,
    rounds: usize,
    size: usize,
) -> Result<Latencies> {
    let (events, pause) = (rounds * size, if size == 1 { PAUSE } else { PAUSE_AFTER_BURST });
    setup::start_executions(&subject.address, WORKLOAD, prefix, events).await?;
    let baseline = quiet::Counters::read(subject).await?.unwrap_or_default();
    let submit = if size == 1 { Submit::Single } else { Submit::Ndjson { batch: size } };
    let requests = Requests::new(&subject.address, WORKLOAD, prefix, events, submit);
    let bar = world.plan.progress.bar(if size == 1 { "one at a time" } else { "bursts" }, events);
    let (mut latencies, mut line) = (Latencies::new()?, Connection::to(&subject.address));
    let (mut request, mut scratch) = (Vec::new(), Vec::new());
    for first in (0..events).step_by(size) {
        tokio::time::sleep(pause).await;
        let crew = subject.crew()?;
        crew.expect(prefix, first..first + size);
        requests.write(&mut request, &mut scratch, first, size);
        let reply =
            line.exchange(&request).await.map_err(|error| BenchError::unreachable("the ingress", error))?;
        let accepted = Instant::now();
        if reply.status != 202 {
            return Err(BenchError::Wrong(format!("events were answered with {}", reply.status)));
        }
        let held = tokio::time::timeout(PATIENCE, crew.all_arrived()).await;
        let held =
            held.map_err(|_| BenchError::Wrong(format!("a task reached no worker in {PATIENCE:?}")))??;
        for held in held {
            latencies.record(held.saturating_duration_since(accepted));
        }
        bar.set((first + size) as u64);
    }
    let wanted = quiet::Counters { decided: events as u64, attempted: events as u64 };
    quiet::watch(subject, baseline, || Some(wanted), |_| {}).await?;
    verify::applied(subject, WORKLOAD, prefix, events, events).await?;
    Ok(latencies)
}
