//! Queueing time of doorbells, measured by this worker's decisions; the overdue sweep reads it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millstream_model::id::TenantId;
use millstream_model::overdue_sweep::{DoorbellDelays, QueueingDelays};

#[derive(Debug, Default)]
pub(crate) struct QueueingTimes(Mutex<DoorbellDelays>);

impl QueueingTimes {
    fn lock_delays(&self) -> MutexGuard<'_, DoorbellDelays> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the ages at which heads of mailboxes are decided, with their tenants.
    pub(crate) fn record_decided<'a>(&self, heads: impl IntoIterator<Item = (&'a TenantId, Duration)>) {
        let mut delays = self.lock_delays();
        for (tenant, age) in heads {
            delays.record_decided(tenant, age);
        }
    }

    /// The queueing delays; starts the next period.
    pub(crate) fn next_period_delays(&self) -> QueueingDelays {
        self.lock_delays().next_period_delays()
    }
}
