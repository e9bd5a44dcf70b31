//! Turns due timers into events.
//!
//! Every worker looks: firing moves a timer's row into an event's row in one transaction, so no timer fires
//! twice. A worker sleeps until the next timer in the store, at most one tick, and is woken by the timers
//! that it armed itself. The overdue sweep finds an event whose doorbell is lost here.

use std::collections::BTreeSet;
use std::sync::Arc;

use millstream_stream::doorbell::Bell;
use tokio::time::Instant;

use super::every::{Undone, once};
use crate::aftermath;
use crate::metrics;
use crate::worker::Worker;

/// Timers fired in one transaction.
const BATCH: usize = 64;

pub(crate) async fn run(worker: Arc<Worker>) {
    while !worker.stop.is_cancelled() {
        once(&worker, "due timers", fire(&worker)).await;
        tokio::select! {
            biased;
            () = worker.stop.cancelled() => return,
            () = worker.timers.wait(worker.around(worker.options.tick)) => {}
        }
    }
}

async fn fire(worker: &Worker) -> Result<(), Undone> {
    loop {
        let ids: Vec<_> = (0..BATCH).map(|_| worker.event_id()).collect();
        let fired = worker.deps.stores.timers.fire_due(&ids, worker.now()).await?;
        let count = fired.len();
        ::metrics::counter!(metrics::TIMERS_FIRED).increment(count as u64);
        let bells: BTreeSet<Bell> = fired.into_iter().map(Bell::Mailbox).collect();
        aftermath::ring(worker, &bells.into_iter().collect::<Vec<_>>()).await;
        if count < BATCH {
            break;
        }
    }
    if let Some(next) = worker.deps.stores.timers.next_due(&worker.open_queues()).await? {
        // It may be an action: wakes the loop that leases actions too, no sooner than the action is due.
        let soon = Instant::now() + worker.options.tick;
        let at = worker.instant_of(next);
        if at > Instant::now() && at < soon {
            worker.timers.set(at);
            worker.hunger.set(at);
        }
    }
    Ok(())
}
