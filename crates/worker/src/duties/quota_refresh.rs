//! Refreshes changed tenant quotas, for this worker alone.

use std::sync::Arc;
use std::time::Duration;

use millstream_store::quota_cache::REFRESH_EVERY;

use super::periodic::DutyError;
use crate::environment::WorkerEnvironment;
use crate::quotas::WorkerQuotas;

pub(crate) const PERIOD: Duration = REFRESH_EVERY;

pub(crate) async fn refresh_quotas(
    env: Arc<WorkerEnvironment>,
    quotas: Arc<WorkerQuotas>,
) -> Result<(), DutyError> {
    quotas.refresh_changed(&*env.stores.quotas).await?;
    Ok(())
}
