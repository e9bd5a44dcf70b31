//! A thread with a small async runtime of its own for the generator.

use std::future::Future;

use tokio::runtime::Builder;
use tokio::task::LocalSet;

use crate::error::{BenchError, BenchResult};

/// Runs a future, which may be `!Send`, to its end on a new thread.
pub(crate) async fn on_own_thread<T, F>(work: impl FnOnce() -> F + Send + 'static) -> BenchResult<T>
where
    T: Send + 'static,
    F: Future<Output = BenchResult<T>>,
{
    let running = tokio::task::spawn_blocking(move || {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(BenchError::machine_error("start the generator's runtime"))?;
        LocalSet::new().block_on(&runtime, work())
    });
    running.await.map_err(|error| BenchError::Wrong(format!("the generator stopped: {error}")))?
}
