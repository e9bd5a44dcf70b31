//! Workers outside the engine: each leases tasks over HTTP by long polls and completes them.
//!
//! They run on a thread of their own, whose CPU time is a role in the report: what a task costs includes
//! the one who does it, as a function in Rust is part of its worker. A crew that meets anything but the
//! answers it hopes for stops and says so when it is asked whether it is well.

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

/// How many workers, and how each of them works.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) workers: usize,
    /// Tasks in one lease.
    pub(crate) most: usize,
    pub(crate) complete: Complete,
}

/// How a worker tells that it is done with what it has leased.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Complete {
    /// One request for each task, over eight connections at once.
    Single,
    /// One request for all.
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

/// When a worker first held the task of each execution `{prefix}{number}` from the `first` number on.
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
    /// Starts the workers; they ask for the first time when this returns, or soon after.
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
            .map_err(BenchError::machine("start the crew's thread"))?;
        let clock = clock.await.ok().flatten();
        Ok(Self { shared, stop, thread: Some(thread), clock })
    }

    /// Tasks completed so far.
    pub(crate) fn completed(&self) -> u64 {
        self.shared.completed.load(Ordering::Relaxed)
    }

    /// Where the thread's CPU time is read, if this machine tells.
    pub(crate) fn clock(&self) -> Option<&PathBuf> {
        self.clock.as_ref()
    }

    /// An error when something went wrong.
    pub(crate) fn well(&self) -> Result<()> {
        match &*lock(&self.shared.wrong) {
            Some(text) => Err(BenchError::Wrong(format!("a worker outside the engine: {text}"))),
            None => Ok(()),
        }
    }

    /// Forgets what was; tasks of `{prefix}{number}` are remembered from now on.
    pub(crate) fn expect(&self, prefix: &str, numbers: Range<usize>) {
        let (first, count) = (numbers.start, numbers.len());
        *lock(&self.shared.arrivals) =
            Arrivals { prefix: prefix.to_owned(), first, seen: vec![None; count], missing: count };
    }

    /// When each expected task was first held, once all of them were.
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
            // It has said what was wrong, if anything was.
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
        .map_err(BenchError::machine("start the crew's runtime"))?;
    LocalSet::new().block_on(&runtime, async {
        let mut workers = JoinSet::new();
        for number in 0..shape.workers {
            workers.spawn_local(work(address.clone(), number, shape, shared.clone()));
        }
        tokio::select! {
            // A sender that is gone is a crew that was dropped.
            _ = stopped.wait_for(|stopped| *stopped) => Ok(()),
            ended = workers.join_next() => match ended {
                Some(Ok(ended)) => ended,
                Some(Err(error)) => Err(BenchError::Wrong(format!("it stopped: {error}"))),
                None => Ok(()),
            },
        }
    })
}

/// Leases and completes for ever.
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

/// One request for each, over all hands at once.
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
