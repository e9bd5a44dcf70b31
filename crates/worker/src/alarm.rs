//! Wakes a loop at the earliest of the instants that were set.
//!
//! An alarm only shortens waiting: each loop also looks on its own at a slow tick. The number of kept
//! instants is therefore bounded, and the latest ones are dropped first.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Upper bound on kept instants.
const KEPT: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct Alarm {
    instants: Mutex<BTreeSet<Instant>>,
    earlier: Notify,
}

impl Alarm {
    pub(crate) fn set_instant(&self, at: Instant) {
        let mut instants = self.instants.lock().unwrap_or_else(PoisonError::into_inner);
        let is_next = instants.first().is_none_or(|first| at < *first);
        instants.insert(at);
        if instants.len() > KEPT {
            instants.pop_last();
        }
        drop(instants);
        if is_next {
            self.earlier.notify_one();
        }
    }

    /// Returns when a set instant has passed, or after `longest`.
    pub(crate) async fn wait_until_due(&self, longest: Duration) {
        let end = Instant::now() + longest;
        loop {
            let now = Instant::now();
            let until = self.take_next(now).map_or(end, |next| next.min(end));
            if until <= now {
                return;
            }
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(until) => {}
                () = self.earlier.notified() => {}
            }
        }
    }

    /// The next instant; removes those that have passed.
    fn take_next(&self, now: Instant) -> Option<Instant> {
        let mut instants = self.instants.lock().unwrap_or_else(PoisonError::into_inner);
        let next = instants.first().copied();
        while instants.first().is_some_and(|first| *first <= now) {
            instants.pop_first();
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn earlier_instant_wakes_waiting_loop() {
        let alarm = Arc::new(Alarm::default());
        alarm.set_instant(Instant::now() + Duration::from_secs(600));
        let waiting = tokio::spawn({
            let alarm = Arc::clone(&alarm);
            async move { alarm.wait_until_due(Duration::from_secs(600)).await }
        });
        tokio::task::yield_now().await;
        alarm.set_instant(Instant::now());
        tokio::time::timeout(Duration::from_secs(10), waiting).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn alarm_wait_has_upper_bound() {
        Alarm::default().wait_until_due(Duration::from_millis(1)).await;
    }
}
