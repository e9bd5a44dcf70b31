//! Removes what has outlived its use, a few rows at a time, one worker at a time.

use std::sync::Arc;
use std::time::Duration;

use millstream_store::housekeeping::Outlived;

use super::every::Undone;
use crate::metrics;
use crate::worker::Worker;

pub(crate) const PERIOD: Duration = Duration::from_secs(60);

pub(crate) const DUTY: &str = "retention";
const TURN: Duration = Duration::from_secs(60);
/// Small transactions, so that nobody waits for them.
const ROWS: usize = 200;
/// The rest has time until the next turn.
const ROUNDS: usize = 50;

pub(crate) async fn purge(worker: Arc<Worker>) -> Result<(), Undone> {
    let (stores, me) = (&worker.deps.stores, &worker.options.worker);
    let now = worker.now();
    if stores.workers.take_duty(DUTY, me, TURN, now).await?.is_none() {
        return Ok(());
    }
    let retention = &worker.options.retention;
    let ended = Outlived {
        completed: now.minus(retention.completed),
        failed: now.minus(retention.failed),
        cancelled: now.minus(retention.cancelled),
    };
    let keys = now.minus(retention.keys);
    for _ in 0..ROUNDS {
        let executions = stores.housekeeping.purge_executions(ended, ROWS).await?;
        let keys = stores.housekeeping.purge_keys(keys, ROWS).await?;
        ::metrics::counter!(metrics::PURGED, "kind" => "execution").increment(executions);
        ::metrics::counter!(metrics::PURGED, "kind" => "key").increment(keys);
        if executions + keys == 0 || worker.stop.is_cancelled() {
            break;
        }
    }
    stores.workers.finish_duty(DUTY, me, now).await?;
    Ok(())
}
