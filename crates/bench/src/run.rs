//! The sequence of a bench: rounds of each workload with its floor, then latencies, pollers, graphs, people
//! and devices.

use std::future::Future;

use crate::error::{BenchError, Result};
use crate::floor::{self, Shape};
use crate::phase::{devices, fairness, graph, latency, line, people, pollers, throughput};
use crate::plan::{Measure, Plan, Size};
use crate::report::{FloorReport, Machine, Report, RunReport, Spread, TaskToCall, WorkloadReport};
use crate::workload::Workload;
use crate::world::World;

/// Runs all measurements of the plan, unless `interrupted` resolves first. Everything created for them is
/// removed when this returns.
pub async fn run(plan: &Plan, interrupted: impl Future<Output = ()>) -> Result<Report> {
    plan.check()?;
    let world = World::open(plan).await?;
    let outcome = tokio::select! {
        outcome = measure(&world) => outcome,
        () = interrupted => Err(BenchError::Interrupted),
    };
    world.clean_up().await;
    outcome
}

async fn measure(world: &World) -> Result<Report> {
    let plan = &world.plan;
    let workloads = match plan.wants(Measure::Throughput) {
        true => all_runs(world).await?,
        false => Vec::new(),
    };
    let latency = match plan.wants(Measure::Latency) {
        true => Some(latency::measure(world).await?),
        false => None,
    };
    let pollers = match plan.wants(Measure::Pollers) {
        true => Some(pollers::measure(world).await?),
        false => None,
    };
    let graphs = match &plan.graphs {
        Some(graphs) => Some(graph::measure(world, graphs).await?),
        None => None,
    };
    let people = match &plan.people {
        Some(wanted) => Some(people::measure(world, wanted).await?),
        None => None,
    };
    let line = match &plan.line {
        Some(wanted) => Some(line::measure(world, wanted).await?),
        None => None,
    };
    let devices = match &plan.devices {
        Some(wanted) => Some(devices::measure(world, wanted).await?),
        None => None,
    };
    let fairness = match &plan.fairness {
        Some(wanted) => Some(fairness::measure(world, wanted).await?),
        None => None,
    };
    let mut raw = Vec::new();
    if plan.wants(Measure::FloorRaw) {
        for _ in 0..plan.runs {
            raw.push(floor::measure_raw(world, plan.events(Workload::Many)).await?);
        }
    }
    Ok(Report {
        version: env!("CARGO_PKG_VERSION"),
        machine: Machine::look(),
        target: plan.target.describe(),
        submit: plan.submit,
        connections: plan.connections,
        complete: plan.complete,
        postgres: world.postgres.clone(),
        sqlite: world.sqlite.clone(),
        redis: world.redis_facts.clone(),
        task_to_call: TaskToCall::of(&workloads),
        workloads,
        latency,
        pollers,
        graphs,
        people,
        line,
        devices,
        fairness,
        floor_raw: Spread::of(raw.into_iter()),
    })
}

/// Runs in rounds, each workload once, so that compared runs meet the same state of the machine.
async fn all_runs(world: &World) -> Result<Vec<WorkloadReport>> {
    let mut all: Vec<Runs> = world.plan.workloads.iter().copied().map(Runs::of).collect();
    for _ in 0..world.plan.runs {
        for runs in &mut all {
            runs.once_more(world).await?;
        }
    }
    Ok(all.into_iter().filter_map(Runs::report).collect())
}

/// Results of one workload so far.
struct Runs {
    workload: Workload,
    runs: Vec<RunReport>,
    floors: Vec<(Shape, f64)>,
}

impl Runs {
    const fn of(workload: Workload) -> Self {
        Self { workload, runs: Vec::new(), floors: Vec::new() }
    }

    /// The floor runs right after each run, for the same reason.
    async fn once_more(&mut self, world: &World) -> Result<()> {
        let run = throughput::once(world, self.workload).await?;
        if world.plan.wants(Measure::Floor) && self.workload.has_floor() {
            let shape = shape(world, &run);
            let events = run.events.min(floor_size(world));
            self.floors.push((shape, floor::measure(world, self.workload, events, shape).await?));
        }
        self.runs.push(run);
        Ok(())
    }

    fn report(self) -> Option<WorkloadReport> {
        let mut report = WorkloadReport::of(self.workload, self.runs)?;
        report.floor = floor_report(&self.floors, report.end_to_end_per_second.median);
        Some(report)
    }
}

fn floor_size(world: &World) -> usize {
    match world.plan.size {
        Size::Full => 100_000,
        Size::Smoke => 200,
    }
}

/// Batch sizes of the engine in this run.
fn shape(world: &World, run: &RunReport) -> Shape {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "batch sizes are small and positive"
    )]
    let mean = |name: &str| run.batches.get(name).map_or(1, |batches| batches.mean.round().max(1.0) as usize);
    let workers = world.plan.target.workers().max(1);
    Shape {
        append_batch: mean("append_items"),
        commit_batch: mean("commit_events"),
        settle_batch: mean("settle_actions"),
        // One for the ingress; a worker decides two batches concurrently and settles one.
        append_hands: 1,
        commit_hands: workers * 2,
        settle_hands: workers,
    }
}

fn floor_report(floors: &[(Shape, f64)], end_to_end: f64) -> Option<FloorReport> {
    let per_second = Spread::of(floors.iter().map(|(_, rate)| *rate))?;
    let (shape, _) = floors.iter().find(|(_, rate)| rate.total_cmp(&per_second.median).is_eq())?;
    Some(FloorReport {
        per_second,
        append_batch: shape.append_batch,
        commit_batch: shape.commit_batch,
        settle_batch: shape.settle_batch,
        append_hands: shape.append_hands,
        commit_hands: shape.commit_hands,
        settle_hands: shape.settle_hands,
        end_to_end_ratio: end_to_end / per_second.median,
    })
}
