//! Append, commit and settle as a pipeline of concurrent tasks, directly on the store.
//!
//! ```text
//!   append hands ──→ commit hands ──→ settle hands
//! ```
//!
//! Each task waits until its batch is full (or the input ends), so that batches are as large as the engine's.
//! Channels hold a few batches: backpressure from a slow stage slows the earlier ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use millstream_model::action_queue::ActionQueue;
use millstream_model::id::{AcceptNo, EventId, ExecutionKey, WorkerId};
use millstream_store::action_store::{SettleVerdict, Settlement};
use millstream_store::event_log::{AppendRequest, Appended};
use millstream_store::execution_store::{CommitVerdict, LeaseGrant};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use super::store::{FloorStore, store_error};
use super::values::FloorRows;
use crate::error::{BenchError, BenchResult};
use crate::plan::BenchTarget;
use crate::workload::{ActionPerformers, Workload};
use crate::world::BenchWorld;

/// Batch size of the starts before the clock.
const START_BATCH: usize = 500;
const LEASE: Duration = Duration::from_secs(15);

/// Rows per transaction, and concurrent transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FloorShape {
    pub(crate) append_batch: usize,
    pub(crate) commit_batch: usize,
    pub(crate) settle_batch: usize,
    pub(crate) append_hands: usize,
    pub(crate) commit_hands: usize,
    pub(crate) settle_hands: usize,
}

/// Throughput of the store alone: events per second from accepted to settled.
pub(crate) async fn measure_floor(
    world: &BenchWorld,
    workload: Workload,
    events: usize,
    shape: FloorShape,
) -> BenchResult<f64> {
    let start = world.new_run(ActionPerformers::Engine);
    let hands = shape.append_hands + shape.commit_hands + shape.settle_hands;
    let store = match &world.plan.target {
        BenchTarget::Fleet { .. } => {
            let database = world.private_database(&start.run).await?;
            FloorStore::open_postgres(&database.url, hands).await?
        }
        BenchTarget::Embedded { .. } | BenchTarget::Url { .. } => {
            FloorStore::open_sqlite(&start.guard.directory().join(format!("floor-{}.db", start.run))).await?
        }
    };
    let _bar = world.plan.progress.start_bar("floor", events);
    let store = Arc::new(store);
    let outcome = run_pipeline(&store, workload, &format!("m-{}-", start.run), events, shape).await;
    if let Ok(store) = Arc::try_unwrap(store) {
        store.close().await;
    }
    world.clean_up().await;
    outcome
}

async fn run_pipeline(
    store: &Arc<FloorStore>,
    workload: Workload,
    prefix: &str,
    events: usize,
    shape: FloorShape,
) -> BenchResult<f64> {
    let values = Arc::new(FloorRows::for_workload(workload, prefix, store.now())?);
    start_executions(store, &values, events).await?;
    let line = Arc::new(FloorPipeline {
        store: store.clone(),
        values,
        shape,
        events,
        next: AtomicUsize::new(0),
        settled: AtomicUsize::new(0),
        worker: WorkerId::parse("floor")
            .map_err(|error| BenchError::Wrong(format!("a worker's id: {error}")))?,
    });
    let (accepted, to_commit) = mpsc::channel(shape.commit_batch * shape.commit_hands * 2);
    let (committed, to_settle) = mpsc::channel(shape.settle_batch * shape.settle_hands * 2);
    let (to_commit, to_settle) = (Arc::new(Mutex::new(to_commit)), Arc::new(Mutex::new(to_settle)));

    let began = Instant::now();
    let mut hands = JoinSet::new();
    for _ in 0..shape.append_hands.max(1) {
        hands.spawn(Arc::clone(&line).append_batches(accepted.clone()));
    }
    for _ in 0..shape.commit_hands.max(1) {
        hands.spawn(Arc::clone(&line).commit_batches(to_commit.clone(), committed.clone()));
    }
    for _ in 0..shape.settle_hands.max(1) {
        hands.spawn(Arc::clone(&line).settle_batches(to_settle.clone()));
    }
    drop((accepted, committed));
    while let Some(ended) = hands.join_next().await {
        ended.map_err(|error| BenchError::Wrong(format!("the floor stopped: {error}")))??;
    }
    let seconds = began.elapsed().as_secs_f64();
    let (settled, wanted) = (line.settled.load(Ordering::Relaxed), events * workload.actions_per_event());
    if settled != wanted {
        return Err(BenchError::Wrong(format!("the floor settled {settled} of {wanted} actions")));
    }
    Ok(crate::usage::as_f64(events) / seconds)
}

async fn start_executions(store: &FloorStore, values: &FloorRows, count: usize) -> BenchResult<()> {
    for first in (0..count).step_by(START_BATCH) {
        let numbers = first..count.min(first + START_BATCH);
        let batch: Vec<AppendRequest> =
            numbers.map(|number| values.execution_start(number, store.now())).collect::<BenchResult<_>>()?;
        for verdict in store.stores.events.append(&batch, store.now()).await.map_err(store_error)? {
            accept_no(&verdict)?;
        }
    }
    Ok(())
}

/// An event between append and commit.
type PendingEvent = (ExecutionKey, EventId, AcceptNo);
type SharedReceiver<T> = Arc<Mutex<mpsc::Receiver<T>>>;

struct FloorPipeline {
    store: Arc<FloorStore>,
    values: Arc<FloorRows>,
    shape: FloorShape,
    events: usize,
    next: AtomicUsize,
    settled: AtomicUsize,
    worker: WorkerId,
}

impl FloorPipeline {
    async fn append_batches(self: Arc<Self>, accepted: mpsc::Sender<PendingEvent>) -> BenchResult<()> {
        loop {
            let first = self.next.fetch_add(self.shape.append_batch, Ordering::Relaxed);
            if first >= self.events {
                return Ok(());
            }
            let numbers = first..self.events.min(first + self.shape.append_batch);
            let batch: Vec<AppendRequest> = numbers
                .map(|number| self.values.new_event(number).map(AppendRequest::Event))
                .collect::<BenchResult<_>>()?;
            let verdicts =
                self.store.stores.events.append(&batch, self.store.now()).await.map_err(store_error)?;
            for (item, verdict) in batch.into_iter().zip(verdicts) {
                let AppendRequest::Event(event) = item else { continue };
                let pending = (event.execution, event.event_id, accept_no(&verdict)?);
                if accepted.send(pending).await.is_err() {
                    return Ok(());
                }
            }
        }
    }

    async fn commit_batches(
        self: Arc<Self>,
        pending: SharedReceiver<PendingEvent>,
        committed: mpsc::Sender<Settlement>,
    ) -> BenchResult<()> {
        loop {
            let batch = fill_batch(&pending, self.shape.commit_batch).await;
            if batch.is_empty() {
                return Ok(());
            }
            let batch: Vec<_> = batch
                .iter()
                .map(|(execution, event, no)| self.values.commit(execution, *event, *no))
                .collect();
            let grant = lease_grant(batch.len());
            let verdicts = self
                .store
                .stores
                .executions
                .commit_executions(&self.worker, &batch, &grant, self.store.now())
                .await;
            for (commit, verdict) in batch.iter().zip(verdicts.map_err(store_error)?) {
                match verdict {
                    CommitVerdict::Done { .. } => {}
                    CommitVerdict::Conflict | CommitVerdict::Missing => {
                        return Err(BenchError::Wrong(format!("the floor's commit ended as {verdict:?}")));
                    }
                }
                for settlement in self.values.settlements(commit) {
                    if committed.send(settlement).await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }

    async fn settle_batches(self: Arc<Self>, committed: SharedReceiver<Settlement>) -> BenchResult<()> {
        loop {
            let batch = fill_batch(&committed, self.shape.settle_batch).await;
            if batch.is_empty() {
                return Ok(());
            }
            let grant = lease_grant(0);
            let settled = self
                .store
                .stores
                .actions
                .settle_actions(&self.worker, &batch, &grant, self.store.now())
                .await;
            for verdict in settled.map_err(store_error)?.verdicts {
                match verdict {
                    SettleVerdict::Recorded { .. } => self.settled.fetch_add(1, Ordering::Relaxed),
                    SettleVerdict::Stale => {
                        return Err(BenchError::Wrong("the floor's settlement was stale".to_owned()));
                    }
                };
            }
        }
    }
}

/// A full batch, or the rest; empty at the end of the input.
async fn fill_batch<T>(from: &SharedReceiver<T>, size: usize) -> Vec<T> {
    let mut from = from.lock().await;
    let mut batch = Vec::with_capacity(size);
    while batch.len() < size {
        match from.recv().await {
            Some(item) => batch.push(item),
            None => break,
        }
    }
    batch
}

/// Lease for actions that the engine performs itself.
fn lease_grant(slots: usize) -> LeaseGrant {
    LeaseGrant { slots, ttl: LEASE, queues: [ActionQueue::engine_for_all()].into() }
}

fn accept_no(verdict: &Appended) -> BenchResult<AcceptNo> {
    match verdict {
        Appended::Accepted { accept_no } => Ok(*accept_no),
        Appended::Repeat { .. }
        | Appended::Delivered { .. }
        | Appended::Buffered
        | Appended::Ambiguous { .. }
        | Appended::Mismatch
        | Appended::NoExecution => Err(BenchError::Wrong(format!("the floor's append ended as {verdict:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn floor_settles_every_appended_event() {
        let directory = tempfile::tempdir().unwrap();
        let shape = FloorShape {
            append_batch: 7,
            commit_batch: 5,
            settle_batch: 3,
            append_hands: 2,
            commit_hands: 2,
            settle_hands: 2,
        };
        for (workload, name) in [(Workload::Many, "many.db"), (Workload::Plain, "plain.db")] {
            let store = Arc::new(FloorStore::open_sqlite(&directory.path().join(name)).await.unwrap());
            assert!(run_pipeline(&store, workload, "m-", 23, shape).await.unwrap() > 0.0);
            let backlog = store.stores.event_views.count_backlog().await.unwrap();
            assert_eq!((backlog.undecided, backlog.open_actions), (0, 0));
        }
    }
}
