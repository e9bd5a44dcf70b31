//! Latency from POST to each stage, at set rates: one engine, an open loop per stage and rate.

use std::time::{Duration, Instant};

use super::load::Load;
use super::throughput::warm_up;
use crate::error::{BenchError, Result};
use crate::generator::{self, Opened, Pace, on_own_thread};
use crate::latency::{Latencies, Percentiles};
use crate::plan::{Amount, Size};
use crate::quiet::{self, Counters};
use crate::rate::Rate;
use crate::report::{LatencyFigure, LatencyReport, Stage};
use crate::request::{Requests, Submit, Until};
use crate::target::{Subject, Workers};
use crate::usage::others;
use crate::workload::{Hands, Workload};
use crate::world::World;
use crate::{setup, verify};

/// Duration of one rate, and maximum number of events.
const LENGTH: Duration = Duration::from_secs(10);
const MOST: usize = 50_000;
/// Pause between the creation of the executions and the first due event.
const SETTLE: Duration = Duration::from_millis(200);

/// Measures all stages at all rates.
pub(crate) async fn measure(world: &World) -> Result<LatencyReport> {
    let start = world.new_run(Hands::Engine);
    let mut subject = world.start(&start, Workers::AtOnce).await?;
    let outcome = course(world, &mut subject, &start.run).await;
    world.finish(subject, outcome).await
}

async fn course(world: &World, subject: &mut Subject, run: &str) -> Result<LatencyReport> {
    for workload in [Workload::Many, Workload::Http] {
        setup::apply(subject, workload, &world.sink.url()).await?;
        warm_up(world, workload, subject, &format!("{run}-{workload}")).await?;
    }
    // Fixed rates first: they are the low ones, and the capacity run leaves dead rows to vacuum.
    let (parts, fixed): (Vec<Rate>, Vec<Rate>) =
        world.plan.rates.iter().partition(|rate| rate.needs_capacity());
    let (mut figures, mut capacity) = (Vec::new(), None);
    let ((before, _), began) = (world.meter(&subject.roles()).await?, Instant::now());
    for (number, rate) in fixed.iter().chain(&parts).enumerate() {
        if rate.needs_capacity() && capacity.is_none() {
            capacity = Some(measure_capacity(world, subject, run).await?);
        }
        for stage in Stage::ALL {
            let prefix = format!("l-{run}-{number}-{}-", stage.name());
            let pace = pace(world, *rate, capacity.unwrap_or(0.0));
            figures.push(one(world, subject, &prefix, stage, pace, *rate).await?);
        }
    }
    let (after, _) = world.meter(&subject.roles()).await?;
    let cores_taken_by_others =
        others(&after, &before).map(|seconds| seconds / began.elapsed().as_secs_f64());
    Ok(LatencyReport { capacity_per_second: capacity, cores_taken_by_others, figures })
}

fn pace(world: &World, rate: Rate, capacity: f64) -> Pace {
    let per_second = rate.per_second(capacity);
    let length = match (world.plan.amount, world.plan.size) {
        (Some(Amount::For(length)), _) => length,
        (Some(Amount::Events(_)) | None, Size::Full) => LENGTH,
        (Some(Amount::Events(_)) | None, Size::Smoke) => Duration::from_millis(300),
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rates are positive and bounded"
    )]
    let count = (per_second * length.as_secs_f64()) as usize;
    Pace { per_second, count: count.clamp(1, MOST) }
}

/// End-to-end capacity for single POSTs, in a short run.
async fn measure_capacity(world: &World, subject: &mut Subject, run: &str) -> Result<f64> {
    let events = match world.plan.size {
        Size::Full => 20_000,
        Size::Smoke => 200,
    };
    let submit = Submit::Single;
    let load = Load {
        workload: Workload::Many,
        prefix: format!("c-{run}-"),
        executions: events,
        submit,
        connections: submit.default_connections(),
    };
    setup::start_executions(&subject.address, load.workload, &load.prefix, events).await?;
    let (sent, quiet) = load.drive(world, subject, Amount::Events(events), "capacity").await?;
    verify::applied(subject, load.workload, &load.prefix, events, events).await?;
    let ended = quiet.at.ok_or_else(|| BenchError::Wrong("the capacity run did not end".to_owned()))?;
    Ok(super::window::per_second(events, (ended - sent.began).as_secs_f64()))
}

async fn one(
    world: &World,
    subject: &mut Subject,
    prefix: &str,
    stage: Stage,
    pace: Pace,
    rate: Rate,
) -> Result<LatencyFigure> {
    let workload = stage.workload();
    setup::start_executions(&subject.address, workload, prefix, pace.count).await?;
    world.sink.expect(pace.count);
    let baseline = Counters::read(subject).await?.unwrap_or_default();
    let address = subject.address.clone();
    let requests = Requests::new(&address, workload, prefix, pace.count, Submit::Single).until(stage.until());
    let _bar = world.plan.progress.bar(&format!("{} at {}", stage.name(), rate.describe()), pace.count);
    tokio::time::sleep(SETTLE).await;
    // No scraping meanwhile: it would affect latencies at this scale.
    let (opened, _) = on_own_thread(move || generator::open(address, requests, pace)).await?;
    let load = Load {
        workload,
        prefix: prefix.to_owned(),
        executions: pace.count,
        submit: Submit::Single,
        connections: 1,
    };
    quiet::watch(subject, baseline, || Some(load.leads_to(pace.count)), |_| {}).await?;
    verify::applied(subject, workload, prefix, pace.count, opened.sent.accepted).await?;
    let latency = match stage {
        Stage::Accepted | Stage::Applied | Stage::Completed => opened.sent.latencies.percentiles(),
        Stage::ActionStarted => started(world, &opened)?,
    };
    let send_delay = opened.delay.percentiles();
    Ok(LatencyFigure { rate, per_second: pace.per_second, stage, latency, send_delay })
}

/// Time from an event's due time to the sink's first request for it.
fn started(world: &World, opened: &Opened) -> Result<Percentiles> {
    let mut latencies = Latencies::new()?;
    for (number, arrival) in world.sink.arrivals().into_iter().enumerate().take(opened.sent.accepted) {
        let arrival = arrival.ok_or_else(|| {
            BenchError::Wrong(format!("the action of event {number} never reached the sink"))
        })?;
        latencies.record(arrival.saturating_duration_since(opened.schedule.at(number)));
    }
    Ok(latencies.percentiles())
}

impl Stage {
    fn workload(self) -> Workload {
        match self {
            Self::Accepted | Self::Applied | Self::Completed => Workload::Many,
            Self::ActionStarted => Workload::Http,
        }
    }

    fn until(self) -> Until {
        match self {
            Self::Accepted | Self::ActionStarted => Until::Accepted,
            Self::Applied => Until::Applied,
            Self::Completed => Until::Completed,
        }
    }
}
