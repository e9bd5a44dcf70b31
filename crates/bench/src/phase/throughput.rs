//! Throughput: a closed loop, and the time until everything is applied and settled.

use super::load::Load;
use super::window::Window;
use super::{backlog, history};
use crate::crew::Shape;
use crate::error::Result;
use crate::plan::{Amount, Target};
use crate::report::RunReport;
use crate::target::{Subject, Workers};
use crate::workload::{Hands, Workload};
use crate::world::World;
use crate::{setup, verify};

/// External workers: enough that some lease while others complete.
const CREW: usize = 8;
const TASKS_IN_ONE_LEASE: usize = 64;

/// One run of a workload.
pub(crate) async fn once(world: &World, workload: Workload) -> Result<RunReport> {
    if workload == Workload::Backlog {
        return match &world.plan.target {
            Target::Embedded { .. } => backlog::embedded(world).await,
            Target::Url { .. } | Target::Fleet { .. } => backlog::fleet(world).await,
        };
    }
    let start = world.new_run(workload.hands());
    let mut subject = world.start(&start, Workers::AtOnce).await?;
    let outcome = course(world, workload, &mut subject, &start.run).await;
    world.finish(subject, outcome).await
}

async fn course(world: &World, workload: Workload, subject: &mut Subject, run: &str) -> Result<RunReport> {
    let events = world.plan.events(workload);
    setup::apply(subject, workload, &world.sink.url()).await?;
    if workload.hands() == Hands::Outside {
        let complete = world.plan.complete;
        subject.hire(Shape { workers: CREW, most: TASKS_IN_ONE_LEASE, complete }).await?;
    }
    warm_up(world, workload, subject, run).await?;

    let load = Load::of(world, workload, format!("m-{run}-"), workload.executions(events));
    setup::start_executions(&subject.address, workload, &load.prefix, load.executions).await?;
    let window = Window::open(world, subject).await?;
    let (sent, quiet) = load.drive(world, subject, world.plan.amount(workload), workload.name()).await?;
    let mut report = window.close(world, subject, &sent, &quiet, sent.began).await?;
    report.executions = load.executions;
    verify::applied(subject, workload, &load.prefix, load.executions, sent.accepted).await?;
    if workload == Workload::History {
        report.history = Some(history::probe(world, subject, &load.prefix, run, sent.accepted).await?);
    }
    Ok(report)
}

/// The first events of an engine pay for its connections, statements and caches.
pub(super) async fn warm_up(
    world: &World,
    workload: Workload,
    subject: &mut Subject,
    run: &str,
) -> Result<()> {
    let events = world.plan.warmup;
    if events == 0 {
        return Ok(());
    }
    let load = Load::of(world, workload, format!("w-{run}-"), workload.executions(events));
    setup::start_executions(&subject.address, workload, &load.prefix, load.executions).await?;
    let (sent, _) = load.drive(world, subject, Amount::Events(events), "warm-up").await?;
    verify::applied(subject, workload, &load.prefix, load.executions, sent.accepted).await
}
