//! Long polls of waiting external workers: their cost for the ingress, and the latency of a task.
//!
//! Every worker keeps one long poll open and takes one task at a time. Events are posted one at a time, and
//! then in bursts of one per worker. The clock of a task starts when the answer to its event is read and
//! stops when a worker has read the task.

use std::time::{Duration, Instant};

use crate::error::{BenchError, BenchResult};
use crate::external_workers::ExternalWorkerOptions;
use crate::latency::LatencyHistogram;
use crate::plan::BenchSize;
use crate::process;
use crate::report::{BurstReport, PollersReport};
use crate::request::{EventRequests, SubmitMode};
use crate::setup;
use crate::target::{EngineUnderTest, WorkerStart};
use crate::usage::other_cpu_seconds;
use crate::wire::BenchConnection;
use crate::workload::Workload;
use crate::world::BenchWorld;
use crate::{completion, verify};

const WORKLOAD: Workload = Workload::Task;
/// Pause between two events, so that all workers wait again.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_AFTER_BURST: Duration = Duration::from_millis(300);
/// A task that no worker has by then is lost.
const PATIENCE: Duration = Duration::from_secs(30);

/// Number of rounds, and duration of the waiting phase.
struct PollerExtent {
    singles: usize,
    bursts: usize,
    idle: Duration,
}

pub(crate) async fn measure_pollers(world: &BenchWorld) -> BenchResult<PollersReport> {
    let start = world.new_run(WORKLOAD.action_performers());
    let mut subject = world.start_engine(&start, WorkerStart::AtOnce).await?;
    let outcome = run_pollers(world, &mut subject, &start.run).await;
    world.finish_run(subject, outcome).await
}

async fn run_pollers(
    world: &BenchWorld,
    subject: &mut EngineUnderTest,
    run: &str,
) -> BenchResult<PollersReport> {
    let extent = match world.plan.size {
        BenchSize::Full => PollerExtent { singles: 500, bursts: 20, idle: Duration::from_secs(5) },
        BenchSize::Smoke => PollerExtent { singles: 10, bursts: 2, idle: Duration::from_millis(300) },
    };
    let workers = world.plan.pollers;
    setup::apply_definition(subject, WORKLOAD, &world.sink.url()).await?;
    let rss = |subject: &EngineUnderTest| subject.front_process().and_then(process::process_rss);
    let rss_before = rss(subject);
    subject
        .start_external_workers(ExternalWorkerOptions { workers, most: 1, complete: world.plan.complete })
        .await?;
    measure_wakeups(world, subject, &format!("w-{run}-"), 1, workers).await?;
    tokio::time::sleep(Duration::from_secs(1).min(extent.idle)).await;

    let ((before, _), began) = (world.read_meter(&subject.roles()).await?, Instant::now());
    tokio::time::sleep(extent.idle).await;
    let (idle, _) = world.read_meter(&subject.roles()).await?;
    let idle_seconds = began.elapsed().as_secs_f64();
    let rss_idle = rss(subject);

    let single = measure_wakeups(world, subject, &format!("s-{run}-"), extent.singles, 1).await?;
    let burst = measure_wakeups(world, subject, &format!("b-{run}-"), extent.bursts, workers).await?;
    let (after, _) = world.read_meter(&subject.roles()).await?;
    Ok(PollersReport {
        workers,
        ingress_rss_before: rss_before,
        ingress_rss_idle: rss_idle,
        ingress_rss_peak: subject.front_process().and_then(process::peak_rss),
        idle_cores: idle
            .usage_since(&before, 1)
            .into_iter()
            .map(|role| (role.role, role.cpu_seconds / idle_seconds))
            .collect(),
        cores_taken_by_others: other_cpu_seconds(&after, &before)
            .map(|seconds| seconds / began.elapsed().as_secs_f64()),
        single: single.percentiles(),
        burst: BurstReport { size: workers, bursts: extent.bursts, wake: burst.percentiles() },
    })
}

/// Posts `size` events, `rounds` times, each time after all tasks of the previous round have arrived; returns
/// the latency of each task.
async fn measure_wakeups(
    world: &BenchWorld,
    subject: &mut EngineUnderTest,
    prefix: &str,
    rounds: usize,
    size: usize,
) -> BenchResult<LatencyHistogram> {
    let (events, pause) = (rounds * size, if size == 1 { PAUSE } else { PAUSE_AFTER_BURST });
    setup::start_executions(&subject.address, WORKLOAD, prefix, events).await?;
    let baseline = completion::WorkCounters::read_counters(subject).await?.unwrap_or_default();
    let submit = if size == 1 { SubmitMode::Single } else { SubmitMode::Ndjson { batch: size } };
    let requests = EventRequests::new(&subject.address, WORKLOAD, prefix, events, submit);
    let bar = world.plan.progress.start_bar(if size == 1 { "one at a time" } else { "bursts" }, events);
    let (mut latencies, mut line) = (LatencyHistogram::new()?, BenchConnection::to_server(&subject.address));
    let (mut request, mut scratch) = (Vec::new(), Vec::new());
    for first in (0..events).step_by(size) {
        tokio::time::sleep(pause).await;
        let crew = subject.external_workers()?;
        crew.expect_tasks(prefix, first..first + size);
        requests.write_request(&mut request, &mut scratch, first, size);
        let reply = line
            .exchange_request(&request)
            .await
            .map_err(|error| BenchError::unreachable("the ingress", error))?;
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
        bar.set_position((first + size) as u64);
    }
    let wanted = completion::WorkCounters { decided: events as u64, attempted: events as u64 };
    completion::watch_completion(subject, baseline, || Some(wanted), |_| {}).await?;
    verify::verify_applied(subject, WORKLOAD, prefix, events, events).await?;
    Ok(latencies)
}
