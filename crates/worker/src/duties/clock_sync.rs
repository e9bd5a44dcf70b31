//! Measures the store's time periodically, so that the worker's clock follows it.

use tokio::time::Instant;

use std::sync::Arc;
use std::time::Duration;

use super::periodic::DutyError;
use crate::environment::WorkerEnvironment;

pub(crate) const PERIOD: Duration = Duration::from_secs(30);

pub(crate) async fn measure_store_time(env: Arc<WorkerEnvironment>) -> Result<(), DutyError> {
    let asked = Instant::now();
    let store_time = env.stores.housekeeping.ping().await?;
    env.clock.follow_store(store_time, asked.elapsed());
    Ok(())
}
