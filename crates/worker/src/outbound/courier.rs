//! Tells one sink what it has not heard of graphs, for as long as it is this worker's turn.
//!
//! What is due is read, packed into batches and sent, a few at the same time and no graph in two of them. A graph
//! whose events are refused is put off in the store, longer each time, and nobody waits for it. A sink that is away
//! is left alone as a whole, longer each time, and then asked with one batch. Nothing is given up: what a sink does
//! not take stays in the store until it does, or until retention removes the graph. In memory there is never more
//! than one page.

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

/// What is read at once.
const PAGE: Limit = Limit { executions: 64, entries: 64 };
/// Graphs whose logs are read at the same time.
const READING: usize = 4;
/// How long to wait for word that there is something new.
const LOOK: Duration = Duration::from_secs(1);
/// How long what is under way may take when the worker stops.
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

    /// Until `stop`; what is under way then is finished if it does not take long. An error is the store's: whoever calls begins anew.
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
        // What takes longer is sent again by the next.
        tokio::time::timeout(FINISH, finishing).await.unwrap_or(Ok(()))
    }

    pub(crate) fn into_log(self) -> FailureLog {
        self.standing.into_log()
    }

    /// Reads what is due. What the sink does not want to hear is passed over.
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
        // One that failed is asked with one batch before everybody comes.
        let requests = if self.standing.is_away() { 1 } else { self.sink.load().requests };
        while self.sending.len() < requests {
            let Some(batch) = self.packed.pop_front() else { break };
            self.sending.push(deliver(Arc::clone(&self.sink), batch).boxed());
        }
    }

    /// Records what came of a batch, and of all others that are over by now.
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
                    // Whoever came further begins anew.
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

/// A graph that cannot be read is put off: the others have nothing to do with it.
async fn read(worker: &Worker, sink: &dyn Sink, parcel: Parcel) -> Result<Result<Share, PutOff>, Undone> {
    let (graph, attempts) = (parcel.execution.clone(), parcel.attempts);
    match Share::of(parcel, sink, &*worker.deps.stores.execution_views).await {
        Ok(share) => Ok(Ok(share)),
        Err(error @ StoreError::Corrupt(_)) => {
            tracing::error!(graph = %graph.execution, error = %error, "what happened to a graph cannot be told");
            Ok(Err(later(worker, graph, attempts.saturating_add(1))))
        }
        Err(error) => Err(error.into()),
    }
}

fn later(worker: &Worker, graph: ExecutionKey, attempts: u32) -> PutOff {
    PutOff { execution: graph, until: worker.now().plus(patience(worker, attempts)), attempts }
}
