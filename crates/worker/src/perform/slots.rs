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
pub(crate) struct Slots {
    free: Arc<Semaphore>,
    all: usize,
    /// The number of slots that is worth a round trip of its own.
    some: usize,
}

/// Slots reserved for leases that are being requested. Unused ones become free again.
#[derive(Debug, Default)]
pub(crate) struct Reserved(Vec<OwnedSemaphorePermit>);

/// One slot, released when dropped.
#[derive(Debug)]
pub(crate) enum Slot {
    /// `None` only where a store leased more than it was granted.
    Action(Option<OwnedSemaphorePermit>),
    Node(NodeSlot),
}

/// Permit to perform now, released when dropped.
#[derive(Debug)]
#[expect(dead_code, reason = "held, not read")]
pub(crate) struct Turn<'a>(Option<SemaphorePermit<'a>>);

impl Slot {
    /// Waits for the permit. Executors limit the concurrency of nodes.
    pub(crate) async fn turn<'a>(&self, performing: &'a Semaphore) -> Option<Turn<'a>> {
        match self {
            Self::Action(_) => performing.acquire().await.ok().map(|permit| Turn(Some(permit))),
            Self::Node(_) => Some(Turn(None)),
        }
    }
}

impl Slots {
    /// Of `all` slots, `spare` exceed the limit of concurrent performing.
    pub(crate) fn new(all: usize, spare: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(all)), all, some: (spare / 2).max(1) }
    }

    pub(crate) fn in_use(&self) -> usize {
        self.all.saturating_sub(self.free.available_permits())
    }

    /// Reserves up to `max` of the free slots.
    pub(crate) fn reserve(&self, max: usize) -> Reserved {
        let mut reserved = Reserved::default();
        while reserved.len() < max
            && let Ok(permit) = Arc::clone(&self.free).try_acquire_owned()
        {
            reserved.0.push(permit);
        }
        reserved
    }

    /// Waits until half of the spare slots are free and reserves all free slots: fewer would not be worth a
    /// round trip, and while they are missing there is more to perform than the limit allows.
    pub(crate) async fn reserve_some(&self) -> Reserved {
        let some = u32::try_from(self.some).unwrap_or(u32::MAX);
        let Ok(mut some) = Arc::clone(&self.free).acquire_many_owned(some).await else {
            return Reserved::default();
        };
        let mut reserved = self.reserve(self.all);
        reserved.0.extend(std::iter::from_fn(|| some.split(1)));
        reserved
    }

    /// Returns when no slot is in use.
    pub(crate) async fn all_free(&self) {
        let all = u32::try_from(self.all).unwrap_or(u32::MAX);
        let _ = self.free.acquire_many(all).await;
    }
}

impl Reserved {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Keeps this number of slots; releases the others.
    pub(crate) fn keep(&mut self, slots: usize) {
        self.0.truncate(slots);
    }

    pub(crate) fn take(&mut self) -> Slot {
        Slot::Action(self.0.pop())
    }

    /// Puts back the slot of a finished action, for an action that depends on it.
    pub(crate) fn put(&mut self, slot: Slot) {
        match slot {
            Slot::Action(permit) => self.0.extend(permit),
            Slot::Node(slot) => drop(slot),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_reserved_than_there_is() {
        let slots = Slots::new(3, 1);
        let mut first = slots.reserve(2);
        assert_eq!((first.len(), slots.reserve(5).len()), (2, 1));
        let held = first.take();
        drop(first);
        assert_eq!((slots.in_use(), slots.reserve(5).len()), (1, 2));
        drop(held);
        assert_eq!(slots.in_use(), 0);
    }
    #[tokio::test]
    async fn a_few_free_slots_are_not_worth_a_round_trip() {
        let slots = Slots::new(12, 4);
        let mut taken = slots.reserve(12);
        let mut some = std::pin::pin!(slots.reserve_some());
        drop(taken.take());
        assert!(futures::poll!(&mut some).is_pending());
        drop(taken.take());
        assert_eq!(some.await.len(), 2);
        assert_eq!(slots.reserve_some().await.len(), 2);
        drop(taken);
        assert_eq!(slots.reserve_some().await.len(), 12);
    }
}
