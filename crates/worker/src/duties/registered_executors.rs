//! Reads the list of registered executors, for this worker alone.

use std::sync::Arc;
use std::time::Duration;

use super::periodic::DutyError;
use crate::environment::WorkerEnvironment;
use crate::executors::ExecutorTable;

pub(crate) const PERIOD: Duration = Duration::from_secs(1);

pub(crate) async fn read_executors(
    env: Arc<WorkerEnvironment>,
    executors: ExecutorTable,
) -> Result<(), DutyError> {
    let since = env.now().minus(env.options.executor_silence);
    let heard = env.stores.executors.list_executors(since).await?;
    executors.set_registered(heard.into_iter().map(|(executor, _)| executor).collect());
    Ok(())
}
