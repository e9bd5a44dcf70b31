//! Delivers graph events to one sink, while this worker holds the publishing turn.
//!
//! The courier reads due entries, packs them into batches and sends a few at the same time, no graph in two
//! of them. A graph whose events are refused is deferred in the store with growing back-off, and delays no
//! other graph. A sink that is unavailable is paused as a whole with growing back-off, and then probed with
//! one batch (a circuit breaker). Delivery is never given up: events stay in the store until the sink accepts
//! them, or until retention removes the graph. Memory never holds more than one page.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, FuturesUnordered};
use futures::{FutureExt, StreamExt, TryStreamExt};
use millstream_core::id::ExecutionKey;
use millstream_store::StoreError;
use millstream_store::outbox::{HandedOver, Limit, Parcel, PutOff};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::batch::{Batch, Came, Delivered, deliver, pack};
use super::share::Share;
use super::sink::Sink;
use super::standing::{FailureLog, Standing, patience};
use crate::duties::every::Undone;
use crate::worker::Worker;

/// Limits of one read.
const PAGE: Limit = Limit { executions: 64, entries: 64 };
/// Graphs whose logs are read at the same time.
const READING: usize = 4;
/// How long to wait for a wake-up before the next poll.
const LOOK: Duration = Duration::from_secs(1);
/// Time limit of requests under way when the worker stops.
const FINISH: Duration = Duration::from_secs(1);

type Sending = futures::future::BoxFuture<'static, Delivered>;

pub(crate) struct Courier<'a> {
    worker: &'a Worker,
    sink: Arc<dyn Sink>,
    /// Packed and not sent.
    packed: VecDeque<Batch>,
    sending: FuturesUnordered<Sending>,
    /// The graphs of both.
    busy: BTreeSet<ExecutionKey>,
    standing: Standing,
}

impl<'a> Courier<'a> {
    pub(crate) fn new(worker: &'a Worker, sink: Arc<dyn Sink>, log: FailureLog) -> Self {
        Self {
            worker,
            sink,
            packed: VecDeque::new(),
            sending: FuturesUnordered::new(),
            busy: BTreeSet::new(),
            standing: Standing::new(log),
        }
    }

    /// Runs until `stop`; requests under way then are finished within a short time limit. An error comes from
    /// the store: the caller starts again.
    pub(crate) async fn run(&mut self, news: &Notify, stop: &CancellationToken) -> Result<(), Undone> {
        while !stop.is_cancelled() {
            let rest = self.standing.rest();
            if self.packed.is_empty() && rest.is_none() {
                self.pack().await?;
            }
            if rest.is_none() {
                self.send();
            }
            let again = rest.unwrap_or_else(|| Instant::now() + LOOK);
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                Some(delivered) = self.sending.next() => self.settle(delivered).await?,
                () = tokio::time::sleep_until(again) => {}
                () = news.notified(), if rest.is_none() => {}
            }
        }
        let finishing = async {
            while let Some(delivered) = self.sending.next().await {
                self.settle(delivered).await?;
            }
            Ok(())
        };
        // Events of slower requests are sent again by the next courier.
        tokio::time::timeout(FINISH, finishing).await.unwrap_or(Ok(()))
    }

    pub(crate) fn into_log(self) -> FailureLog {
        self.standing.into_log()
    }

    /// Reads due entries. Events that the sink does not subscribe to are skipped.
    async fn pack(&mut self) -> Result<(), Undone> {
        let stores = &self.worker.deps.stores;
        let limit = Limit { executions: PAGE.executions + self.busy.len(), ..PAGE };
        let mut due = stores.outbox.due(self.sink.name(), limit, self.worker.now()).await?;
        due.retain(|parcel| !self.busy.contains(&parcel.execution));
        let (worker, sink) = (self.worker, &*self.sink);
        let reading = due.into_iter().map(|parcel| read(worker, sink, parcel));
        let read: Vec<Result<Share, PutOff>> = stream::iter(reading).buffered(READING).try_collect().await?;
        let (mut shares, mut unreadable) = (Vec::new(), Vec::new());
        for share in read {
            match share {
                Ok(share) => shares.push(share),
                Err(put_off) => unreadable.push(put_off),
            }
        }
        stores.outbox.put_off(self.sink.name(), &unreadable).await?;
        let (empty, shares): (Vec<_>, Vec<_>) = shares.into_iter().partition(|share| share.events.is_empty());
        let passed: Vec<HandedOver> = empty.iter().filter_map(|share| share.heard(0)).collect();
        stores.outbox.handed_over(self.sink.name(), &passed, self.worker.now()).await?;
        self.busy.extend(shares.iter().map(|share| share.graph.clone()));
        self.packed = pack(shares, self.sink.load());
        Ok(())
    }

    fn send(&mut self) {
        // A failed sink is probed with one batch before the others follow.
        let requests = if self.standing.is_away() { 1 } else { self.sink.load().requests };
        while self.sending.len() < requests {
            let Some(batch) = self.packed.pop_front() else { break };
            self.sending.push(deliver(Arc::clone(&self.sink), batch).boxed());
        }
    }

    /// Records the outcome of a batch, and of all others that have completed by now.
    async fn settle(&mut self, first: Delivered) -> Result<(), Undone> {
        let mut over = vec![first];
        while let Some(Some(more)) = self.sending.next().now_or_never() {
            over.push(more);
        }
        let (mut heard, mut put_off) = (Vec::new(), Vec::new());
        for delivered in over {
            let refusal = delivered.refusal.as_ref();
            self.standing.judge(self.worker, self.sink.name(), delivered.sent, refusal);
            for Came { share, heard: came, is_held } in delivered.came() {
                self.busy.remove(&share.graph);
                if is_held {
                    // Progress resets the attempts.
                    let attempts = if came.is_some() { 1 } else { share.attempts.saturating_add(1) };
                    put_off.push(later(self.worker, share.graph, attempts));
                }
                heard.extend(came);
            }
        }
        let (outbox, name) = (&self.worker.deps.stores.outbox, self.sink.name());
        outbox.handed_over(name, &heard, self.worker.now()).await?;
        outbox.put_off(name, &put_off).await?;
        Ok(())
    }
}

/// An unreadable graph is deferred without an effect on the others.
async fn read(worker: &Worker, sink: &dyn Sink, parcel: Parcel) -> Result<Result<Share, PutOff>, Undone> {
    let (graph, attempts) = (parcel.execution.clone(), parcel.attempts);
    match Share::of(parcel, sink, &*worker.deps.stores.execution_views).await {
        Ok(share) => Ok(Ok(share)),
        Err(error @ StoreError::Corrupt(_)) => {
            tracing::error!(graph = %graph.execution, error = %error, "could not read the events of a graph");
            Ok(Err(later(worker, graph, attempts.saturating_add(1))))
        }
        Err(error) => Err(error.into()),
    }
}

fn later(worker: &Worker, graph: ExecutionKey, attempts: u32) -> PutOff {
    PutOff { execution: graph, until: worker.now().plus(patience(worker, attempts)), attempts }
}
