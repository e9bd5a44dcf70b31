//! Accepts, starts and completes runs in the name of their devices, as fast as possible.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tokio::task::JoinSet;

use super::create::BenchSeat;
use crate::error::{BenchError, BenchResult};
use crate::latency::LatencyHistogram;
use crate::wire::{BenchConnection, ServerAddress};

/// Result of driving all runs.
#[derive(Debug)]
pub(crate) struct DrivenRuns {
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
    pub(crate) accept: LatencyHistogram,
    pub(crate) start: LatencyHistogram,
    pub(crate) complete: LatencyHistogram,
    pub(crate) pushed_back: usize,
}

struct DriveState {
    prefix: String,
    given: Vec<BenchSeat>,
    next: Cell<usize>,
    driven: RefCell<DrivenRuns>,
    done: Arc<AtomicUsize>,
}

/// Runs `{prefix}{number}`, each with its seat; `done` counts the completed ones.
pub(crate) async fn drive_runs(
    address: ServerAddress,
    (prefix, given): (String, Vec<BenchSeat>),
    connections: usize,
    done: Arc<AtomicUsize>,
) -> BenchResult<DrivenRuns> {
    let mut lines = Vec::with_capacity(connections);
    for _ in 0..connections {
        let line = BenchConnection::open(&address).await;
        lines.push(line.map_err(|error| BenchError::unreachable(address.url(), error))?);
    }
    let began = Instant::now();
    let driven = DrivenRuns {
        began,
        ended: began,
        accept: LatencyHistogram::new()?,
        start: LatencyHistogram::new()?,
        complete: LatencyHistogram::new()?,
        pushed_back: 0,
    };
    let shared =
        Rc::new(DriveState { prefix, given, next: Cell::new(0), driven: RefCell::new(driven), done });
    let mut lanes = JoinSet::new();
    for line in lines {
        lanes.spawn_local(drive_lane(line, shared.clone()));
    }
    while let Some(ended) = lanes.join_next().await {
        ended.map_err(|error| BenchError::Wrong(format!("a device stopped: {error}")))??;
    }
    let shared = Rc::try_unwrap(shared);
    let shared = shared.map_err(|_| BenchError::Wrong("a device is still at work".to_owned()))?;
    Ok(shared.driven.into_inner())
}

async fn drive_lane(mut line: BenchConnection, shared: Rc<DriveState>) -> BenchResult<()> {
    let mut buffer = Vec::new();
    loop {
        let number = shared.next.get();
        let Some(seat) = shared.given.get(number) else { return Ok(()) };
        shared.next.set(number + 1);
        let (device, token) = (seat.device.as_deref().unwrap_or_default(), seat.token.unwrap_or_default());
        let act = format!("{{\"device\":\"{device}\",\"token\":{token}}}");
        let end = format!("{{\"device\":\"{device}\",\"token\":{token},\"output\":{{\"number\":{number}}}}}");
        let mut call = async |verb: &str, body: &str| {
            let path = format!("/v1/runs/{}{number}/{verb}", shared.prefix);
            line.call_with_retry(&mut buffer, &path, body.as_bytes(), &[200]).await
        };
        let accepted = call("accept", &act).await?;
        let started = call("start", &act).await?;
        let completed = call("complete", &end).await?;
        let mut driven = shared.driven.borrow_mut();
        driven.accept.record(accepted.took);
        driven.start.record(started.took);
        driven.complete.record(completed.took);
        driven.pushed_back += accepted.pushed_back + started.pushed_back + completed.pushed_back;
        driven.ended = driven.ended.max(completed.at);
        shared.done.fetch_add(1, Ordering::Relaxed);
    }
}
