//! Removes the consumers and rows of dead workers, and dead executors.
//!
//! A consumer with pending entries is never removed: that would destroy them. They are reclaimed first (see
//! [`crate::reclaim`]), after which none is pending.

use std::sync::Arc;
use std::time::Duration;

use super::periodic::DutyError;
use crate::context::WorkerContext;

pub(crate) const PERIOD: Duration = Duration::from_secs(60);

/// A worker without a heartbeat for this long is dead.
pub(crate) const GONE: Duration = Duration::from_secs(600);

pub(crate) async fn remove_dead_consumers(worker: Arc<WorkerContext>) -> Result<(), DutyError> {
    let removed = worker.deps.streams.care.remove_consumers(None, GONE).await?;
    if removed > 0 {
        tracing::info!(consumers = removed, "removed consumers of dead workers");
    }
    let gone = worker.now().minus(GONE);
    worker.deps.stores.housekeeping.purge_workers(gone).await?;
    worker.deps.stores.executors.forget_executors(gone).await?;
    Ok(())
}
