//! Gives up actions that did not begin, or have no outcome, in time.
//!
//! Every queue is covered: the engine also gives up a task that no external worker leases. For actions under
//! way past their deadline, the worker that performs them notices, or the lease runs out.

use std::sync::Arc;

use tokio::time::Instant;

use super::periodic::DutyError;
use crate::leasing::ActionLeasing;

/// Actions given up in one transaction.
const BATCH: usize = 64;

pub(crate) async fn give_up_missed(leasing: Arc<ActionLeasing>) -> Result<(), DutyError> {
    loop {
        let mut reserved = leasing.slots.reserve_free(BATCH);
        let slots = reserved.len();
        if slots == 0 {
            return Ok(());
        }
        let asked = Instant::now();
        let grant = leasing.lease_grant(slots);
        let missed = leasing
            .env
            .stores
            .tasks
            .lease_overdue(&leasing.env.options.worker, &grant, leasing.env.now())
            .await?;
        let all = missed.len() < slots;
        leasing.start_actions(missed, &mut reserved, asked);
        if all {
            return Ok(());
        }
    }
}
