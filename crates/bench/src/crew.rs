//! External workers: each leases tasks over HTTP by long polls and completes them.
//!
//! They run on a thread of their own, whose CPU time is a role in the report: the cost of a task includes its
//! worker, as a function in Rust is part of the engine's worker. On an unexpected answer the crew stops and
//! [`Crew::well`] returns the error.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::{JoinSet, LocalSet};

use crate::error::{BenchError, Result};
use crate::process;
use crate::wire::{Address, Connection, excerpt, find};
use crate::workload::WORK;

/// Number of workers, and how each of them works.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) workers: usize,
    /// Maximum number of tasks in one lease.
    pub(crate) most: usize,
    pub(crate) complete: Complete,
}

/// How a worker reports the tasks of a lease as completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Complete {
    /// One request per task, over eight connections at once.
    Single,
    /// One request for all tasks.
    Batch,
}

/// Connections of a worker that completes tasks one by one.
const HANDS: usize = 8;

/// Running workers; they stop when this is dropped.
#[derive(Debug)]
pub(crate) struct Crew {
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
    clock: Option<PathBuf>,
}

#[derive(Debug, Default)]
struct Shared {
    completed: AtomicU64,
    arrivals: Mutex<Arrivals>,
    arrived: Notify,
    wrong: Mutex<Option<String>>,
}

/// The time at which a worker first held the task of each execution `{prefix}{number}`, from the number
/// `first` on.
#[derive(Debug, Default)]
struct Arrivals {
    prefix: String,
    first: usize,
    seen: Vec<Option<Instant>>,
    missing: usize,
}

#[derive(Debug, Deserialize)]
struct Leased {
    tasks: Vec<Task>,
}

#[derive(Debug, Deserialize)]
struct Task {
    key: String,
    token: i64,
    execution_id: String,
}

impl Crew {
    /// Starts the workers; their first polls may follow shortly after this returns.
    pub(crate) async fn start(address: &Address, shape: Shape) -> Result<Self> {
        let (shared, (stop, stopped), (told, clock)) =
            (Arc::new(Shared::default()), watch::channel(false), oneshot::channel());
        let (working, address) = (shared.clone(), address.clone());
        let thread = std::thread::Builder::new()
            .name("crew".to_owned())
            .spawn(move || {
                let _ = told.send(process::this_thread());
                if let Err(error) = run(&address, shape, &working, stopped) {
                    lock(&working.wrong).get_or_insert(error.to_string());
                    working.arrived.notify_one();
                }
            })
            .map_err(BenchError::machine("start the thread of the external workers"))?;
        let clock = clock.await.ok().flatten();
        Ok(Self { shared, stop, thread: Some(thread), clock })
    }

    /// Tasks completed so far.
    pub(crate) fn completed(&self) -> u64 {
        self.shared.completed.load(Ordering::Relaxed)
    }

    /// Path of the thread's CPU clock, where the platform has one.
    pub(crate) fn clock(&self) -> Option<&PathBuf> {
        self.clock.as_ref()
    }

    /// The error that stopped the workers, if any.
    pub(crate) fn well(&self) -> Result<()> {
        match &*lock(&self.shared.wrong) {
            Some(text) => Err(BenchError::Wrong(format!("an external worker failed: {text}"))),
            None => Ok(()),
        }
    }

    /// Resets the arrivals; from now on, tasks of `{prefix}{number}` are recorded.
    pub(crate) fn expect(&self, prefix: &str, numbers: Range<usize>) {
        let (first, count) = (numbers.start, numbers.len());
        *lock(&self.shared.arrivals) =
            Arrivals { prefix: prefix.to_owned(), first, seen: vec![None; count], missing: count };
    }

    /// Arrival time of each expected task, once all have arrived.
    pub(crate) async fn all_arrived(&self) -> Result<Vec<Instant>> {
        loop {
            self.well()?;
            {
                let arrivals = lock(&self.shared.arrivals);
                if arrivals.missing == 0 {
                    return Ok(arrivals.seen.iter().copied().flatten().collect());
                }
            }
            self.shared.arrived.notified().await;
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            // [`Crew::well`] reports its error.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn hold(&self, tasks: &[Task], at: Instant) {
        let mut arrivals = lock(&self.arrivals);
        for task in tasks {
            let number: Option<usize> =
                task.execution_id.strip_prefix(&arrivals.prefix).and_then(|text| text.parse().ok());
            let place = number.and_then(|number| number.checked_sub(arrivals.first));
            let slot = place.and_then(|place| arrivals.seen.get_mut(place));
            if let Some(slot @ None) = slot {
                *slot = Some(at);
                arrivals.missing -= 1;
            }
        }
        if arrivals.missing == 0 {
            self.arrived.notify_one();
        }
    }
}

fn run(
    address: &Address,
    shape: Shape,
    shared: &Arc<Shared>,
    mut stopped: watch::Receiver<bool>,
) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(BenchError::machine("start the runtime of the external workers"))?;
    LocalSet::new().block_on(&runtime, async {
        let mut workers = JoinSet::new();
        for number in 0..shape.workers {
            workers.spawn_local(work(address.clone(), number, shape, shared.clone()));
        }
        tokio::select! {
            // A closed channel means that the crew was dropped.
            _ = stopped.wait_for(|stopped| *stopped) => Ok(()),
            ended = workers.join_next() => match ended {
                Some(Ok(ended)) => ended,
                Some(Err(error)) => Err(BenchError::Wrong(format!("it stopped: {error}"))),
                None => Ok(()),
            },
        }
    })
}

/// Leases and completes in an endless loop.
async fn work(address: Address, number: usize, shape: Shape, shared: Arc<Shared>) -> Result<()> {
    let wish =
        format!("{{\"types\":[\"{WORK}\"],\"max\":{},\"wait\":60,\"worker\":\"crew-{number}\"}}", shape.most);
    let mut line = Connection::to(&address);
    let mut hands: Vec<Connection> = match shape.complete {
        Complete::Single => (0..HANDS.min(shape.most)).map(|_| Connection::to(&address)).collect(),
        Complete::Batch => Vec::new(),
    };
    loop {
        let answer = line.post("/v1/tasks/lease", "application/json", wish.as_bytes(), &[200]).await?;
        let held = Instant::now();
        let leased: Leased = serde_json::from_slice(&answer)
            .map_err(|error| BenchError::Wrong(format!("a lease cannot be read: {error}")))?;
        shared.hold(&leased.tasks, held);
        match shape.complete {
            Complete::Single => complete_each(&mut hands, leased.tasks, &shared).await?,
            Complete::Batch => complete_all(&mut line, &leased.tasks, &shared).await?,
        }
    }
}

async fn complete_all(line: &mut Connection, tasks: &[Task], shared: &Shared) -> Result<()> {
    if tasks.is_empty() {
        return Ok(());
    }
    let items = tasks
        .iter()
        .map(|task| format!("{{\"key\":\"{}\",\"token\":{},\"result\":7}}", task.key, task.token));
    let body = format!("[{}]", items.collect::<Vec<_>>().join(","));
    let answer = line.post("/v1/tasks/complete", "application/json", body.as_bytes(), &[200]).await?;
    if find(&answer, b"\"problem\"").is_some() {
        let answer = String::from_utf8_lossy(&answer);
        return Err(BenchError::Wrong(format!("a result was refused: {}", excerpt(&answer))));
    }
    shared.completed.fetch_add(tasks.len() as u64, Ordering::Relaxed);
    Ok(())
}

/// One request per task, over all connections at once.
async fn complete_each(
    hands: &mut Vec<Connection>,
    mut tasks: Vec<Task>,
    shared: &Arc<Shared>,
) -> Result<()> {
    let each = tasks.len().div_ceil(hands.len());
    let mut busy = JoinSet::new();
    while !tasks.is_empty()
        && let Some(mut hand) = hands.pop()
    {
        let part = tasks.split_off(tasks.len().saturating_sub(each));
        let shared = shared.clone();
        busy.spawn_local(async move {
            for task in part {
                let path = format!("/v1/tasks/{}/complete", task.key.replace('/', "%2F"));
                let body = format!("{{\"token\":{},\"result\":7}}", task.token);
                hand.post(&path, "application/json", body.as_bytes(), &[200]).await?;
                shared.completed.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<_, BenchError>(hand)
        });
    }
    while let Some(ended) = busy.join_next().await {
        hands.push(ended.map_err(|error| BenchError::Wrong(format!("it stopped: {error}")))??);
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
