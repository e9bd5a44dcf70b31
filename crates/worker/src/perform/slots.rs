//! How many actions a worker performs at the same time.
//!
//! A slot is reserved *before* a lease is asked for and held until the outcome is settled, so a worker
//! never owns more actions than it can look after.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

#[derive(Debug)]
pub(crate) struct Slots {
    free: Arc<Semaphore>,
    all: usize,
}

/// Slots set aside for leases that are being asked for. What is not taken becomes free again.
#[derive(Debug, Default)]
pub(crate) struct Reserved(Vec<OwnedSemaphorePermit>);

/// One slot, free again when dropped. `None` only where a store leased more than it was granted.
#[derive(Debug)]
pub(crate) struct Slot(Option<OwnedSemaphorePermit>);

impl Slots {
    pub(crate) fn new(all: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(all)), all }
    }

    pub(crate) fn in_use(&self) -> usize {
        self.all.saturating_sub(self.free.available_permits())
    }

    /// Up to `max` of the slots that are free now.
    pub(crate) fn reserve(&self, max: usize) -> Reserved {
        let mut reserved = Reserved::default();
        while reserved.len() < max
            && let Ok(permit) = Arc::clone(&self.free).try_acquire_owned()
        {
            reserved.0.push(permit);
        }
        reserved
    }

    /// Waits for a free slot and takes all others that are free then.
    pub(crate) async fn reserve_some(&self) -> Reserved {
        let Ok(first) = Arc::clone(&self.free).acquire_owned().await else { return Reserved::default() };
        let mut reserved = self.reserve(self.all);
        reserved.0.push(first);
        reserved
    }

    /// Returns when nothing is in hand.
    pub(crate) async fn all_free(&self) {
        let all = u32::try_from(self.all).unwrap_or(u32::MAX);
        let _ = self.free.acquire_many(all).await;
    }
}

impl Reserved {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn take(&mut self) -> Slot {
        Slot(self.0.pop())
    }

    /// A slot whose errand is over can be used for what follows from it.
    pub(crate) fn put(&mut self, slot: Slot) {
        self.0.extend(slot.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_reserved_than_there_is() {
        let slots = Slots::new(3);
        let mut first = slots.reserve(2);
        assert_eq!((first.len(), slots.reserve(5).len()), (2, 1));
        let held = first.take();
        drop(first);
        assert_eq!((slots.in_use(), slots.reserve(5).len()), (1, 2));
        drop(held);
        assert_eq!(slots.in_use(), 0);
    }
}
