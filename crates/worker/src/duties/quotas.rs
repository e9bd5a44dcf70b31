//! Refreshes changed tenant quotas, for this worker alone.

use std::sync::Arc;
use std::time::Duration;

use millstream_store::quota_book::REFRESH_EVERY;

use super::every::Undone;
use crate::worker::Worker;

pub(crate) const PERIOD: Duration = REFRESH_EVERY;

pub(crate) async fn read(worker: Arc<Worker>) -> Result<(), Undone> {
    worker.quotas.refresh(&*worker.deps.stores.quotas).await?;
    Ok(())
}
