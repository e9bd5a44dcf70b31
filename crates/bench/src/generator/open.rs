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
use super::tally::{Sent, Tally, Verdict, judge};
use crate::error::{BenchError, Result};
use crate::latency::Latencies;
use crate::request::{Requests, Until};
use crate::wire::{Address, Connection};

/// How long a request may take before the connections do not suffice: more than any does at a rate that a
/// server can bear, also when it waits for its outcome.
const LONGEST: f64 = 0.1;
const CONNECTIONS: std::ops::RangeInclusive<usize> = 32..=512;
const BACK_OFF: Duration = Duration::from_millis(5);
/// Until the first request is due: the connections are open by then.
const LEAD: Duration = Duration::from_millis(50);

/// A load at a rate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) per_second: f64,
    pub(crate) count: usize,
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

/// Sends `count` single requests at the rate.
pub(crate) async fn open(address: Address, requests: Requests, pace: Pace) -> Result<Opened> {
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
    let (requests, mut lanes) = (Rc::new(requests), JoinSet::new());
    for connection in connections {
        lanes.spawn_local(lane(connection, requests.clone(), desk.clone(), schedule));
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
    let desk = Rc::try_unwrap(desk)
        .map_err(|_| BenchError::Wrong("the generator's counts are still in use".to_owned()))?;
    Ok(Opened { sent: desk.tally.into_inner().finish(), schedule, delay: desk.delay.into_inner() })
}

/// Where due requests wait for a connection.
struct Desk {
    waiting: RefCell<VecDeque<usize>>,
    arrived: Notify,
    closed: Cell<bool>,
    tally: RefCell<Tally>,
    delay: RefCell<Latencies>,
}

async fn lane(
    mut connection: Connection,
    requests: Rc<Requests>,
    desk: Rc<Desk>,
    schedule: Schedule,
) -> Result<()> {
    let (mut request, mut scratch) = (Vec::new(), Vec::new());
    loop {
        let next = desk.waiting.borrow_mut().pop_front();
        let Some(number) = next else {
            if desk.closed.get() {
                return Ok(());
            }
            desk.arrived.notified().await;
            continue;
        };
        requests.write(&mut request, &mut scratch, number, 1);
        desk.delay.borrow_mut().record(Instant::now().saturating_duration_since(schedule.at(number)));
        loop {
            let reply = connection.exchange(&request).await;
            let reply = reply.map_err(|error| BenchError::unreachable("the ingress", error))?;
            match judge(reply.status, &reply.body)? {
                Verdict::Accepted => {
                    met(requests.waits_for(), reply.status)?;
                    let now = Instant::now();
                    let latency = now.saturating_duration_since(schedule.at(number));
                    desk.tally.borrow_mut().accepted(1, latency, now);
                    break;
                }
                Verdict::PushedBack => {
                    desk.tally.borrow_mut().pushed_back();
                    tokio::time::sleep(BACK_OFF).await;
                }
            }
        }
    }
}

/// Who waits gets 200 when it has happened and 202 when the time was up.
fn met(until: Until, status: u16) -> Result<()> {
    match (until, status) {
        (Until::Accepted, _) | (Until::Applied | Until::Completed, 200) => Ok(()),
        (Until::Applied | Until::Completed, _) => {
            Err(BenchError::Wrong(format!("an event was not {until:?} within ten seconds").to_lowercase()))
        }
    }
}
