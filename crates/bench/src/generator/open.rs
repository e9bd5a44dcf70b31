//! Open loop: requests are sent on a schedule, independent of earlier answers.
//!
//! Latency counts from the due time of a request, not from when a connection was free (no coordinated
//! omission): a stall of the server is charged to every request that waited meanwhile.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use super::schedule::LoadSchedule;
use super::tally::{LoadTally, SentLoad};
use crate::error::{BenchError, BenchResult};
use crate::latency::LatencyHistogram;
use crate::wire::{BenchConnection, ServerAddress};

/// Longest assumed request, in seconds, for the number of connections: longer than any request at a
/// sustainable rate, also one that waits for its outcome.
const LONGEST: f64 = 0.1;
const CONNECTIONS: std::ops::RangeInclusive<usize> = 32..=512;
/// Lead time before the first request is due: the connections are open by then.
const LEAD: Duration = Duration::from_millis(50);

/// A rate, and the number of requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoadPace {
    pub(crate) per_second: f64,
    pub(crate) count: usize,
}

/// The work that is done at each due time.
pub(crate) trait LoadErrand {
    /// Runs until it is answered. Work after the answer is not timed, but occupies the lane.
    async fn run(&self, lane: &mut OpenLane, number: usize) -> BenchResult<AnsweredRequest>;
}

/// A connection and its reusable buffers.
#[derive(Debug)]
pub(crate) struct OpenLane {
    pub(crate) connection: BenchConnection,
    pub(crate) request: Vec<u8>,
    pub(crate) scratch: Vec<u8>,
}

/// One answered request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnsweredRequest {
    pub(crate) at: Instant,
    /// Retries after backpressure: 429 and 503.
    pub(crate) pushed_back: usize,
}

/// Result of an open loop.
#[derive(Debug)]
pub(crate) struct OpenLoopResult {
    pub(crate) sent: SentLoad,
    /// For callers that measure elsewhere.
    pub(crate) schedule: LoadSchedule,
    /// Send delay caused by the generator: part of every latency.
    pub(crate) delay: LatencyHistogram,
}

/// Runs the errand `count` times at the rate; returns it with its collected state.
pub(crate) async fn run_open_loop<E: LoadErrand + 'static>(
    address: ServerAddress,
    errand: E,
    pace: LoadPace,
) -> BenchResult<(OpenLoopResult, E)> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    let busy = ((pace.per_second * LONGEST) as usize).clamp(*CONNECTIONS.start(), *CONNECTIONS.end());
    let mut connections = Vec::with_capacity(busy);
    for _ in 0..busy.min(pace.count.max(1)) {
        let connection = BenchConnection::open(&address).await;
        connections.push(connection.map_err(|error| BenchError::unreachable(address.url(), error))?);
    }
    let schedule = LoadSchedule::new(Instant::now() + LEAD, pace.per_second, pace.count)?;
    let (sender, mut due) = mpsc::unbounded_channel();
    std::thread::spawn(move || schedule.send_due_numbers(&sender));

    let desk = Rc::new(DueQueue {
        waiting: RefCell::default(),
        arrived: Notify::new(),
        closed: Cell::new(false),
        tally: RefCell::new(LoadTally::new()?),
        delay: RefCell::new(LatencyHistogram::new()?),
    });
    let (errand, mut lanes) = (Rc::new(errand), JoinSet::new());
    for connection in connections {
        let lane = OpenLane { connection, request: Vec::new(), scratch: Vec::new() };
        lanes.spawn_local(serve_lane(lane, errand.clone(), desk.clone(), schedule));
    }
    while let Some(number) = due.recv().await {
        desk.waiting.borrow_mut().push_back(number);
        desk.arrived.notify_one();
    }
    desk.closed.set(true);
    desk.arrived.notify_waiters();
    while let Some(ended) = lanes.join_next().await {
        ended.map_err(|error| {
            BenchError::Wrong(format!("a connection of the generator stopped: {error}"))
        })??;
    }
    let in_use = || BenchError::Wrong("the generator's counts are still in use".to_owned());
    let desk = Rc::try_unwrap(desk).map_err(|_| in_use())?;
    let errand = Rc::try_unwrap(errand).map_err(|_| in_use())?;
    let (sent, delay) = (desk.tally.into_inner().finish(), desk.delay.into_inner());
    Ok((OpenLoopResult { sent, schedule, delay }, errand))
}

/// Queue of due requests that wait for a connection.
struct DueQueue {
    waiting: RefCell<VecDeque<usize>>,
    arrived: Notify,
    closed: Cell<bool>,
    tally: RefCell<LoadTally>,
    delay: RefCell<LatencyHistogram>,
}

async fn serve_lane<E: LoadErrand>(
    mut lane: OpenLane,
    errand: Rc<E>,
    desk: Rc<DueQueue>,
    schedule: LoadSchedule,
) -> BenchResult<()> {
    loop {
        let next = desk.waiting.borrow_mut().pop_front();
        let Some(number) = next else {
            if desk.closed.get() {
                return Ok(());
            }
            desk.arrived.notified().await;
            continue;
        };
        desk.delay.borrow_mut().record(Instant::now().saturating_duration_since(schedule.due_time(number)));
        let answered = errand.run(&mut lane, number).await?;
        let latency = answered.at.saturating_duration_since(schedule.due_time(number));
        let mut tally = desk.tally.borrow_mut();
        tally.record_accepted(1, latency, answered.at);
        (0..answered.pushed_back).for_each(|_| tally.pushed_back());
    }
}
