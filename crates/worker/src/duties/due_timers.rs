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
use crate::alarm::Alarm;
use crate::leasing::ActionLeasing;
use crate::metrics;
use crate::notifications::publish_bells;

/// Timers fired in one transaction.
const BATCH: usize = 64;

pub(crate) async fn run_due_timers(leasing: Arc<ActionLeasing>, timers: Arc<Alarm>) {
    while !leasing.env.stop.is_cancelled() {
        run_once(&leasing.env, "due timers", fire_due_timers(&leasing, &timers)).await;
        tokio::select! {
            biased;
            () = leasing.env.stop.cancelled() => return,
            () = timers.wait_until_due(leasing.env.jittered(leasing.env.options.tick)) => {}
        }
    }
}

async fn fire_due_timers(leasing: &ActionLeasing, timers: &Alarm) -> Result<(), DutyError> {
    loop {
        let ids: Vec<_> = (0..BATCH).map(|_| leasing.env.new_event_id()).collect();
        let fired = leasing.env.stores.timers.fire_due(&ids, leasing.env.now()).await?;
        let count = fired.len();
        ::metrics::counter!(metrics::TIMERS_FIRED).increment(count as u64);
        let bells: BTreeSet<Doorbell> = fired.into_iter().map(Doorbell::Mailbox).collect();
        publish_bells(&leasing.env, &bells.into_iter().collect::<Vec<_>>()).await;
        if count < BATCH {
            break;
        }
    }
    if let Some(next) = leasing.env.stores.timers.next_due(&leasing.open_queues()).await? {
        // It may be an action: wakes the loop that leases actions too, no sooner than the action is due.
        let soon = Instant::now() + leasing.env.options.tick;
        let at = leasing.env.instant_of(next);
        if at > Instant::now() && at < soon {
            timers.set_instant(at);
            leasing.action_alarm.set_instant(at);
        }
    }
    Ok(())
}
