//! Closed loop: every connection sends its next request as soon as it has the answer to the previous one.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::tally::{Sent, Tally, Verdict, judge};
use crate::error::{BenchError, Result};
use crate::plan::Amount;
use crate::request::Requests;
use crate::wire::{Address, Connection};

/// Backoff of a connection after backpressure (429, 503).
const BACK_OFF: Duration = Duration::from_millis(5);

fn is_over(amount: Amount, sent: usize, began: Instant) -> bool {
    match amount {
        Amount::Events(events) => sent >= events,
        Amount::For(length) => began.elapsed() >= length,
    }
}

/// Number of events in the next request, at most this many.
fn left(amount: Amount, sent: usize) -> usize {
    match amount {
        Amount::Events(events) => events.saturating_sub(sent),
        Amount::For(_) => usize::MAX,
    }
}

/// Sends events over `connections` connections until the amount is reached. `progress` is for display.
pub(crate) async fn closed(
    address: Address,
    requests: Requests,
    connections: usize,
    amount: Amount,
    progress: Arc<AtomicUsize>,
) -> Result<Sent> {
    let mut open = Vec::with_capacity(connections);
    for _ in 0..connections.max(1) {
        let connection = Connection::open(&address).await;
        open.push(connection.map_err(|error| BenchError::unreachable(address.url(), error))?);
    }
    let tally = Rc::new(RefCell::new(Tally::new()?));
    let next = Rc::new(Cell::new(0));
    let (requests, began) = (Rc::new(requests), Instant::now());
    let mut tasks = JoinSet::new();
    for connection in open {
        let lane = Lane {
            connection,
            requests: requests.clone(),
            tally: tally.clone(),
            next: next.clone(),
            progress: progress.clone(),
        };
        tasks.spawn_local(lane.run(amount, began));
    }
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(|error| {
            BenchError::Wrong(format!("a connection of the generator stopped: {error}"))
        })??;
    }
    Rc::try_unwrap(tally)
        .map(|tally| tally.into_inner().finish())
        .map_err(|_| BenchError::Wrong("the generator's counts are still in use".to_owned()))
}

/// One connection, and the state it shares with the others.
struct Lane {
    connection: Connection,
    requests: Rc<Requests>,
    tally: Rc<RefCell<Tally>>,
    next: Rc<Cell<usize>>,
    progress: Arc<AtomicUsize>,
}

impl Lane {
    async fn run(mut self, amount: Amount, began: Instant) -> Result<()> {
        let (mut request, mut scratch) = (Vec::new(), Vec::new());
        while !is_over(amount, self.next.get(), began) {
            let first = self.next.get();
            let count = self.requests.submit().per_request().min(left(amount, first));
            self.next.set(first + count);
            self.requests.write(&mut request, &mut scratch, first, count);
            self.deliver(&request, count).await?;
        }
        Ok(())
    }

    /// Sends one request until it is accepted.
    async fn deliver(&mut self, request: &[u8], events: usize) -> Result<()> {
        loop {
            let asked = Instant::now();
            let reply = self.connection.exchange(request).await;
            let reply = reply.map_err(|error| BenchError::unreachable("the ingress", error))?;
            match judge(reply.status, &reply.body)? {
                Verdict::Accepted => {
                    let now = Instant::now();
                    self.tally.borrow_mut().accepted(events, now - asked, now);
                    self.progress.fetch_add(events, Ordering::Relaxed);
                    return Ok(());
                }
                Verdict::PushedBack => {
                    self.tally.borrow_mut().pushed_back();
                    tokio::time::sleep(BACK_OFF).await;
                }
            }
        }
    }
}
