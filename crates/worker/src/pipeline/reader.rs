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
use millstream_stream::doorbell::{DoorbellReader, FullTenants};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::consume::DoorbellArrival;
use crate::environment::WorkerEnvironment;
use crate::metrics;
use crate::stream_loss::StreamLossWatch;

const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

pub(crate) async fn run_reader(
    env: Arc<WorkerEnvironment>,
    full_tenants: FullTenants,
    losses: Arc<StreamLossWatch>,
    arrivals: mpsc::Sender<DoorbellArrival>,
) {
    let mut reader: Option<Box<dyn DoorbellReader>> = None;
    let mut wait = FIRST_WAIT;
    while !env.stop.is_cancelled() {
        match read_doorbells(&env, &full_tenants, &mut reader).await {
            Ok(deliveries) => {
                env.stream_outage.record_success();
                wait = FIRST_WAIT;
                if !deliveries.is_empty() && arrivals.send(DoorbellArrival::Rung(deliveries)).await.is_err() {
                    return;
                }
            }
            Err(StreamError::Amnesia(what)) => {
                tracing::warn!(error = %what, "stream consumer group is missing; re-publishing all undecided executions");
                losses.report_missing_group();
                tokio::time::sleep(env.jittered(FIRST_WAIT)).await;
            }
            Err(error @ (StreamError::Unavailable(_) | StreamError::Unusable(_))) => {
                env.stream_outage.record_failure(&error);
                poll_during_outage(&env, &arrivals, env.jittered(wait)).await;
                wait = (wait * 2).min(LONGEST_WAIT);
            }
        }
    }
}

/// Never cancelled: it ends by itself after at most `block`.
async fn read_doorbells(
    env: &WorkerEnvironment,
    full_tenants: &FullTenants,
    reader: &mut Option<Box<dyn DoorbellReader>>,
) -> Result<Vec<millstream_stream::doorbell::DoorbellDelivery>, StreamError> {
    let options = &env.options;
    let open = match reader {
        Some(open) => open,
        None => {
            let mut new = env.streams.bells.open_reader(&options.worker, &options.lanes).await?;
            new.skip_full_tenants(full_tenants);
            reader.insert(new)
        }
    };
    open.read_deliveries(options.batch, options.block).await
}

/// Polls the store for `length`, once at the beginning and then at every tick.
async fn poll_during_outage(
    env: &WorkerEnvironment,
    arrivals: &mpsc::Sender<DoorbellArrival>,
    length: Duration,
) {
    let end = Instant::now() + length;
    loop {
        poll_undecided(env, arrivals).await;
        let pause = env.options.tick.min(end.saturating_duration_since(Instant::now()));
        tokio::select! {
            biased;
            () = tokio::time::sleep(pause) => {}
            () = env.stop.cancelled() => return,
        }
        if Instant::now() >= end {
            return;
        }
    }
}

async fn poll_undecided(env: &WorkerEnvironment, arrivals: &mpsc::Sender<DoorbellArrival>) {
    let page = env.options.batch * 4;
    let mut after: Option<ExecutionKey> = None;
    while !env.stop.is_cancelled() {
        let Ok(mut found) = env.stores.events.page_undecided(None, after.as_ref(), page).await else {
            return;
        };
        after = found.last().cloned();
        let last_page = found.len() < page;
        if found.is_empty() {
            return;
        }
        ::metrics::counter!(metrics::POLLED).increment(found.len() as u64);
        let middle = (env.random_unit() * found.len() as f64) as usize % found.len();
        found.rotate_left(middle);
        if arrivals.send(DoorbellArrival::Found(found)).await.is_err() || last_page {
            return;
        }
    }
}
