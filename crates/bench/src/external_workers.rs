//! External workers: each leases tasks over HTTP by long polls and completes them.
//!
//! They run on a thread of their own, whose CPU time is a role in the report: the cost of a task includes its
//! worker, as a function in Rust is part of the engine's worker. On an unexpected answer the crew stops and
//! [`ExternalWorkers::check_error`] returns the error.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::{JoinSet, LocalSet};

use crate::error::{BenchError, BenchResult};
use crate::process;
use crate::wire::{BenchConnection, ServerAddress, find_bytes, short_excerpt};
use crate::workload::WORK;

/// Number of workers, and how each of them works.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExternalWorkerOptions {
    pub(crate) workers: usize,
    /// Maximum number of tasks in one lease.
    pub(crate) most: usize,
    pub(crate) complete: TaskCompletion,
}

/// How a worker reports the tasks of a lease as completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskCompletion {
    /// One request per task, over eight connections at once.
    Single,
    /// One request for all tasks.
    Batch,
}

/// Connections of a worker that completes tasks one by one.
const HANDS: usize = 8;

/// Running workers; they stop when this is dropped.
#[derive(Debug)]
pub(crate) struct ExternalWorkers {
    shared: Arc<ExternalWorkerState>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
    clock: Option<PathBuf>,
}

#[derive(Debug, Default)]
struct ExternalWorkerState {
    completed: AtomicU64,
    arrivals: Mutex<TaskArrivals>,
    arrived: Notify,
    wrong: Mutex<Option<String>>,
}

/// The time at which a worker first held the task of each execution `{prefix}{number}`, from the number
/// `first` on.
#[derive(Debug, Default)]
struct TaskArrivals {
    prefix: String,
    first: usize,
    seen: Vec<Option<Instant>>,
    missing: usize,
}

#[derive(Debug, Deserialize)]
struct BenchLease {
    tasks: Vec<BenchTask>,
}

#[derive(Debug, Deserialize)]
struct BenchTask {
    key: String,
    token: i64,
    execution_id: String,
}

impl ExternalWorkers {
    /// Starts the workers; their first polls may follow shortly after this returns.
    pub(crate) async fn start(address: &ServerAddress, shape: ExternalWorkerOptions) -> BenchResult<Self> {
        let (shared, (stop, stopped), (told, clock)) =
            (Arc::new(ExternalWorkerState::default()), watch::channel(false), oneshot::channel());
        let (working, address) = (shared.clone(), address.clone());
        let thread = std::thread::Builder::new()
            .name("crew".to_owned())
            .spawn(move || {
                let _ = told.send(process::this_thread());
                if let Err(error) = run(&address, shape, &working, stopped) {
                    lock_mutex(&working.wrong).get_or_insert(error.to_string());
                    working.arrived.notify_one();
                }
            })
            .map_err(BenchError::machine_error("start the thread of the external workers"))?;
        let clock = clock.await.ok().flatten();
        Ok(Self { shared, stop, thread: Some(thread), clock })
    }

    /// Tasks completed so far.
    pub(crate) fn completed_tasks(&self) -> u64 {
        self.shared.completed.load(Ordering::Relaxed)
    }

    /// Path of the thread's CPU clock, where the platform has one.
    pub(crate) fn cpu_clock(&self) -> Option<&PathBuf> {
        self.clock.as_ref()
    }

    /// The error that stopped the workers, if any.
    pub(crate) fn check_error(&self) -> BenchResult<()> {
        match &*lock_mutex(&self.shared.wrong) {
            Some(text) => Err(BenchError::Wrong(format!("an external worker failed: {text}"))),
            None => Ok(()),
        }
    }

    /// Resets the arrivals; from now on, tasks of `{prefix}{number}` are recorded.
    pub(crate) fn expect_tasks(&self, prefix: &str, numbers: Range<usize>) {
        let (first, count) = (numbers.start, numbers.len());
        *lock_mutex(&self.shared.arrivals) =
            TaskArrivals { prefix: prefix.to_owned(), first, seen: vec![None; count], missing: count };
    }

    /// Arrival time of each expected task, once all have arrived.
    pub(crate) async fn all_arrived(&self) -> BenchResult<Vec<Instant>> {
        loop {
            self.check_error()?;
            {
                let arrivals = lock_mutex(&self.shared.arrivals);
                if arrivals.missing == 0 {
                    return Ok(arrivals.seen.iter().copied().flatten().collect());
                }
            }
            self.shared.arrived.notified().await;
        }
    }
}

impl Drop for ExternalWorkers {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            // [`ExternalWorkers::check_error`] reports its error.
            let _ = thread.join();
        }
    }
}

impl ExternalWorkerState {
    fn record_arrivals(&self, tasks: &[BenchTask], at: Instant) {
        let mut arrivals = lock_mutex(&self.arrivals);
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
    address: &ServerAddress,
    shape: ExternalWorkerOptions,
    shared: &Arc<ExternalWorkerState>,
    mut stopped: watch::Receiver<bool>,
) -> BenchResult<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(BenchError::machine_error("start the runtime of the external workers"))?;
    LocalSet::new().block_on(&runtime, async {
        let mut workers = JoinSet::new();
        for number in 0..shape.workers {
            workers.spawn_local(lease_and_complete(address.clone(), number, shape, shared.clone()));
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
async fn lease_and_complete(
    address: ServerAddress,
    number: usize,
    shape: ExternalWorkerOptions,
    shared: Arc<ExternalWorkerState>,
) -> BenchResult<()> {
    let wish =
        format!("{{\"types\":[\"{WORK}\"],\"max\":{},\"wait\":60,\"worker\":\"crew-{number}\"}}", shape.most);
    let mut line = BenchConnection::to_server(&address);
    let mut hands: Vec<BenchConnection> = match shape.complete {
        TaskCompletion::Single => {
            (0..HANDS.min(shape.most)).map(|_| BenchConnection::to_server(&address)).collect()
        }
        TaskCompletion::Batch => Vec::new(),
    };
    loop {
        let answer = line.post("/v1/tasks/lease", "application/json", wish.as_bytes(), &[200]).await?;
        let held = Instant::now();
        let leased: BenchLease = serde_json::from_slice(&answer)
            .map_err(|error| BenchError::Wrong(format!("a lease cannot be read: {error}")))?;
        shared.record_arrivals(&leased.tasks, held);
        match shape.complete {
            TaskCompletion::Single => complete_each(&mut hands, leased.tasks, &shared).await?,
            TaskCompletion::Batch => complete_all(&mut line, &leased.tasks, &shared).await?,
        }
    }
}

async fn complete_all(
    line: &mut BenchConnection,
    tasks: &[BenchTask],
    shared: &ExternalWorkerState,
) -> BenchResult<()> {
    if tasks.is_empty() {
        return Ok(());
    }
    let items = tasks
        .iter()
        .map(|task| format!("{{\"key\":\"{}\",\"token\":{},\"result\":7}}", task.key, task.token));
    let body = format!("[{}]", items.collect::<Vec<_>>().join(","));
    let answer = line.post("/v1/tasks/complete", "application/json", body.as_bytes(), &[200]).await?;
    if find_bytes(&answer, b"\"problem\"").is_some() {
        let answer = String::from_utf8_lossy(&answer);
        return Err(BenchError::Wrong(format!("a result was refused: {}", short_excerpt(&answer))));
    }
    shared.completed.fetch_add(tasks.len() as u64, Ordering::Relaxed);
    Ok(())
}

/// One request per task, over all connections at once.
async fn complete_each(
    hands: &mut Vec<BenchConnection>,
    mut tasks: Vec<BenchTask>,
    shared: &Arc<ExternalWorkerState>,
) -> BenchResult<()> {
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

fn lock_mutex<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
