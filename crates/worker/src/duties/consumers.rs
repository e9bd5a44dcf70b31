//! Removes consumers of workers that are gone, and their rows; and executors that are gone.
//!
//! A consumer with pending entries is never removed: removing it would destroy them for ever. They
//! are taken over first (see [`crate::reclaim`]), and then nothing is pending any more.

use std::sync::Arc;
use std::time::Duration;

use super::every::Undone;
use crate::worker::Worker;

pub(crate) const PERIOD: Duration = Duration::from_secs(60);

/// Nothing heard for this long: gone.
pub(crate) const GONE: Duration = Duration::from_secs(600);

pub(crate) async fn clean_up(worker: Arc<Worker>) -> Result<(), Undone> {
    let removed = worker.deps.streams.care.remove_consumers(None, GONE).await?;
    if removed > 0 {
        tracing::info!(consumers = removed, "removed consumers that are gone");
    }
    let gone = worker.now().minus(GONE);
    worker.deps.stores.housekeeping.purge_workers(gone).await?;
    worker.deps.stores.executors.forget_executors(gone).await?;
    Ok(())
}
