//! Measures the store's time periodically, so that the worker's clock follows it.

use tokio::time::Instant;

use std::sync::Arc;
use std::time::Duration;

use super::every::Undone;
use crate::worker::Worker;

pub(crate) const PERIOD: Duration = Duration::from_secs(30);

pub(crate) async fn measure(worker: Arc<Worker>) -> Result<(), Undone> {
    let asked = Instant::now();
    let store_time = worker.deps.stores.housekeeping.ping().await?;
    worker.deps.clock.follow(store_time, asked.elapsed());
    Ok(())
}
