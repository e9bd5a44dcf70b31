//! Reads the list of registered executors, for this worker alone.

use std::sync::Arc;
use std::time::Duration;

use super::every::Undone;
use crate::worker::Worker;

pub(crate) const PERIOD: Duration = Duration::from_secs(1);

pub(crate) async fn read(worker: Arc<Worker>) -> Result<(), Undone> {
    let since = worker.now().minus(worker.options.executor_silence);
    let heard = worker.deps.stores.executors.executors(since).await?;
    worker.executors.registered(heard.into_iter().map(|(executor, _)| executor).collect());
    Ok(())
}
