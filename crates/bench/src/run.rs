//! The course of a bench: each workload as often as asked, its floor beside it, then latencies.

use std::future::Future;

use crate::error::{BenchError, Result};
use crate::floor::{self, Shape};
use crate::phase::{latency, throughput};
use crate::plan::{Measure, Plan, Size};
use crate::report::{FloorReport, Machine, Report, RunReport, Spread, WorkloadReport};
use crate::workload::Workload;
use crate::world::World;

/// Measures everything that the plan names, unless `interrupted` resolves first. Whatever was made for
/// it is gone when this returns.
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
    let mut workloads = Vec::new();
    if plan.wants(Measure::Throughput) {
        for workload in &plan.workloads {
            workloads.extend(all_runs(world, *workload).await?);
        }
    }
    let latency = match plan.wants(Measure::Latency) {
        true => Some(latency::measure(world).await?),
        false => None,
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
        postgres: world.postgres.clone(),
        sqlite: world.sqlite.clone(),
        redis: world.redis_facts.clone(),
        workloads,
        latency,
        floor_raw: Spread::of(raw.into_iter()),
    })
}

/// The floor comes right after each run, so that both met the same machine.
async fn all_runs(world: &World, workload: Workload) -> Result<Option<WorkloadReport>> {
    let (mut runs, mut floors) = (Vec::new(), Vec::new());
    for _ in 0..world.plan.runs {
        let run = throughput::once(world, workload).await?;
        if world.plan.wants(Measure::Floor) && workload.has_floor() {
            let shape = shape(world, &run);
            let events = run.events.min(floor_size(world));
            floors.push((shape, floor::measure(world, workload, events, shape).await?));
        }
        runs.push(run);
    }
    let mut report = WorkloadReport::of(workload, runs);
    if let Some(report) = &mut report {
        report.floor = floor_report(&floors, report.end_to_end_per_second.median);
    }
    Ok(report)
}

fn floor_size(world: &World) -> usize {
    match world.plan.size {
        Size::Full => 100_000,
        Size::Smoke => 200,
    }
}

/// The batch sizes that the engine had in this run.
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
        // One for the door; a worker decides two batches at a time and settles one.
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
