//! Slots for actions: how many actions a worker holds a lease on.
//!
//! A slot is reserved *before* a lease is requested and held until the outcome is settled, so a worker never
//! holds more actions than it can look after. A smaller limit applies to the actions performed at the same
//! time: the others wait for their turn or for their settlement. Graph nodes have slots of their own
//! ([`node_slots`](super::node_slots)).

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use super::node_slots::NodeSlot;

#[derive(Debug)]
pub(crate) struct ActionSlots {
    free: Arc<Semaphore>,
    all: usize,
    /// The number of slots that is worth a round trip of its own.
    some: usize,
}

/// Slots reserved for leases that are being requested. Unused ones become free again.
#[derive(Debug, Default)]
pub(crate) struct ReservedSlots(Vec<OwnedSemaphorePermit>);

/// One slot, released when dropped.
#[derive(Debug)]
pub(crate) enum WorkSlot {
    /// `None` only where a store leased more than it was granted.
    Action(Option<OwnedSemaphorePermit>),
    Node(NodeSlot),
}

/// Permit to perform now, released when dropped.
#[derive(Debug)]
#[expect(dead_code, reason = "held, not read")]
pub(crate) struct PerformPermit<'a>(Option<SemaphorePermit<'a>>);

impl WorkSlot {
    /// Waits for the permit. Executors limit the concurrency of nodes.
    pub(crate) async fn acquire_permit<'a>(&self, performing: &'a Semaphore) -> Option<PerformPermit<'a>> {
        match self {
            Self::Action(_) => performing.acquire().await.ok().map(|permit| PerformPermit(Some(permit))),
            Self::Node(_) => Some(PerformPermit(None)),
        }
    }
}

impl ActionSlots {
    /// Of `all` slots, `spare` exceed the limit of concurrent performing.
    pub(crate) fn new(all: usize, spare: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(all)), all, some: (spare / 2).max(1) }
    }

    pub(crate) fn in_use(&self) -> usize {
        self.all.saturating_sub(self.free.available_permits())
    }

    /// Reserves up to `max` of the free slots.
    pub(crate) fn reserve_free(&self, max: usize) -> ReservedSlots {
        let mut reserved = ReservedSlots::default();
        while reserved.len() < max
            && let Ok(permit) = Arc::clone(&self.free).try_acquire_owned()
        {
            reserved.0.push(permit);
        }
        reserved
    }

    /// Waits until half of the spare slots are free and reserves all free slots: fewer would not be worth a
    /// round trip, and while they are missing there is more to perform than the limit allows.
    pub(crate) async fn reserve_worthwhile(&self) -> ReservedSlots {
        let some = u32::try_from(self.some).unwrap_or(u32::MAX);
        let Ok(mut some) = Arc::clone(&self.free).acquire_many_owned(some).await else {
            return ReservedSlots::default();
        };
        let mut reserved = self.reserve_free(self.all);
        reserved.0.extend(std::iter::from_fn(|| some.split(1)));
        reserved
    }

    /// Returns when no slot is in use.
    pub(crate) async fn all_free(&self) {
        let all = u32::try_from(self.all).unwrap_or(u32::MAX);
        let _ = self.free.acquire_many(all).await;
    }
}

impl ReservedSlots {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Keeps this number of slots; releases the others.
    pub(crate) fn shrink_to(&mut self, slots: usize) {
        self.0.truncate(slots);
    }

    pub(crate) fn take_slot(&mut self) -> WorkSlot {
        WorkSlot::Action(self.0.pop())
    }

    /// Puts back the slot of a finished action, for an action that depends on it.
    pub(crate) fn put_slot(&mut self, slot: WorkSlot) {
        match slot {
            WorkSlot::Action(permit) => self.0.extend(permit),
            WorkSlot::Node(slot) => drop(slot),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_reserve_only_free_slots() {
        let slots = ActionSlots::new(3, 1);
        let mut first = slots.reserve_free(2);
        assert_eq!((first.len(), slots.reserve_free(5).len()), (2, 1));
        let held = first.take_slot();
        drop(first);
        assert_eq!((slots.in_use(), slots.reserve_free(5).len()), (1, 2));
        drop(held);
        assert_eq!(slots.in_use(), 0);
    }
    #[tokio::test]
    async fn few_free_slots_are_not_reserved() {
        let slots = ActionSlots::new(12, 4);
        let mut taken = slots.reserve_free(12);
        let mut some = std::pin::pin!(slots.reserve_worthwhile());
        drop(taken.take_slot());
        assert!(futures::poll!(&mut some).is_pending());
        drop(taken.take_slot());
        assert_eq!(some.await.len(), 2);
        assert_eq!(slots.reserve_worthwhile().await.len(), 2);
        drop(taken);
        assert_eq!(slots.reserve_worthwhile().await.len(), 12);
    }
}
