//! Open loop: requests are sent at set times, whatever has become of the ones before.
//!
//! Latency counts from when a request was due, not from when a connection was free for it: a server
//! that stalls is charged for everybody who had to wait meanwhile.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use super::schedule::Schedule;
use super::tally::{Sent, Tally};
use crate::error::{BenchError, Result};
use crate::latency::Latencies;
use crate::wire::{Address, Connection};

/// How long a request may take before the connections do not suffice: more than any does at a rate that a
/// server can bear, also when it waits for its outcome.
const LONGEST: f64 = 0.1;
const CONNECTIONS: std::ops::RangeInclusive<usize> = 32..=512;
/// Until the first request is due: the connections are open by then.
const LEAD: Duration = Duration::from_millis(50);

/// A load at a rate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) per_second: f64,
    pub(crate) count: usize,
}

/// What is done each time that something is due.
pub(crate) trait Errand {
    /// Goes on until it is answered. What is done after that is not timed, but keeps the lane.
    async fn run(&self, lane: &mut Lane, number: usize) -> Result<Answered>;
}

/// A connection, and buffers that are used again.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) connection: Connection,
    pub(crate) request: Vec<u8>,
    pub(crate) scratch: Vec<u8>,
}

/// That something is done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answered {
    pub(crate) at: Instant,
    /// How often it was asked in vain: 429 and 503.
    pub(crate) pushed_back: usize,
}

/// What an open loop found.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) sent: Sent,
    /// For who measures elsewhere.
    pub(crate) schedule: Schedule,
    /// How late requests left, because of us: part of every latency.
    pub(crate) delay: Latencies,
}

/// Does the errand `count` times at the rate; it comes back with what it has gathered.
pub(crate) async fn open<E: Errand + 'static>(
    address: Address,
    errand: E,
    pace: Pace,
) -> Result<(Opened, E)> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    let busy = ((pace.per_second * LONGEST) as usize).clamp(*CONNECTIONS.start(), *CONNECTIONS.end());
    let mut connections = Vec::with_capacity(busy);
    for _ in 0..busy.min(pace.count.max(1)) {
        let connection = Connection::open(&address).await;
        connections.push(connection.map_err(|error| BenchError::unreachable(address.url(), error))?);
    }
    let schedule = Schedule::new(Instant::now() + LEAD, pace.per_second, pace.count)?;
    let (sender, mut due) = mpsc::unbounded_channel();
    std::thread::spawn(move || schedule.keep(&sender));

    let desk = Rc::new(Desk {
        waiting: RefCell::default(),
        arrived: Notify::new(),
        closed: Cell::new(false),
        tally: RefCell::new(Tally::new()?),
        delay: RefCell::new(Latencies::new()?),
    });
    let (errand, mut lanes) = (Rc::new(errand), JoinSet::new());
    for connection in connections {
        let lane = Lane { connection, request: Vec::new(), scratch: Vec::new() };
        lanes.spawn_local(serve(lane, errand.clone(), desk.clone(), schedule));
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
    Ok((Opened { sent, schedule, delay }, errand))
}

/// Where due requests wait for a connection.
struct Desk {
    waiting: RefCell<VecDeque<usize>>,
    arrived: Notify,
    closed: Cell<bool>,
    tally: RefCell<Tally>,
    delay: RefCell<Latencies>,
}

async fn serve<E: Errand>(mut lane: Lane, errand: Rc<E>, desk: Rc<Desk>, schedule: Schedule) -> Result<()> {
    loop {
        let next = desk.waiting.borrow_mut().pop_front();
        let Some(number) = next else {
            if desk.closed.get() {
                return Ok(());
            }
            desk.arrived.notified().await;
            continue;
        };
        desk.delay.borrow_mut().record(Instant::now().saturating_duration_since(schedule.at(number)));
        let answered = errand.run(&mut lane, number).await?;
        let latency = answered.at.saturating_duration_since(schedule.at(number));
        let mut tally = desk.tally.borrow_mut();
        tally.accepted(1, latency, answered.at);
        (0..answered.pushed_back).for_each(|_| tally.pushed_back());
    }
}
