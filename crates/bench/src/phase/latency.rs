//! Latency from POST to each stage, at set rates: one engine, an open loop per stage and rate.

use std::time::{Duration, Instant};

use super::load::WorkloadLoad;
use super::throughput::warm_up;
use crate::completion::{self, WorkCounters};
use crate::error::{BenchError, BenchResult};
use crate::generator::{self, LoadPace, OpenLoopResult, on_own_thread};
use crate::latency::{LatencyHistogram, LatencyPercentiles};
use crate::plan::{BenchSize, LoadAmount};
use crate::rate::LoadRate;
use crate::report::{EventStage, LatencyFigure, LatencyReport};
use crate::request::{AwaitedStage, EventRequests, SubmitMode};
use crate::target::{EngineUnderTest, WorkerStart};
use crate::usage::other_cpu_seconds;
use crate::workload::{ActionPerformers, Workload};
use crate::world::BenchWorld;
use crate::{setup, verify};

/// Duration of one rate, and maximum number of events.
const LENGTH: Duration = Duration::from_secs(10);
const MOST: usize = 50_000;
/// Pause between the creation of the executions and the first due event.
const SETTLE: Duration = Duration::from_millis(200);

/// Measures all stages at all rates.
pub(crate) async fn measure_latency(world: &BenchWorld) -> BenchResult<LatencyReport> {
    let start = world.new_run(ActionPerformers::Engine);
    let mut subject = world.start_engine(&start, WorkerStart::AtOnce).await?;
    let outcome = run_rates(world, &mut subject, &start.run).await;
    world.finish_run(subject, outcome).await
}

async fn run_rates(
    world: &BenchWorld,
    subject: &mut EngineUnderTest,
    run: &str,
) -> BenchResult<LatencyReport> {
    for workload in [Workload::Many, Workload::Http] {
        setup::apply_definition(subject, workload, &world.sink.url()).await?;
        warm_up(world, workload, subject, &format!("{run}-{workload}")).await?;
    }
    // Fixed rates first: they are the low ones, and the capacity run leaves dead rows to vacuum.
    let (parts, fixed): (Vec<LoadRate>, Vec<LoadRate>) =
        world.plan.rates.iter().partition(|rate| rate.needs_capacity());
    let (mut figures, mut capacity) = (Vec::new(), None);
    let ((before, _), began) = (world.read_meter(&subject.roles()).await?, Instant::now());
    for (number, rate) in fixed.iter().chain(&parts).enumerate() {
        if rate.needs_capacity() && capacity.is_none() {
            capacity = Some(measure_capacity(world, subject, run).await?);
        }
        for stage in EventStage::ALL {
            let prefix = format!("l-{run}-{number}-{}-", stage.name());
            let pace = rate_pace(world, *rate, capacity.unwrap_or(0.0));
            figures.push(measure_rate(world, subject, &prefix, stage, pace, *rate).await?);
        }
    }
    let (after, _) = world.read_meter(&subject.roles()).await?;
    let cores_taken_by_others =
        other_cpu_seconds(&after, &before).map(|seconds| seconds / began.elapsed().as_secs_f64());
    Ok(LatencyReport { capacity_per_second: capacity, cores_taken_by_others, figures })
}

fn rate_pace(world: &BenchWorld, rate: LoadRate, capacity: f64) -> LoadPace {
    let per_second = rate.per_second(capacity);
    let length = match (world.plan.amount, world.plan.size) {
        (Some(LoadAmount::For(length)), _) => length,
        (Some(LoadAmount::Events(_)) | None, BenchSize::Full) => LENGTH,
        (Some(LoadAmount::Events(_)) | None, BenchSize::Smoke) => Duration::from_millis(300),
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rates are positive and bounded"
    )]
    let count = (per_second * length.as_secs_f64()) as usize;
    LoadPace { per_second, count: count.clamp(1, MOST) }
}

/// End-to-end capacity for single POSTs, in a short run.
async fn measure_capacity(world: &BenchWorld, subject: &mut EngineUnderTest, run: &str) -> BenchResult<f64> {
    let events = match world.plan.size {
        BenchSize::Full => 20_000,
        BenchSize::Smoke => 200,
    };
    let submit = SubmitMode::Single;
    let load = WorkloadLoad {
        workload: Workload::Many,
        prefix: format!("c-{run}-"),
        executions: events,
        submit,
        connections: submit.default_connections(),
    };
    setup::start_executions(&subject.address, load.workload, &load.prefix, events).await?;
    let (sent, quiet) = load.send_and_wait(world, subject, LoadAmount::Events(events), "capacity").await?;
    verify::verify_applied(subject, load.workload, &load.prefix, events, events).await?;
    let ended = quiet.at.ok_or_else(|| BenchError::Wrong("the capacity run did not end".to_owned()))?;
    Ok(super::window::per_second(events, (ended - sent.began).as_secs_f64()))
}

async fn measure_rate(
    world: &BenchWorld,
    subject: &mut EngineUnderTest,
    prefix: &str,
    stage: EventStage,
    pace: LoadPace,
    rate: LoadRate,
) -> BenchResult<LatencyFigure> {
    let workload = stage.workload();
    setup::start_executions(&subject.address, workload, prefix, pace.count).await?;
    world.sink.expect_numbers(pace.count);
    let baseline = WorkCounters::read_counters(subject).await?.unwrap_or_default();
    let address = subject.address.clone();
    let requests =
        EventRequests::new(&address, workload, prefix, pace.count, SubmitMode::Single).until(stage.until());
    let _bar = world.plan.progress.start_bar(&format!("{} at {}", stage.name(), rate.describe()), pace.count);
    tokio::time::sleep(SETTLE).await;
    // No scraping meanwhile: it would affect latencies at this scale.
    let (opened, _) = on_own_thread(move || generator::run_open_loop(address, requests, pace)).await?;
    let load = WorkloadLoad {
        workload,
        prefix: prefix.to_owned(),
        executions: pace.count,
        submit: SubmitMode::Single,
        connections: 1,
    };
    completion::watch_completion(subject, baseline, || Some(load.expected_counters(pace.count)), |_| {})
        .await?;
    verify::verify_applied(subject, workload, prefix, pace.count, opened.sent.accepted).await?;
    let latency = match stage {
        EventStage::Accepted | EventStage::Applied | EventStage::Completed => {
            opened.sent.latencies.percentiles()
        }
        EventStage::ActionStarted => start_latencies(world, &opened)?,
    };
    let send_delay = opened.delay.percentiles();
    Ok(LatencyFigure { rate, per_second: pace.per_second, stage, latency, send_delay })
}

/// Time from an event's due time to the sink's first request for it.
fn start_latencies(world: &BenchWorld, opened: &OpenLoopResult) -> BenchResult<LatencyPercentiles> {
    let mut latencies = LatencyHistogram::new()?;
    for (number, arrival) in world.sink.arrivals().into_iter().enumerate().take(opened.sent.accepted) {
        let arrival = arrival.ok_or_else(|| {
            BenchError::Wrong(format!("the action of event {number} never reached the sink"))
        })?;
        latencies.record(arrival.saturating_duration_since(opened.schedule.due_time(number)));
    }
    Ok(latencies.percentiles())
}

impl EventStage {
    fn workload(self) -> Workload {
        match self {
            Self::Accepted | Self::Applied | Self::Completed => Workload::Many,
            Self::ActionStarted => Workload::Http,
        }
    }

    fn until(self) -> AwaitedStage {
        match self {
            Self::Accepted | Self::ActionStarted => AwaitedStage::Accepted,
            Self::Applied => AwaitedStage::Applied,
            Self::Completed => AwaitedStage::Completed,
        }
    }
}
