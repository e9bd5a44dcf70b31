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
use millstream_model::id::ExecutionKey;
use millstream_store::outbox::{DeliveredParcel, FeedParcel, ParcelBackoff, ParcelLimit};
use millstream_store::{StoreError, StoreResult};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::batch::{DeliveredBatch, GraphDelivery, OutboundBatch, deliver_batch, pack_batches};
use super::graph_share::GraphShare;
use super::sink::Sink;
use super::sink_health::{FailureLog, SinkHealth, refusal_backoff};
use crate::environment::WorkerEnvironment;

/// Limits of one read.
const PAGE: ParcelLimit = ParcelLimit { executions: 64, entries: 64 };
/// Graphs whose logs are read at the same time.
const READING: usize = 4;
/// How long to wait for a wake-up before the next poll.
const LOOK: Duration = Duration::from_secs(1);
/// Time limit of requests under way when the worker stops.
const FINISH: Duration = Duration::from_secs(1);

type DeliveryInFlight = futures::future::BoxFuture<'static, DeliveredBatch>;

pub(crate) struct GraphCourier<'a> {
    env: &'a WorkerEnvironment,
    sink: Arc<dyn Sink>,
    /// Packed and not sent.
    packed: VecDeque<OutboundBatch>,
    sending: FuturesUnordered<DeliveryInFlight>,
    /// The graphs of both.
    busy: BTreeSet<ExecutionKey>,
    standing: SinkHealth,
}

impl<'a> GraphCourier<'a> {
    pub(crate) fn new(env: &'a WorkerEnvironment, sink: Arc<dyn Sink>, log: FailureLog) -> Self {
        Self {
            env,
            sink,
            packed: VecDeque::new(),
            sending: FuturesUnordered::new(),
            busy: BTreeSet::new(),
            standing: SinkHealth::new(log),
        }
    }

    /// Runs until `stop`; requests under way then are finished within a short time limit. An error comes from
    /// the store: the caller starts again.
    pub(crate) async fn run(&mut self, news: &Notify, stop: &CancellationToken) -> StoreResult<()> {
        while !stop.is_cancelled() {
            let rest = self.standing.paused_until();
            if self.packed.is_empty() && rest.is_none() {
                self.pack_due().await?;
            }
            if rest.is_none() {
                self.send_next();
            }
            let again = rest.unwrap_or_else(|| Instant::now() + LOOK);
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                Some(delivered) = self.sending.next() => self.settle_deliveries(delivered).await?,
                () = tokio::time::sleep_until(again) => {}
                () = news.notified(), if rest.is_none() => {}
            }
        }
        let finishing = async {
            while let Some(delivered) = self.sending.next().await {
                self.settle_deliveries(delivered).await?;
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
    async fn pack_due(&mut self) -> StoreResult<()> {
        let stores = &self.env.stores;
        let limit = ParcelLimit { executions: PAGE.executions + self.busy.len(), ..PAGE };
        let mut due = stores.outbox.due_parcels(self.sink.name(), limit, self.env.now()).await?;
        due.retain(|parcel| !self.busy.contains(&parcel.execution));
        let (env, sink) = (self.env, &*self.sink);
        let reading = due.into_iter().map(|parcel| read_share(env, sink, parcel));
        let read: Vec<Result<GraphShare, ParcelBackoff>> =
            stream::iter(reading).buffered(READING).try_collect().await?;
        let (mut shares, mut unreadable) = (Vec::new(), Vec::new());
        for share in read {
            match share {
                Ok(share) => shares.push(share),
                Err(put_off) => unreadable.push(put_off),
            }
        }
        stores.outbox.postpone_parcels(self.sink.name(), &unreadable).await?;
        let (empty, shares): (Vec<_>, Vec<_>) = shares.into_iter().partition(|share| share.events.is_empty());
        let passed: Vec<DeliveredParcel> = empty.iter().filter_map(|share| share.position_after(0)).collect();
        stores.outbox.advance_sinks(self.sink.name(), &passed, self.env.now()).await?;
        self.busy.extend(shares.iter().map(|share| share.graph.clone()));
        self.packed = pack_batches(shares, self.sink.load_limits());
        Ok(())
    }

    fn send_next(&mut self) {
        // A failed sink is probed with one batch before the others follow.
        let requests = if self.standing.is_away() { 1 } else { self.sink.load_limits().requests };
        while self.sending.len() < requests {
            let Some(batch) = self.packed.pop_front() else { break };
            self.sending.push(deliver_batch(Arc::clone(&self.sink), batch).boxed());
        }
    }

    /// Records the outcome of a batch, and of all others that have completed by now.
    async fn settle_deliveries(&mut self, first: DeliveredBatch) -> StoreResult<()> {
        let mut over = vec![first];
        while let Some(Some(more)) = self.sending.next().now_or_never() {
            over.push(more);
        }
        let (mut heard, mut put_off) = (Vec::new(), Vec::new());
        for delivered in over {
            let refusal = delivered.refusal.as_ref();
            self.standing.record_batch(self.env, self.sink.name(), delivered.sent, refusal);
            for GraphDelivery { share, heard: came, is_held } in delivered.graph_deliveries() {
                self.busy.remove(&share.graph);
                if is_held {
                    // Progress resets the attempts.
                    let attempts = if came.is_some() { 1 } else { share.attempts.saturating_add(1) };
                    put_off.push(defer_graph(self.env, share.graph, attempts));
                }
                heard.extend(came);
            }
        }
        let (outbox, name) = (&self.env.stores.outbox, self.sink.name());
        outbox.advance_sinks(name, &heard, self.env.now()).await?;
        outbox.postpone_parcels(name, &put_off).await?;
        Ok(())
    }
}

/// An unreadable graph is deferred without an effect on the others.
async fn read_share(
    env: &WorkerEnvironment,
    sink: &dyn Sink,
    parcel: FeedParcel,
) -> StoreResult<Result<GraphShare, ParcelBackoff>> {
    let (graph, attempts) = (parcel.execution.clone(), parcel.attempts);
    match GraphShare::of_parcel(parcel, sink, &*env.stores.execution_views).await {
        Ok(share) => Ok(Ok(share)),
        Err(error @ StoreError::Corrupt(_)) => {
            tracing::error!(graph = %graph.execution, error = %error, "could not read the events of a graph");
            Ok(Err(defer_graph(env, graph, attempts.saturating_add(1))))
        }
        Err(error) => Err(error),
    }
}

fn defer_graph(env: &WorkerEnvironment, graph: ExecutionKey, attempts: u32) -> ParcelBackoff {
    ParcelBackoff { execution: graph, until: env.now().plus(refusal_backoff(env, attempts)), attempts }
}
