//! Gives up actions that did not begin, or have no outcome, in time.
//!
//! Every queue is covered: the engine also gives up a task that no external worker leases. For actions under
//! way past their deadline, the worker that performs them notices, or the lease runs out.

use std::sync::Arc;

use tokio::time::Instant;

use super::periodic::DutyError;
use crate::context::WorkerContext;
use crate::post_commit::PostCommit;

/// Actions given up in one transaction.
const BATCH: usize = 64;

pub(crate) async fn give_up_missed(worker: Arc<WorkerContext>) -> Result<(), DutyError> {
    loop {
        let mut reserved = worker.slots.reserve_free(BATCH);
        let slots = reserved.len();
        if slots == 0 {
            return Ok(());
        }
        let asked = Instant::now();
        let grant = worker.lease_grant(slots);
        let missed =
            worker.deps.stores.tasks.lease_overdue(&worker.options.worker, &grant, worker.now()).await?;
        let all = missed.len() < slots;
        PostCommit::default().start_actions(&worker, missed, &mut reserved, asked);
        if all {
            return Ok(());
        }
    }
}
