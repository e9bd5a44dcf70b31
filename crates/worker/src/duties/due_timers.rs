//! Turns due timers into events.
//!
//! Every worker looks: firing moves a timer's row into an event's row in one transaction, so no timer fires
//! twice. A worker sleeps until the next timer in the store, at most one tick, and is woken by the timers
//! that it armed itself. The overdue sweep finds an event whose doorbell is lost here.

use std::collections::BTreeSet;
use std::sync::Arc;

use millstream_stream::doorbell::Doorbell;
use tokio::time::Instant;

use super::periodic::{DutyError, run_once};
use crate::context::WorkerContext;
use crate::metrics;
use crate::post_commit;

/// Timers fired in one transaction.
const BATCH: usize = 64;

pub(crate) async fn run_due_timers(worker: Arc<WorkerContext>) {
    while !worker.stop.is_cancelled() {
        run_once(&worker, "due timers", fire_due_timers(&worker)).await;
        tokio::select! {
            biased;
            () = worker.stop.cancelled() => return,
            () = worker.timers.wait_until_due(worker.jittered(worker.options.tick)) => {}
        }
    }
}

async fn fire_due_timers(worker: &WorkerContext) -> Result<(), DutyError> {
    loop {
        let ids: Vec<_> = (0..BATCH).map(|_| worker.new_event_id()).collect();
        let fired = worker.deps.stores.timers.fire_due(&ids, worker.now()).await?;
        let count = fired.len();
        ::metrics::counter!(metrics::TIMERS_FIRED).increment(count as u64);
        let bells: BTreeSet<Doorbell> = fired.into_iter().map(Doorbell::Mailbox).collect();
        post_commit::publish_bells(worker, &bells.into_iter().collect::<Vec<_>>()).await;
        if count < BATCH {
            break;
        }
    }
    if let Some(next) = worker.deps.stores.timers.next_due(&worker.open_queues()).await? {
        // It may be an action: wakes the loop that leases actions too, no sooner than the action is due.
        let soon = Instant::now() + worker.options.tick;
        let at = worker.instant_of(next);
        if at > Instant::now() && at < soon {
            worker.timers.set_instant(at);
            worker.hunger.set_instant(at);
        }
    }
    Ok(())
}
