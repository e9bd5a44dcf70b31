//! Accepts, starts and completes runs in the name of their devices, as fast as possible.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tokio::task::JoinSet;

use super::create::Seat;
use crate::error::{BenchError, Result};
use crate::latency::Latencies;
use crate::wire::{Address, Connection};

/// Result of driving all runs.
#[derive(Debug)]
pub(crate) struct Driven {
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
    pub(crate) accept: Latencies,
    pub(crate) start: Latencies,
    pub(crate) complete: Latencies,
    pub(crate) pushed_back: usize,
}

struct Shared {
    prefix: String,
    given: Vec<Seat>,
    next: Cell<usize>,
    driven: RefCell<Driven>,
    done: Arc<AtomicUsize>,
}

/// Runs `{prefix}{number}`, each with its seat; `done` counts the completed ones.
pub(crate) async fn drive(
    address: Address,
    (prefix, given): (String, Vec<Seat>),
    connections: usize,
    done: Arc<AtomicUsize>,
) -> Result<Driven> {
    let mut lines = Vec::with_capacity(connections);
    for _ in 0..connections {
        let line = Connection::open(&address).await;
        lines.push(line.map_err(|error| BenchError::unreachable(address.url(), error))?);
    }
    let began = Instant::now();
    let driven = Driven {
        began,
        ended: began,
        accept: Latencies::new()?,
        start: Latencies::new()?,
        complete: Latencies::new()?,
        pushed_back: 0,
    };
    let shared = Rc::new(Shared { prefix, given, next: Cell::new(0), driven: RefCell::new(driven), done });
    let mut lanes = JoinSet::new();
    for line in lines {
        lanes.spawn_local(lane(line, shared.clone()));
    }
    while let Some(ended) = lanes.join_next().await {
        ended.map_err(|error| BenchError::Wrong(format!("a device stopped: {error}")))??;
    }
    let shared = Rc::try_unwrap(shared);
    let shared = shared.map_err(|_| BenchError::Wrong("a device is still at work".to_owned()))?;
    Ok(shared.driven.into_inner())
}

async fn lane(mut line: Connection, shared: Rc<Shared>) -> Result<()> {
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
            line.call(&mut buffer, &path, body.as_bytes(), &[200]).await
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
