//! Measures the store's time periodically, so that the worker's clock follows it.

use tokio::time::Instant;

use std::sync::Arc;
use std::time::Duration;

use super::periodic::DutyError;
use crate::context::WorkerContext;

pub(crate) const PERIOD: Duration = Duration::from_secs(30);

pub(crate) async fn measure_store_time(worker: Arc<WorkerContext>) -> Result<(), DutyError> {
    let asked = Instant::now();
    let store_time = worker.deps.stores.housekeeping.ping().await?;
    worker.deps.clock.follow_store(store_time, asked.elapsed());
    Ok(())
}
