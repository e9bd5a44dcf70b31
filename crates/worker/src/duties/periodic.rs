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

use crate::environment::WorkerEnvironment;
use crate::panic_text::panic_text;

/// Reasons why a duty was not completed this time.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DutyError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Stream(#[from] StreamError),
}

/// Runs `duty` at once and then about every `period`, with jitter. `duty` receives the part of the worker that
/// it works on.
pub(crate) async fn run_periodically<P, F, D>(
    env: Arc<WorkerEnvironment>,
    name: &'static str,
    period: Duration,
    part: Arc<P>,
    duty: F,
) where
    F: Fn(Arc<P>) -> D,
    D: Future<Output = Result<(), DutyError>>,
{
    while !env.stop.is_cancelled() {
        run_once(&env, name, duty(Arc::clone(&part))).await;
        tokio::select! {
            biased;
            () = env.stop.cancelled() => return,
            () = tokio::time::sleep(env.jittered(period)) => {}
        }
    }
}

/// Runs a duty once and logs its failure.
pub(crate) async fn run_once(
    env: &WorkerEnvironment,
    name: &'static str,
    duty: impl Future<Output = Result<(), DutyError>>,
) {
    match AssertUnwindSafe(duty).catch_unwind().await {
        Ok(Ok(())) => {}
        Ok(Err(DutyError::Store(error @ StoreError::Corrupt(_)))) => {
            tracing::error!(duty = name, error = %error, "duty failed");
        }
        Ok(Err(DutyError::Store(error))) => env.store_outage.record_failure(&error),
        Ok(Err(DutyError::Stream(error))) => env.stream_outage.record_failure(&error),
        Err(panic) => tracing::error!(duty = name, error = %panic_text(&*panic), "duty panicked"),
    }
}
