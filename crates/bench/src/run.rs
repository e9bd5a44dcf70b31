//! The sequence of a bench: rounds of each workload with its floor, then latencies, pollers, graphs, people
//! and devices.

use std::future::Future;

use crate::error::{BenchError, BenchResult};
use crate::floor::{self, FloorShape};
use crate::phase::{devices, fairness, graph, latency, line, people, pollers, throughput};
use crate::plan::{BenchMeasure, BenchPlan, BenchSize};
use crate::report::{
    BenchReport, FigureSpread, FloorReport, MachineFacts, RunReport, TaskToCall, WorkloadReport,
};
use crate::workload::Workload;
use crate::world::BenchWorld;

/// Runs all measurements of the plan, unless `interrupted` resolves first. Everything created for them is
/// removed when this returns.
pub async fn run(plan: &BenchPlan, interrupted: impl Future<Output = ()>) -> BenchResult<BenchReport> {
    plan.validate_plan()?;
    let world = BenchWorld::open_services(plan).await?;
    let outcome = tokio::select! {
        outcome = run_measures(&world) => outcome,
        () = interrupted => Err(BenchError::Interrupted),
    };
    world.clean_up().await;
    outcome
}

async fn run_measures(world: &BenchWorld) -> BenchResult<BenchReport> {
    let plan = &world.plan;
    let workloads = match plan.includes_measure(BenchMeasure::Throughput) {
        true => all_runs(world).await?,
        false => Vec::new(),
    };
    let latency = match plan.includes_measure(BenchMeasure::Latency) {
        true => Some(latency::measure_latency(world).await?),
        false => None,
    };
    let pollers = match plan.includes_measure(BenchMeasure::Pollers) {
        true => Some(pollers::measure_pollers(world).await?),
        false => None,
    };
    let graphs = match &plan.graphs {
        Some(graphs) => Some(graph::measure_graphs(world, graphs).await?),
        None => None,
    };
    let people = match &plan.people {
        Some(wanted) => Some(people::measure_people(world, wanted).await?),
        None => None,
    };
    let line = match &plan.line {
        Some(wanted) => Some(line::measure_line(world, wanted).await?),
        None => None,
    };
    let devices = match &plan.devices {
        Some(wanted) => Some(devices::measure_devices(world, wanted).await?),
        None => None,
    };
    let fairness = match &plan.fairness {
        Some(wanted) => Some(fairness::measure_fairness(world, wanted).await?),
        None => None,
    };
    let mut raw = Vec::new();
    if plan.includes_measure(BenchMeasure::FloorRaw) {
        for _ in 0..plan.runs {
            raw.push(floor::measure_raw(world, plan.workload_events(Workload::Many)).await?);
        }
    }
    Ok(BenchReport {
        version: env!("CARGO_PKG_VERSION"),
        machine: MachineFacts::read_facts(),
        target: plan.target.describe(),
        submit: plan.submit,
        connections: plan.connections,
        complete: plan.complete,
        postgres: world.postgres.clone(),
        sqlite: world.sqlite.clone(),
        redis: world.redis_facts.clone(),
        task_to_call: TaskToCall::from_workloads(&workloads),
        workloads,
        latency,
        pollers,
        graphs,
        people,
        line,
        devices,
        fairness,
        floor_raw: FigureSpread::from_values(raw.into_iter()),
    })
}

/// Runs in rounds, each workload once, so that compared runs meet the same state of the machine.
async fn all_runs(world: &BenchWorld) -> BenchResult<Vec<WorkloadReport>> {
    let mut all: Vec<WorkloadRuns> =
        world.plan.workloads.iter().copied().map(WorkloadRuns::for_workload).collect();
    for _ in 0..world.plan.runs {
        for runs in &mut all {
            runs.run_once_more(world).await?;
        }
    }
    Ok(all.into_iter().filter_map(WorkloadRuns::into_report).collect())
}

/// Results of one workload so far.
struct WorkloadRuns {
    workload: Workload,
    runs: Vec<RunReport>,
    floors: Vec<(FloorShape, f64)>,
}

impl WorkloadRuns {
    const fn for_workload(workload: Workload) -> Self {
        Self { workload, runs: Vec::new(), floors: Vec::new() }
    }

    /// The floor runs right after each run, for the same reason.
    async fn run_once_more(&mut self, world: &BenchWorld) -> BenchResult<()> {
        let run = throughput::measure_throughput(world, self.workload).await?;
        if world.plan.includes_measure(BenchMeasure::Floor) && self.workload.has_floor() {
            let shape = floor_shape(world, &run);
            let events = run.events.min(floor_size(world));
            self.floors.push((shape, floor::measure_floor(world, self.workload, events, shape).await?));
        }
        self.runs.push(run);
        Ok(())
    }

    fn into_report(self) -> Option<WorkloadReport> {
        let mut report = WorkloadReport::from_runs(self.workload, self.runs)?;
        report.floor = floor_report(&self.floors, report.end_to_end_per_second.median);
        Some(report)
    }
}

fn floor_size(world: &BenchWorld) -> usize {
    match world.plan.size {
        BenchSize::Full => 100_000,
        BenchSize::Smoke => 200,
    }
}

/// Batch sizes of the engine in this run.
fn floor_shape(world: &BenchWorld, run: &RunReport) -> FloorShape {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "batch sizes are small and positive"
    )]
    let mean = |name: &str| run.batches.get(name).map_or(1, |batches| batches.mean.round().max(1.0) as usize);
    let workers = world.plan.target.worker_count().max(1);
    FloorShape {
        append_batch: mean("append_items"),
        commit_batch: mean("commit_events"),
        settle_batch: mean("settle_actions"),
        // One for the ingress; a worker decides two batches concurrently and settles one.
        append_hands: 1,
        commit_hands: workers * 2,
        settle_hands: workers,
    }
}

fn floor_report(floors: &[(FloorShape, f64)], end_to_end: f64) -> Option<FloorReport> {
    let per_second = FigureSpread::from_values(floors.iter().map(|(_, rate)| *rate))?;
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
