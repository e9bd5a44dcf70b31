//! Backpressure from settling to deciding.
//!
//! Each attempt that has ended and is not settled yet holds a slot. When outcomes that wait for the store hold
//! a large part of the slots, further decisions would leave their actions without a slot, to be leased later
//! at the cost of one more write each: deciding then waits for settling. Slow actions do not delay deciding.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Number of attempts that have ended and are not settled yet.
#[derive(Debug)]
pub(crate) struct SettleBacklog {
    count: AtomicUsize,
    bearable: usize,
    fewer: Notify,
}

impl SettleBacklog {
    pub(crate) fn for_slots(slots: usize) -> Self {
        Self { count: AtomicUsize::new(0), bearable: (slots / 4).max(1), fewer: Notify::new() }
    }

    pub(crate) fn add_report(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove_reports(&self, reports: usize) {
        self.count.fetch_sub(reports, Ordering::Relaxed);
        self.fewer.notify_waiters();
    }

    pub(crate) fn has_capacity(&self) -> bool {
        self.count.load(Ordering::Relaxed) <= self.bearable
    }

    pub(crate) async fn wait_for_capacity(&self) {
        loop {
            let fewer = self.fewer.notified();
            if self.has_capacity() {
                return;
            }
            fewer.await;
        }
    }
}
