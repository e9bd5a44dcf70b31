//! Gives up actions that did not begin, or have no outcome, in time.
//!
//! Every queue is covered: the engine also gives up a task that no external worker leases. For actions under
//! way past their deadline, the worker that performs them notices, or the lease runs out.

use std::sync::Arc;

use tokio::time::Instant;

use super::every::Undone;
use crate::aftermath::Aftermath;
use crate::worker::Worker;

/// Actions given up in one transaction.
const BATCH: usize = 64;

pub(crate) async fn give_up(worker: Arc<Worker>) -> Result<(), Undone> {
    loop {
        let mut reserved = worker.slots.reserve(BATCH);
        let slots = reserved.len();
        if slots == 0 {
            return Ok(());
        }
        let asked = Instant::now();
        let grant = worker.grant(slots);
        let missed = worker.deps.stores.tasks.overdue(&worker.options.worker, &grant, worker.now()).await?;
        let all = missed.len() < slots;
        Aftermath::default().perform(&worker, missed, &mut reserved, asked);
        if all {
            return Ok(());
        }
    }
}
