//! Workers that start with a full backlog.
//!
//! The clock starts with the workers. A fleet takes its backlog over HTTP. An embedded engine has workers and
//! ingress in one process, so its backlog is written to the file before it starts.

use std::time::Instant;

use super::load::Load;
use super::window::Window;
use crate::error::Result;
use crate::floor::Preload;
use crate::generator::Sent;
use crate::quiet::{self, Counters};
use crate::report::RunReport;
use crate::target::{Start, Subject, Workers};
use crate::workload::Workload;
use crate::world::World;
use crate::{setup, verify};

const WORKLOAD: Workload = Workload::Backlog;

pub(super) async fn fleet(world: &World) -> Result<RunReport> {
    let start = world.new_run(WORKLOAD.hands());
    let mut subject = world.start(&start, Workers::Later).await?;
    let outcome = fleet_course(world, &mut subject, &start).await;
    world.finish(subject, outcome).await
}

async fn fleet_course(world: &World, subject: &mut Subject, start: &Start) -> Result<RunReport> {
    let events = world.plan.events(WORKLOAD);
    setup::apply(subject, WORKLOAD, &world.sink.url()).await?;
    let load = Load::of(world, WORKLOAD, format!("m-{}-", start.run), WORKLOAD.executions(events));
    setup::start_executions(&subject.address, WORKLOAD, &load.prefix, load.executions).await?;
    let sent = {
        let _bar = world.plan.progress.bar("backlog is sent", events);
        load.send(subject, world.plan.amount(WORKLOAD)).await?
    };
    let window = Window::open(world, subject).await?;
    let began = Instant::now();
    subject.start_workers(start, world.plan.target.workers()).await?;
    drain(world, subject, &load, &sent, window, began).await
}

pub(super) async fn embedded(world: &World) -> Result<RunReport> {
    let events = world.plan.events(WORKLOAD);
    let start = world.new_run(WORKLOAD.hands());
    let load = Load::of(world, WORKLOAD, format!("m-{}-", start.run), WORKLOAD.executions(events));
    {
        let _bar = world.plan.progress.bar("backlog is written", events);
        Preload::open(&start.database_file()).await?.put(WORKLOAD, &load.prefix, events).await?;
    }
    let began = Instant::now();
    let mut subject = world.start(&start, Workers::AtOnce).await?;
    let outcome = embedded_course(world, &mut subject, &load, events, began).await;
    world.finish(subject, outcome).await
}

async fn embedded_course(
    world: &World,
    subject: &mut Subject,
    load: &Load,
    events: usize,
    began: Instant,
) -> Result<RunReport> {
    // The process starts with the measurement: its counters and its CPU time are zero.
    let window = Window::from_zero(world, subject).await?;
    let sent = Sent::elsewhere(events, began)?;
    drain(world, subject, load, &sent, window, began).await
}

async fn drain(
    world: &World,
    subject: &mut Subject,
    load: &Load,
    sent: &Sent,
    window: Window,
    began: Instant,
) -> Result<RunReport> {
    let bar = world.plan.progress.bar(WORKLOAD.name(), sent.accepted);
    let wanted = || Some(load.leads_to(sent.accepted));
    let quiet = quiet::watch(subject, Counters::default(), wanted, |seen| bar.set(seen.decided)).await?;
    let mut report = window.close(world, subject, sent, &quiet, began).await?;
    report.executions = load.executions;
    verify::applied(subject, WORKLOAD, &load.prefix, load.executions, sent.accepted).await?;
    Ok(report)
}
