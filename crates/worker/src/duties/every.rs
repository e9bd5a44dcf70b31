//! Runs a duty periodically until the worker stops.
//!
//! A duty that fails or panics is retried at its next time: an outage is logged once, and a failing duty
//! never stops the worker.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use millstream_store::StoreError;
use millstream_stream::StreamError;

use crate::process::panic_text;
use crate::worker::Worker;

/// Reasons why a duty was not completed this time.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Undone {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Stream(#[from] StreamError),
}

/// Runs `duty` at once and then about every `period`, with jitter.
pub(crate) async fn every<F, D>(worker: Arc<Worker>, name: &'static str, period: Duration, duty: F)
where
    F: Fn(Arc<Worker>) -> D,
    D: Future<Output = Result<(), Undone>>,
{
    while !worker.stop.is_cancelled() {
        once(&worker, name, duty(Arc::clone(&worker))).await;
        tokio::select! {
            biased;
            () = worker.stop.cancelled() => return,
            () = tokio::time::sleep(worker.around(period)) => {}
        }
    }
}

/// Runs a duty once and logs its failure.
pub(crate) async fn once(
    worker: &Worker,
    name: &'static str,
    duty: impl Future<Output = Result<(), Undone>>,
) {
    match AssertUnwindSafe(duty).catch_unwind().await {
        Ok(Ok(())) => {}
        Ok(Err(Undone::Store(error @ StoreError::Corrupt(_)))) => {
            tracing::error!(duty = name, error = %error, "duty failed");
        }
        Ok(Err(Undone::Store(error))) => worker.store_outage.met(&error),
        Ok(Err(Undone::Stream(error))) => worker.stream_outage.met(&error),
        Err(panic) => tracing::error!(duty = name, error = %panic_text(&*panic), "duty panicked"),
    }
}
