//! Reads the list of registered executors, for this worker alone.

use std::sync::Arc;
use std::time::Duration;

use super::periodic::DutyError;
use crate::context::WorkerContext;

pub(crate) const PERIOD: Duration = Duration::from_secs(1);

pub(crate) async fn read_executors(worker: Arc<WorkerContext>) -> Result<(), DutyError> {
    let since = worker.now().minus(worker.options.executor_silence);
    let heard = worker.deps.stores.executors.list_executors(since).await?;
    worker.executors.set_registered(heard.into_iter().map(|(executor, _)| executor).collect());
    Ok(())
}
