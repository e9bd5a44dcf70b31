//! Closed loop: every connection sends its next request as soon as it has the answer to the previous one.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::tally::{LoadTally, SentLoad, SubmissionVerdict, classify_answer};
use crate::error::{BenchError, BenchResult};
use crate::plan::LoadAmount;
use crate::request::EventRequests;
use crate::wire::{BenchConnection, ServerAddress};

/// Backoff of a connection after backpressure (429, 503).
const BACK_OFF: Duration = Duration::from_millis(5);

fn is_over(amount: LoadAmount, sent: usize, began: Instant) -> bool {
    match amount {
        LoadAmount::Events(events) => sent >= events,
        LoadAmount::For(length) => began.elapsed() >= length,
    }
}

/// Number of events in the next request, at most this many.
fn remaining_events(amount: LoadAmount, sent: usize) -> usize {
    match amount {
        LoadAmount::Events(events) => events.saturating_sub(sent),
        LoadAmount::For(_) => usize::MAX,
    }
}

/// Sends events over `connections` connections until the amount is reached. `progress` is for display.
pub(crate) async fn run_closed_loop(
    address: ServerAddress,
    requests: EventRequests,
    connections: usize,
    amount: LoadAmount,
    progress: Arc<AtomicUsize>,
) -> BenchResult<SentLoad> {
    let mut open = Vec::with_capacity(connections);
    for _ in 0..connections.max(1) {
        let connection = BenchConnection::open(&address).await;
        open.push(connection.map_err(|error| BenchError::unreachable(address.url(), error))?);
    }
    let tally = Rc::new(RefCell::new(LoadTally::new()?));
    let next = Rc::new(Cell::new(0));
    let (requests, began) = (Rc::new(requests), Instant::now());
    let mut tasks = JoinSet::new();
    for connection in open {
        let lane = ClosedLane {
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
struct ClosedLane {
    connection: BenchConnection,
    requests: Rc<EventRequests>,
    tally: Rc<RefCell<LoadTally>>,
    next: Rc<Cell<usize>>,
    progress: Arc<AtomicUsize>,
}

impl ClosedLane {
    async fn run(mut self, amount: LoadAmount, began: Instant) -> BenchResult<()> {
        let (mut request, mut scratch) = (Vec::new(), Vec::new());
        while !is_over(amount, self.next.get(), began) {
            let first = self.next.get();
            let count = self.requests.submit().per_request().min(remaining_events(amount, first));
            self.next.set(first + count);
            self.requests.write_request(&mut request, &mut scratch, first, count);
            self.send_until_accepted(&request, count).await?;
        }
        Ok(())
    }

    /// Sends one request until it is accepted.
    async fn send_until_accepted(&mut self, request: &[u8], events: usize) -> BenchResult<()> {
        loop {
            let asked = Instant::now();
            let reply = self.connection.exchange_request(request).await;
            let reply = reply.map_err(|error| BenchError::unreachable("the ingress", error))?;
            match classify_answer(reply.status, &reply.body)? {
                SubmissionVerdict::Accepted => {
                    let now = Instant::now();
                    self.tally.borrow_mut().record_accepted(events, now - asked, now);
                    self.progress.fetch_add(events, Ordering::Relaxed);
                    return Ok(());
                }
                SubmissionVerdict::PushedBack => {
                    self.tally.borrow_mut().pushed_back();
                    tokio::time::sleep(BACK_OFF).await;
                }
            }
        }
    }
}
