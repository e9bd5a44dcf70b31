//! Throughput: a closed loop, and the time until everything is applied and settled.

use super::load::WorkloadLoad;
use super::window::MeasuredWindow;
use super::{backlog, history};
use crate::error::BenchResult;
use crate::external_workers::ExternalWorkerOptions;
use crate::plan::{BenchTarget, LoadAmount};
use crate::report::RunReport;
use crate::target::{EngineUnderTest, WorkerStart};
use crate::workload::{ActionPerformers, Workload};
use crate::world::BenchWorld;
use crate::{setup, verify};

/// External workers: enough that some lease while others complete.
const CREW: usize = 8;
const TASKS_IN_ONE_LEASE: usize = 64;

/// One run of a workload.
pub(crate) async fn measure_throughput(world: &BenchWorld, workload: Workload) -> BenchResult<RunReport> {
    if workload == Workload::Backlog {
        return match &world.plan.target {
            BenchTarget::Embedded { .. } => backlog::measure_embedded(world).await,
            BenchTarget::Url { .. } | BenchTarget::Fleet { .. } => backlog::measure_fleet(world).await,
        };
    }
    let start = world.new_run(workload.action_performers());
    let mut subject = world.start_engine(&start, WorkerStart::AtOnce).await?;
    let outcome = run_workload(world, workload, &mut subject, &start.run).await;
    world.finish_run(subject, outcome).await
}

async fn run_workload(
    world: &BenchWorld,
    workload: Workload,
    subject: &mut EngineUnderTest,
    run: &str,
) -> BenchResult<RunReport> {
    let events = world.plan.workload_events(workload);
    setup::apply_definition(subject, workload, &world.sink.url()).await?;
    if workload.action_performers() == ActionPerformers::Outside {
        let complete = world.plan.complete;
        subject
            .start_external_workers(ExternalWorkerOptions {
                workers: CREW,
                most: TASKS_IN_ONE_LEASE,
                complete,
            })
            .await?;
    }
    warm_up(world, workload, subject, run).await?;

    let load =
        WorkloadLoad::for_workload(world, workload, format!("m-{run}-"), workload.execution_count(events));
    setup::start_executions(&subject.address, workload, &load.prefix, load.executions).await?;
    let window = MeasuredWindow::open_window(world, subject).await?;
    let (sent, quiet) =
        load.send_and_wait(world, subject, world.plan.workload_amount(workload), workload.name()).await?;
    let mut report = window.close_window(world, subject, &sent, &quiet, sent.began).await?;
    report.executions = load.executions;
    verify::verify_applied(subject, workload, &load.prefix, load.executions, sent.accepted).await?;
    if workload == Workload::History {
        report.history =
            Some(history::probe_history(world, subject, &load.prefix, run, sent.accepted).await?);
    }
    Ok(report)
}

/// The first events of an engine pay for its connections, statements and caches.
pub(super) async fn warm_up(
    world: &BenchWorld,
    workload: Workload,
    subject: &mut EngineUnderTest,
    run: &str,
) -> BenchResult<()> {
    let events = world.plan.warmup;
    if events == 0 {
        return Ok(());
    }
    let load =
        WorkloadLoad::for_workload(world, workload, format!("w-{run}-"), workload.execution_count(events));
    setup::start_executions(&subject.address, workload, &load.prefix, load.executions).await?;
    let (sent, _) = load.send_and_wait(world, subject, LoadAmount::Events(events), "warm-up").await?;
    verify::verify_applied(subject, workload, &load.prefix, load.executions, sent.accepted).await
}
