//! Refreshes changed tenant quotas, for this worker alone.

use std::sync::Arc;
use std::time::Duration;

use millstream_store::quota_cache::REFRESH_EVERY;

use super::periodic::DutyError;
use crate::context::WorkerContext;

pub(crate) const PERIOD: Duration = REFRESH_EVERY;

pub(crate) async fn refresh_quotas(worker: Arc<WorkerContext>) -> Result<(), DutyError> {
    worker.quotas.refresh_changed(&*worker.deps.stores.quotas).await?;
    Ok(())
}
