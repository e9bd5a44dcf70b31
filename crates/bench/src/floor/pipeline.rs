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

use millstream_core::id::{AcceptNo, EventId, ExecutionKey, WorkerId};
use millstream_core::placement::Queue;
use millstream_store::action_store::{SettleVerdict, Settlement};
use millstream_store::event_log::{Append, Appended};
use millstream_store::execution_store::{Committed, LeaseGrant};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use super::store::{OpenStore, failed};
use super::values::Values;
use crate::error::{BenchError, Result};
use crate::plan::Target;
use crate::workload::{Hands, Workload};
use crate::world::World;

/// Batch size of the starts before the clock.
const START_BATCH: usize = 500;
const LEASE: Duration = Duration::from_secs(15);

/// Rows per transaction, and concurrent transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) append_batch: usize,
    pub(crate) commit_batch: usize,
    pub(crate) settle_batch: usize,
    pub(crate) append_hands: usize,
    pub(crate) commit_hands: usize,
    pub(crate) settle_hands: usize,
}

/// Throughput of the store alone: events per second from accepted to settled.
pub(crate) async fn measure(world: &World, workload: Workload, events: usize, shape: Shape) -> Result<f64> {
    let start = world.new_run(Hands::Engine);
    let hands = shape.append_hands + shape.commit_hands + shape.settle_hands;
    let store = match &world.plan.target {
        Target::Fleet { .. } => {
            let database = world.private_database(&start.run).await?;
            OpenStore::postgres(&database.url, hands).await?
        }
        Target::Embedded { .. } | Target::Url { .. } => {
            OpenStore::sqlite(&start.guard.directory().join(format!("floor-{}.db", start.run))).await?
        }
    };
    let _bar = world.plan.progress.bar("floor", events);
    let store = Arc::new(store);
    let outcome = run(&store, workload, &format!("m-{}-", start.run), events, shape).await;
    if let Ok(store) = Arc::try_unwrap(store) {
        store.close().await;
    }
    world.clean_up().await;
    outcome
}

async fn run(
    store: &Arc<OpenStore>,
    workload: Workload,
    prefix: &str,
    events: usize,
    shape: Shape,
) -> Result<f64> {
    let values = Arc::new(Values::of(workload, prefix, store.now())?);
    start_executions(store, &values, events).await?;
    let line = Arc::new(Line {
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
        hands.spawn(Arc::clone(&line).append(accepted.clone()));
    }
    for _ in 0..shape.commit_hands.max(1) {
        hands.spawn(Arc::clone(&line).commit(to_commit.clone(), committed.clone()));
    }
    for _ in 0..shape.settle_hands.max(1) {
        hands.spawn(Arc::clone(&line).settle(to_settle.clone()));
    }
    drop((accepted, committed));
    while let Some(ended) = hands.join_next().await {
        ended.map_err(|error| BenchError::Wrong(format!("the floor stopped: {error}")))??;
    }
    let seconds = began.elapsed().as_secs_f64();
    let (settled, wanted) = (line.settled.load(Ordering::Relaxed), events * workload.actions());
    if settled != wanted {
        return Err(BenchError::Wrong(format!("the floor settled {settled} of {wanted} actions")));
    }
    Ok(crate::usage::as_f64(events) / seconds)
}

async fn start_executions(store: &OpenStore, values: &Values, count: usize) -> Result<()> {
    for first in (0..count).step_by(START_BATCH) {
        let numbers = first..count.min(first + START_BATCH);
        let batch: Vec<Append> =
            numbers.map(|number| values.start(number, store.now())).collect::<Result<_>>()?;
        for verdict in store.stores.events.append(&batch, store.now()).await.map_err(failed)? {
            accept_no(&verdict)?;
        }
    }
    Ok(())
}

/// An event between append and commit.
type Pending = (ExecutionKey, EventId, AcceptNo);
type Shared<T> = Arc<Mutex<mpsc::Receiver<T>>>;

struct Line {
    store: Arc<OpenStore>,
    values: Arc<Values>,
    shape: Shape,
    events: usize,
    next: AtomicUsize,
    settled: AtomicUsize,
    worker: WorkerId,
}

impl Line {
    async fn append(self: Arc<Self>, accepted: mpsc::Sender<Pending>) -> Result<()> {
        loop {
            let first = self.next.fetch_add(self.shape.append_batch, Ordering::Relaxed);
            if first >= self.events {
                return Ok(());
            }
            let numbers = first..self.events.min(first + self.shape.append_batch);
            let batch: Vec<Append> =
                numbers.map(|number| self.values.event(number).map(Append::Event)).collect::<Result<_>>()?;
            let verdicts = self.store.stores.events.append(&batch, self.store.now()).await.map_err(failed)?;
            for (item, verdict) in batch.into_iter().zip(verdicts) {
                let Append::Event(event) = item else { continue };
                let pending = (event.execution, event.event_id, accept_no(&verdict)?);
                if accepted.send(pending).await.is_err() {
                    return Ok(());
                }
            }
        }
    }

    async fn commit(
        self: Arc<Self>,
        pending: Shared<Pending>,
        committed: mpsc::Sender<Settlement>,
    ) -> Result<()> {
        loop {
            let batch = fill(&pending, self.shape.commit_batch).await;
            if batch.is_empty() {
                return Ok(());
            }
            let batch: Vec<_> = batch
                .iter()
                .map(|(execution, event, no)| self.values.commit(execution, *event, *no))
                .collect();
            let grant = grant(batch.len());
            let verdicts =
                self.store.stores.executions.commit(&self.worker, &batch, &grant, self.store.now()).await;
            for (commit, verdict) in batch.iter().zip(verdicts.map_err(failed)?) {
                match verdict {
                    Committed::Done { .. } => {}
                    Committed::Conflict | Committed::Missing => {
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

    async fn settle(self: Arc<Self>, committed: Shared<Settlement>) -> Result<()> {
        loop {
            let batch = fill(&committed, self.shape.settle_batch).await;
            if batch.is_empty() {
                return Ok(());
            }
            let grant = grant(0);
            let settled =
                self.store.stores.actions.settle(&self.worker, &batch, &grant, self.store.now()).await;
            for verdict in settled.map_err(failed)?.verdicts {
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
async fn fill<T>(from: &Shared<T>, size: usize) -> Vec<T> {
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
fn grant(slots: usize) -> LeaseGrant {
    LeaseGrant { slots, ttl: LEASE, queues: [Queue::engine()].into() }
}

fn accept_no(verdict: &Appended) -> Result<AcceptNo> {
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
    async fn everything_that_is_appended_is_committed_and_settled() {
        let directory = tempfile::tempdir().unwrap();
        let shape = Shape {
            append_batch: 7,
            commit_batch: 5,
            settle_batch: 3,
            append_hands: 2,
            commit_hands: 2,
            settle_hands: 2,
        };
        for (workload, name) in [(Workload::Many, "many.db"), (Workload::Plain, "plain.db")] {
            let store = Arc::new(OpenStore::sqlite(&directory.path().join(name)).await.unwrap());
            assert!(run(&store, workload, "m-", 23, shape).await.unwrap() > 0.0);
            let backlog = store.stores.event_views.backlog().await.unwrap();
            assert_eq!((backlog.undecided, backlog.open_actions), (0, 0));
        }
    }
}
