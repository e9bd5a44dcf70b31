//! Reclaims the doorbells of dead workers.
//!
//! A doorbell idle for `reclaim_idle` belonged to a worker that died (a live one refreshes its doorbells at a
//! third of that, see [`super::consume`]). The first worker to find it takes it over. The doorbell comes back
//! marked, so that the event at the head of that mailbox is counted as cut short ([`super::poison`]); if the
//! dead worker had committed, the mailbox is empty and the doorbell is simply acknowledged. After a long
//! stream outage live workers look dead: that costs a repeated visit, never a repeated transition.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::consume::DoorbellArrival;
use crate::environment::WorkerEnvironment;
use crate::metrics;

pub(crate) async fn run_reclaim(env: Arc<WorkerEnvironment>, arrivals: mpsc::Sender<DoorbellArrival>) {
    loop {
        tokio::select! {
            biased;
            () = env.stop.cancelled() => return,
            () = tokio::time::sleep(env.jittered(env.options.reclaim_idle / 3)) => {}
        }
        loop {
            let options = &env.options;
            let bells = &env.streams.bells;
            let taken = match bells.reclaim_idle(&options.worker, options.reclaim_idle, options.batch).await {
                Ok(taken) => taken,
                Err(error) => {
                    env.stream_outage.record_failure(&error);
                    break;
                }
            };
            if taken.is_empty() {
                break;
            }
            ::metrics::counter!(metrics::RECLAIMED).increment(taken.len() as u64);
            tracing::info!(doorbells = taken.len(), "reclaimed doorbells of a dead worker");
            if arrivals.send(DoorbellArrival::Rung(taken)).await.is_err() {
                return;
            }
        }
    }
}
