//! Cost of an event for an execution with a long history, compared with an execution without one.
//!
//! Probes alternate between the two, so that disturbances of the machine affect both.

use std::time::Instant;

use crate::error::{BenchError, BenchResult};
use crate::generator::on_own_thread;
use crate::latency::LatencyHistogram;
use crate::plan::BenchSize;
use crate::report::HistoryReport;
use crate::request::{AwaitedStage, EventRequests, SubmitMode};
use crate::setup;
use crate::target::EngineUnderTest;
use crate::wire::{BenchConnection, ServerAddress};
use crate::workload::Workload;
use crate::world::BenchWorld;

/// Sends single events in turn to new executions and to the old one, `{prefix}0`.
pub(super) async fn probe_history(
    world: &BenchWorld,
    subject: &mut EngineUnderTest,
    prefix: &str,
    run: &str,
    events: usize,
) -> BenchResult<HistoryReport> {
    let probes = match world.plan.size {
        BenchSize::Full => 300,
        BenchSize::Smoke => 10,
    };
    let fresh = format!("f-{run}-");
    setup::start_executions(&subject.address, Workload::History, &fresh, probes).await?;
    let address = subject.address.clone();
    let requests = |prefix: &str, executions| {
        EventRequests::new(&address, Workload::History, prefix, executions, SubmitMode::Single)
            .until(AwaitedStage::Applied)
    };
    let (new, old, address) = (requests(&fresh, probes), requests(prefix, 1), address.clone());
    let (first, next) = on_own_thread(move || alternate_probes(address, new, old, probes)).await?;
    let (first, next) = (first.percentiles(), next.percentiles());
    let ratio = if first.p50_ms > 0.0 { next.p50_ms / first.p50_ms } else { 0.0 };
    Ok(HistoryReport { events, first, next, ratio })
}

async fn alternate_probes(
    address: ServerAddress,
    new: EventRequests,
    old: EventRequests,
    probes: usize,
) -> BenchResult<(LatencyHistogram, LatencyHistogram)> {
    let mut connection = BenchConnection::open(&address)
        .await
        .map_err(|error| BenchError::unreachable(address.url(), error))?;
    let (mut first, mut next) = (LatencyHistogram::new()?, LatencyHistogram::new()?);
    for number in 0..probes {
        first.record(probe_once(&mut connection, &new, number).await?);
        next.record(probe_once(&mut connection, &old, number).await?);
    }
    Ok((first, next))
}

async fn probe_once(
    connection: &mut BenchConnection,
    requests: &EventRequests,
    number: usize,
) -> BenchResult<std::time::Duration> {
    let (mut request, mut scratch) = (Vec::new(), Vec::new());
    requests.write_request(&mut request, &mut scratch, number, 1);
    let asked = Instant::now();
    let reply = connection
        .exchange_request(&request)
        .await
        .map_err(|error| BenchError::unreachable("the ingress", error))?;
    match reply.status {
        200 => Ok(asked.elapsed()),
        status => Err(BenchError::Wrong(format!("an event was answered with {status}, not applied"))),
    }
}
