//! Actions that nobody began in time, or that have no outcome in time, are given up.
//!
//! Whatever their queue: a task that no external worker takes is given up by the engine. Those that are
//! under way when their time is up are noticed by whoever performs them, or when their lease ends.

use std::sync::Arc;

use tokio::time::Instant;

use super::every::Undone;
use crate::aftermath::Aftermath;
use crate::worker::Worker;

/// Given up in one transaction.
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
