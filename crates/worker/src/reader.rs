//! The reader: takes doorbells from the stream, and survives the stream's outages.
//!
//! An outage is logged once. While it lasts the reader retries with back-off (100 ms → 5 s) and meanwhile
//! polls the store for undecided events, slowly: the stream only carries doorbells, so the store still has
//! the events. Several workers that poll at once are separated by the fence; each reads its page in an order
//! of its own, so that collisions are rare.

use std::sync::Arc;
use std::time::Duration;

use millstream_model::id::ExecutionKey;
use millstream_stream::StreamError;
use millstream_stream::doorbell::DoorbellReader;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::consume::DoorbellArrival;
use crate::context::WorkerContext;
use crate::metrics;

const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

pub(crate) async fn run_reader(worker: Arc<WorkerContext>, arrivals: mpsc::Sender<DoorbellArrival>) {
    let mut reader: Option<Box<dyn DoorbellReader>> = None;
    let mut wait = FIRST_WAIT;
    while !worker.stop.is_cancelled() {
        match read_doorbells(&worker, &mut reader).await {
            Ok(deliveries) => {
                worker.stream_outage.record_success();
                wait = FIRST_WAIT;
                if !deliveries.is_empty() && arrivals.send(DoorbellArrival::Rung(deliveries)).await.is_err() {
                    return;
                }
            }
            Err(StreamError::Amnesia(what)) => {
                tracing::warn!(error = %what, "stream consumer group is missing; re-publishing all undecided executions");
                worker.amnesia.notify_one();
                tokio::time::sleep(worker.jittered(FIRST_WAIT)).await;
            }
            Err(error @ (StreamError::Unavailable(_) | StreamError::Unusable(_))) => {
                worker.stream_outage.record_failure(&error);
                poll_during_outage(&worker, &arrivals, worker.jittered(wait)).await;
                wait = (wait * 2).min(LONGEST_WAIT);
            }
        }
    }
}

/// Never cancelled: it ends by itself after at most `block`.
async fn read_doorbells(
    worker: &WorkerContext,
    reader: &mut Option<Box<dyn DoorbellReader>>,
) -> Result<Vec<millstream_stream::doorbell::DoorbellDelivery>, StreamError> {
    let options = &worker.options;
    let open = match reader {
        Some(open) => open,
        None => {
            let mut new = worker.deps.streams.bells.open_reader(&options.worker, &options.lanes).await?;
            new.skip_full_tenants(&worker.full_tenants);
            reader.insert(new)
        }
    };
    open.read_deliveries(options.batch, options.block).await
}

/// Polls the store for `length`, once at the beginning and then at every tick.
async fn poll_during_outage(
    worker: &WorkerContext,
    arrivals: &mpsc::Sender<DoorbellArrival>,
    length: Duration,
) {
    let end = Instant::now() + length;
    loop {
        poll_undecided(worker, arrivals).await;
        let pause = worker.options.tick.min(end.saturating_duration_since(Instant::now()));
        tokio::select! {
            biased;
            () = tokio::time::sleep(pause) => {}
            () = worker.stop.cancelled() => return,
        }
        if Instant::now() >= end {
            return;
        }
    }
}

async fn poll_undecided(worker: &WorkerContext, arrivals: &mpsc::Sender<DoorbellArrival>) {
    let page = worker.options.batch * 4;
    let mut after: Option<ExecutionKey> = None;
    while !worker.stop.is_cancelled() {
        let Ok(mut found) = worker.deps.stores.events.page_undecided(None, after.as_ref(), page).await else {
            return;
        };
        after = found.last().cloned();
        let last_page = found.len() < page;
        if found.is_empty() {
            return;
        }
        ::metrics::counter!(metrics::POLLED).increment(found.len() as u64);
        let middle = (worker.random_unit() * found.len() as f64) as usize % found.len();
        found.rotate_left(middle);
        if arrivals.send(DoorbellArrival::Found(found)).await.is_err() || last_page {
            return;
        }
    }
}
