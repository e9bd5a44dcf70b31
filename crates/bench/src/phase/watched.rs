//! Runs the generator while watching the engine and the progress bar.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::error::Result;
use crate::progress::Bar;
use crate::target::Subject;

const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The result of the work, or the error of an engine that died.
pub(super) async fn watched<T>(
    subject: &mut Subject,
    (bar, done): (&Bar, &AtomicUsize),
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            worked = &mut work => return worked,
            () = tokio::time::sleep(LOOK_EVERY) => {
                subject.alive()?;
                bar.set(done.load(Ordering::Relaxed) as u64);
            }
        }
    }
}
