//! Slots for graph nodes: how many nodes of which kind a worker holds a lease on.
//!
//! Nodes have slots of their own. A kind gets only as many leases as executors have capacity for, plus a few
//! that wait for the next capacity ([`graph::seats`]); the others stay in the store, so that neither other
//! actions nor nodes of other kinds wait behind them. All kinds of a tenant together have the share of the
//! slots that its quota `action_slots` allows. A kind that may have more nodes in the store is *behind*: the
//! duty leases it, in order, and a commit does not overtake that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream_core::graph::{self, Claim, NodeRoom, Taken};
use millstream_core::placement::{Queue, QueueParts};
use tokio::sync::Notify;

use crate::executors::Executors;
use crate::quotas::WorkerQuotas;

#[derive(Debug, Clone)]
pub(crate) struct NodeSlots(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    all: usize,
    kinds: Mutex<BTreeMap<Queue, Kind>>,
    /// A kind that is behind may have capacity, or another kind is behind.
    news: Notify,
    fewer: Notify,
}

#[derive(Debug, Default, Clone, Copy)]
struct Kind {
    held: usize,
    waiting: usize,
    backlog: Backlog,
    /// Number of notices that nodes are left in the store.
    said: u64,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Backlog {
    #[default]
    None,
    /// Nodes may be left in the store.
    Behind,
}

/// A kind that is behind.
#[derive(Debug)]
pub(crate) struct Behind {
    pub(crate) queue: Queue,
    said: u64,
}

/// Whether the lease may take fewer nodes than are worth a round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Worth {
    Any,
    RoundTrip,
}

/// One slot, released when dropped.
#[derive(Debug)]
pub(crate) struct NodeSlot {
    queue: Queue,
    slots: NodeSlots,
    waits: Option<Waits>,
}

/// Marks a slot whose node has no capacity at an executor yet.
#[derive(Debug)]
pub(crate) struct Waits {
    queue: Queue,
    slots: NodeSlots,
}

impl NodeSlots {
    pub(crate) fn new(all: usize) -> Self {
        Self(Arc::new(Inner { all, kinds: Mutex::default(), news: Notify::new(), fewer: Notify::new() }))
    }

    fn kinds(&self) -> MutexGuard<'_, BTreeMap<Queue, Kind>> {
        self.0.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn in_use(&self) -> usize {
        self.kinds().values().map(|kind| kind.held).sum()
    }

    /// Reserves up to `most` slots for a queue, within the capacity of executors and its tenant's share.
    pub(crate) fn claim(
        &self,
        executors: &Executors,
        quotas: &WorkerQuotas,
        queue: &Queue,
        (most, worth): (usize, Worth),
    ) -> Vec<NodeSlot> {
        let Some(QueueParts::Node { tenant, .. }) = queue.parts() else { return Vec::new() };
        let room = NodeRoom { all: self.0.all, of_tenant: quotas.action_slots(&tenant, self.0.all) };
        let executors = executors.seats_of(&tenant);
        let mut kinds = self.kinds();
        let held = kinds.iter().filter(|(_, kind)| kind.held > 0);
        let taken = |(queue, kind): (&Queue, &Kind)| Taken {
            queue: queue.clone(),
            held: kind.held,
            waiting: kind.waiting,
        };
        let taken: Vec<Taken> = held.map(taken).collect();
        let count = match graph::seats(&executors, &taken, queue, room) {
            Claim::Nobody => 0,
            Claim::Some { now, worthwhile } if worth == Worth::RoundTrip && now < worthwhile => 0,
            Claim::Some { now, worthwhile: _ } => now.min(most),
        };
        if count == 0 {
            return Vec::new();
        }
        let kind = kinds.entry(queue.clone()).or_default();
        kind.held += count;
        kind.waiting += count;
        drop(kinds);
        let slot = || NodeSlot {
            queue: queue.clone(),
            slots: self.clone(),
            waits: Some(Waits { queue: queue.clone(), slots: self.clone() }),
        };
        std::iter::repeat_with(slot).take(count).collect()
    }

    /// Reserves slots for all nodes that a commit makes ready in a queue, or none: kinds that are behind come
    /// first.
    pub(crate) fn claim_all(
        &self,
        executors: &Executors,
        quotas: &WorkerQuotas,
        queue: &Queue,
        count: usize,
    ) -> Vec<NodeSlot> {
        if self.kinds().get(queue).is_some_and(|kind| kind.backlog == Backlog::Behind) {
            return Vec::new();
        }
        let claimed = self.claim(executors, quotas, queue, (count, Worth::Any));
        if claimed.len() < count { Vec::new() } else { claimed }
    }

    /// Marks queues with nodes left in the store. Whether that is new for any of them.
    pub(crate) fn behind<'a>(&self, queues: impl IntoIterator<Item = &'a Queue>) -> bool {
        let mut news = false;
        let mut kinds = self.kinds();
        for queue in queues {
            let kind = kinds.entry(queue.clone()).or_default();
            news |= kind.backlog == Backlog::None;
            kind.backlog = Backlog::Behind;
            kind.said += 1;
        }
        drop(kinds);
        if news {
            self.0.news.notify_one();
        }
        news
    }

    /// The store had no more nodes, unless a later notice said otherwise.
    pub(crate) fn caught_up(&self, behind: &Behind) {
        if let Some(kind) = self.kinds().get_mut(&behind.queue)
            && kind.said == behind.said
        {
            kind.backlog = Backlog::None;
        }
    }

    /// Sets the complete list of queues with nodes in the store.
    pub(crate) fn open(&self, queues: &[Queue]) {
        let open: BTreeSet<&Queue> = queues.iter().collect();
        self.kinds().retain(|queue, kind| kind.held > 0 || open.contains(queue));
        self.behind(queues);
    }

    pub(crate) fn all_behind(&self) -> Vec<Behind> {
        let kinds = self.kinds();
        let behind = kinds.iter().filter(|(_, kind)| kind.backlog == Backlog::Behind);
        behind.map(|(queue, kind)| Behind { queue: queue.clone(), said: kind.said }).collect()
    }

    /// Waits until there may be capacity, or another kind is behind.
    pub(crate) async fn news(&self) {
        self.0.news.notified().await;
    }

    /// Returns when no node is held.
    pub(crate) async fn all_free(&self) {
        loop {
            let fewer = self.0.fewer.notified();
            if self.in_use() == 0 {
                return;
            }
            fewer.await;
        }
    }
}

impl NodeSlot {
    pub(crate) fn waits(&mut self) -> Option<Waits> {
        self.waits.take()
    }
}

impl Drop for NodeSlot {
    fn drop(&mut self) {
        if let Some(kind) = self.slots.kinds().get_mut(&self.queue) {
            kind.held = kind.held.saturating_sub(1);
        }
        self.slots.0.news.notify_one();
        self.slots.0.fewer.notify_waiters();
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        if let Some(kind) = self.slots.kinds().get_mut(&self.queue) {
            kind.waiting = kind.waiting.saturating_sub(1);
        }
        self.slots.0.news.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use millstream_core::id::{Name, TenantId};
    use millstream_core::quota::QuotaSettings;

    use super::*;
    use crate::executors::FixedExecutor;

    fn executors(capacity: u32) -> Executors {
        Executors::new(&[FixedExecutor {
            name: Name::parse("a").unwrap(),
            address: String::new(),
            roles: BTreeSet::new(),
            labels: BTreeSet::new(),
            capacity,
        }])
    }

    fn queue(role: &str) -> Queue {
        Queue::node(&TenantId::default_tenant(), role, &BTreeSet::new())
    }

    /// The built-in quotas: three quarters for one tenant.
    fn quotas() -> WorkerQuotas {
        WorkerQuotas::of(QuotaSettings::default())
    }

    #[test]
    fn a_tenant_with_a_dozen_roles_leaves_slots_to_another() {
        let (slots, executors) = (NodeSlots::new(64), executors(1_000));
        let mut held = Vec::new();
        for role in 0..12 {
            let queue = queue(&format!("r{role}"));
            held.extend(slots.claim(&executors, &quotas(), &queue, (usize::MAX, Worth::Any)));
        }
        assert_eq!((held.len(), slots.in_use()), (48, 48));
        let other = Queue::node(&TenantId::parse("other").unwrap(), "r0", &BTreeSet::new());
        assert_eq!(slots.claim(&executors, &quotas(), &other, (usize::MAX, Worth::Any)).len(), 8);
        held.truncate(40);
        let again = slots.claim(&executors, &quotas(), &queue("r5"), (usize::MAX, Worth::Any));
        assert_eq!(again.len() + held.len(), 48, "what was given back is claimed again");
    }

    #[test]
    fn what_is_claimed_is_free_again_when_it_is_dropped() {
        let (slots, executors) = (NodeSlots::new(64), executors(4));
        let claimed = slots.claim(&executors, &quotas(), &queue("a"), (usize::MAX, Worth::Any));
        assert_eq!((claimed.len(), slots.in_use()), (6, 6));
        assert!(slots.claim(&executors, &quotas(), &queue("a"), (1, Worth::Any)).is_empty());
        drop(claimed);
        assert_eq!(slots.in_use(), 0);
        assert_eq!(slots.claim(&executors, &quotas(), &queue("a"), (5, Worth::Any)).len(), 5);
    }

    #[test]
    fn a_commit_takes_all_of_its_own_and_overtakes_nothing() {
        let (slots, executors) = (NodeSlots::new(64), executors(4));
        assert!(
            slots.claim_all(&executors, &quotas(), &queue("a"), 7).is_empty(),
            "more than there is room for"
        );
        assert_eq!(slots.claim_all(&executors, &quotas(), &queue("a"), 6).len(), 6);
        slots.behind([&queue("a")]);
        assert!(slots.claim_all(&executors, &quotas(), &queue("a"), 1).is_empty());
        assert_eq!(slots.claim_all(&executors, &quotas(), &queue("b"), 1).len(), 1);
        let behind = slots.all_behind();
        slots.behind([&queue("a")]);
        slots.caught_up(&behind[0]);
        assert!(slots.claim_all(&executors, &quotas(), &queue("a"), 1).is_empty(), "there are more since");
        slots.caught_up(&slots.all_behind()[0]);
        assert_eq!(slots.claim_all(&executors, &quotas(), &queue("a"), 1).len(), 1);
    }

    #[test]
    fn a_kind_that_is_gone_is_forgotten() {
        let (slots, executors) = (NodeSlots::new(64), executors(4));
        let held = slots.claim(&executors, &quotas(), &queue("a"), (1, Worth::Any));
        slots.behind([&queue("b")]);
        slots.open(&[queue("c")]);
        let behind: Vec<Queue> = slots.all_behind().into_iter().map(|behind| behind.queue).collect();
        assert_eq!(behind, [queue("c")]);
        assert_eq!((held.len(), slots.in_use()), (1, 1));
    }
}
