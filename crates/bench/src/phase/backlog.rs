//! Workers that start with a full backlog.
//!
//! The clock starts with the workers. A fleet takes its backlog over HTTP. An embedded engine has workers and
//! ingress in one process, so its backlog is written to the file before it starts.

use std::time::Instant;

use super::load::WorkloadLoad;
use super::window::MeasuredWindow;
use crate::completion::{self, WorkCounters};
use crate::error::BenchResult;
use crate::floor::BacklogPreload;
use crate::generator::SentLoad;
use crate::report::RunReport;
use crate::target::{EngineStart, EngineUnderTest, WorkerStart};
use crate::workload::Workload;
use crate::world::BenchWorld;
use crate::{setup, verify};

const WORKLOAD: Workload = Workload::Backlog;

pub(super) async fn measure_fleet(world: &BenchWorld) -> BenchResult<RunReport> {
    let start = world.new_run(WORKLOAD.action_performers());
    let mut subject = world.start_engine(&start, WorkerStart::Later).await?;
    let outcome = fleet_course(world, &mut subject, &start).await;
    world.finish_run(subject, outcome).await
}

async fn fleet_course(
    world: &BenchWorld,
    subject: &mut EngineUnderTest,
    start: &EngineStart,
) -> BenchResult<RunReport> {
    let events = world.plan.workload_events(WORKLOAD);
    setup::apply_definition(subject, WORKLOAD, &world.sink.url()).await?;
    let load = WorkloadLoad::for_workload(
        world,
        WORKLOAD,
        format!("m-{}-", start.run),
        WORKLOAD.execution_count(events),
    );
    setup::start_executions(&subject.address, WORKLOAD, &load.prefix, load.executions).await?;
    let sent = {
        let _bar = world.plan.progress.start_bar("backlog is sent", events);
        load.send_events(subject, world.plan.workload_amount(WORKLOAD)).await?
    };
    let window = MeasuredWindow::open_window(world, subject).await?;
    let began = Instant::now();
    subject.start_workers(start, world.plan.target.worker_count()).await?;
    drain_backlog(world, subject, &load, &sent, window, began).await
}

pub(super) async fn measure_embedded(world: &BenchWorld) -> BenchResult<RunReport> {
    let events = world.plan.workload_events(WORKLOAD);
    let start = world.new_run(WORKLOAD.action_performers());
    let load = WorkloadLoad::for_workload(
        world,
        WORKLOAD,
        format!("m-{}-", start.run),
        WORKLOAD.execution_count(events),
    );
    {
        let _bar = world.plan.progress.start_bar("backlog is written", events);
        BacklogPreload::open(&start.database_file())
            .await?
            .write_backlog(WORKLOAD, &load.prefix, events)
            .await?;
    }
    let began = Instant::now();
    let mut subject = world.start_engine(&start, WorkerStart::AtOnce).await?;
    let outcome = embedded_course(world, &mut subject, &load, events, began).await;
    world.finish_run(subject, outcome).await
}

async fn embedded_course(
    world: &BenchWorld,
    subject: &mut EngineUnderTest,
    load: &WorkloadLoad,
    events: usize,
    began: Instant,
) -> BenchResult<RunReport> {
    // The process starts with the measurement: its counters and its CPU time are zero.
    let window = MeasuredWindow::from_zero(world, subject).await?;
    let sent = SentLoad::written_directly(events, began)?;
    drain_backlog(world, subject, load, &sent, window, began).await
}

async fn drain_backlog(
    world: &BenchWorld,
    subject: &mut EngineUnderTest,
    load: &WorkloadLoad,
    sent: &SentLoad,
    window: MeasuredWindow,
    began: Instant,
) -> BenchResult<RunReport> {
    let bar = world.plan.progress.start_bar(WORKLOAD.name(), sent.accepted);
    let wanted = || Some(load.expected_counters(sent.accepted));
    let quiet = completion::watch_completion(subject, WorkCounters::default(), wanted, |seen| {
        bar.set_position(seen.decided)
    })
    .await?;
    let mut report = window.close_window(world, subject, sent, &quiet, began).await?;
    report.executions = load.executions;
    verify::verify_applied(subject, WORKLOAD, &load.prefix, load.executions, sent.accepted).await?;
    Ok(report)
}
