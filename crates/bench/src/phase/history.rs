//! Cost of an event for an execution with a long history, compared with an execution without one.
//!
//! Probes alternate between the two, so that disturbances of the machine affect both.

use std::time::Instant;

use crate::error::{BenchError, Result};
use crate::generator::on_own_thread;
use crate::latency::Latencies;
use crate::plan::Size;
use crate::report::HistoryReport;
use crate::request::{Requests, Submit, Until};
use crate::setup;
use crate::target::Subject;
use crate::wire::{Address, Connection};
use crate::workload::Workload;
use crate::world::World;

/// Sends single events in turn to new executions and to the old one, `{prefix}0`.
pub(super) async fn probe(
    world: &World,
    subject: &mut Subject,
    prefix: &str,
    run: &str,
    events: usize,
) -> Result<HistoryReport> {
    let probes = match world.plan.size {
        Size::Full => 300,
        Size::Smoke => 10,
    };
    let fresh = format!("f-{run}-");
    setup::start_executions(&subject.address, Workload::History, &fresh, probes).await?;
    let address = subject.address.clone();
    let requests = |prefix: &str, executions| {
        Requests::new(&address, Workload::History, prefix, executions, Submit::Single).until(Until::Applied)
    };
    let (new, old, address) = (requests(&fresh, probes), requests(prefix, 1), address.clone());
    let (first, next) = on_own_thread(move || alternate(address, new, old, probes)).await?;
    let (first, next) = (first.percentiles(), next.percentiles());
    let ratio = if first.p50_ms > 0.0 { next.p50_ms / first.p50_ms } else { 0.0 };
    Ok(HistoryReport { events, first, next, ratio })
}

async fn alternate(
    address: Address,
    new: Requests,
    old: Requests,
    probes: usize,
) -> Result<(Latencies, Latencies)> {
    let mut connection =
        Connection::open(&address).await.map_err(|error| BenchError::unreachable(address.url(), error))?;
    let (mut first, mut next) = (Latencies::new()?, Latencies::new()?);
    for number in 0..probes {
        first.record(once(&mut connection, &new, number).await?);
        next.record(once(&mut connection, &old, number).await?);
    }
    Ok((first, next))
}

async fn once(
    connection: &mut Connection,
    requests: &Requests,
    number: usize,
) -> Result<std::time::Duration> {
    let (mut request, mut scratch) = (Vec::new(), Vec::new());
    requests.write(&mut request, &mut scratch, number, 1);
    let asked = Instant::now();
    let reply =
        connection.exchange(&request).await.map_err(|error| BenchError::unreachable("the ingress", error))?;
    match reply.status {
        200 => Ok(asked.elapsed()),
        status => Err(BenchError::Wrong(format!("an event was answered with {status}, not applied"))),
    }
}
