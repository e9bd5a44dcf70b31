//! Leases actions that are ready and that nobody took along with a commit.
//!
//! Woken by a doorbell for actions, by a retry of this worker that comes due, by a slot that becomes
//! free while there was more to do, and by a slow tick. The tick is also the repair: it finds actions
//! whose doorbell was lost and actions whose holder died (their lease has run out).

use std::sync::Arc;

use tokio::time::Instant;

use super::every::{Undone, once};
use crate::aftermath::Aftermath;
use crate::worker::Worker;

pub(crate) async fn run(worker: Arc<Worker>) {
    while !worker.stop.is_cancelled() {
        tokio::select! {
            biased;
            () = worker.stop.cancelled() => return,
            () = worker.hunger.wait(worker.around(worker.options.tick)) => {}
        }
        once(&worker, "due actions", lease(&worker)).await;
    }
}

/// Takes until there is less than there are slots, or no slot is free and the worker stops.
async fn lease(worker: &Worker) -> Result<(), Undone> {
    loop {
        let mut reserved = tokio::select! {
            biased;
            reserved = worker.slots.reserve_some() => reserved,
            () = worker.stop.cancelled() => return Ok(()),
        };
        let asked = Instant::now();
        let slots = reserved.len();
        let grant = worker.grant(slots);
        let leased = worker.deps.stores.actions.lease(&worker.options.worker, &grant, worker.now()).await?;
        let all = leased.len() < slots;
        Aftermath::default().perform(worker, leased, &mut reserved, asked);
        if all {
            return Ok(());
        }
    }
}
