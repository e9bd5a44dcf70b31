//! Runs the generator while watching the engine and the progress bar.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::error::BenchResult;
use crate::progress::BenchProgressBar;
use crate::target::EngineUnderTest;

const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The result of the work, or the error of an engine that died.
pub(super) async fn run_watched<T>(
    subject: &mut EngineUnderTest,
    (bar, done): (&BenchProgressBar, &AtomicUsize),
    work: impl Future<Output = BenchResult<T>>,
) -> BenchResult<T> {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            worked = &mut work => return worked,
            () = tokio::time::sleep(LOOK_EVERY) => {
                subject.check_alive()?;
                bar.set_position(done.load(Ordering::Relaxed) as u64);
            }
        }
    }
}
