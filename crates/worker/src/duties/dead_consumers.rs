//! Removes the consumers and rows of dead workers, and dead executors.
//!
//! A consumer with pending entries is never removed: that would destroy them. They are reclaimed first (see
//! [`crate::pipeline::reclaim`]), after which none is pending.

use std::sync::Arc;
use std::time::Duration;

use super::periodic::DutyError;
use crate::environment::WorkerEnvironment;

pub(crate) const PERIOD: Duration = Duration::from_secs(60);

/// A worker without a heartbeat for this long is dead.
pub(crate) const GONE: Duration = Duration::from_secs(600);

pub(crate) async fn remove_dead_consumers(env: Arc<WorkerEnvironment>) -> Result<(), DutyError> {
    let removed = env.streams.care.remove_consumers(None, GONE).await?;
    if removed > 0 {
        tracing::info!(consumers = removed, "removed consumers of dead workers");
    }
    let gone = env.now().minus(GONE);
    env.stores.housekeeping.purge_workers(gone).await?;
    env.stores.executors.forget_executors(gone).await?;
    Ok(())
}
