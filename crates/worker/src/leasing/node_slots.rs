//! Slots for graph nodes: how many nodes of which kind a worker holds a lease on.
//!
//! Nodes have slots of their own. A kind gets only as many leases as executors have capacity for, plus a few
//! that wait for the next capacity ([`graph::lease_allowance`]); the others stay in the store, so that neither other
//! actions nor nodes of other kinds wait behind them. All kinds of a tenant together have the share of the
//! slots that its quota `action_slots` allows. A kind that may have more nodes in the store is *behind*: the
//! duty leases it, in order, and a commit does not overtake that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream_model::action_queue::{ActionQueue, QueueParts};
use millstream_workflow::graph::{self, HeldNodes, NodeLeaseAllowance, NodeLeaseLimits};
use tokio::sync::Notify;

use crate::executors::ExecutorTable;
use crate::quotas::WorkerQuotas;

#[derive(Debug, Clone)]
pub(crate) struct NodeSlots(Arc<NodeSlotsInner>);

#[derive(Debug)]
struct NodeSlotsInner {
    all: usize,
    kinds: Mutex<BTreeMap<ActionQueue, NodeKindSlots>>,
    /// A kind that is behind may have capacity, or another kind is behind.
    news: Notify,
    fewer: Notify,
}

#[derive(Debug, Default, Clone, Copy)]
struct NodeKindSlots {
    held: usize,
    waiting: usize,
    backlog: KindBacklog,
    /// Number of notices that nodes are left in the store.
    said: u64,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum KindBacklog {
    #[default]
    None,
    /// Nodes may be left in the store.
    Behind,
}

/// A kind that is behind.
#[derive(Debug)]
pub(crate) struct KindBehind {
    pub(crate) queue: ActionQueue,
    said: u64,
}

/// Whether the lease may take fewer nodes than are worth a round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseWorth {
    Any,
    RoundTrip,
}

/// One slot, released when dropped.
#[derive(Debug)]
pub(crate) struct NodeSlot {
    queue: ActionQueue,
    slots: NodeSlots,
    waits: Option<WaitsForPlace>,
}

/// Marks a slot whose node has no capacity at an executor yet.
#[derive(Debug)]
pub(crate) struct WaitsForPlace {
    queue: ActionQueue,
    slots: NodeSlots,
}

impl NodeSlots {
    pub(crate) fn new(all: usize) -> Self {
        Self(Arc::new(NodeSlotsInner {
            all,
            kinds: Mutex::default(),
            news: Notify::new(),
            fewer: Notify::new(),
        }))
    }

    fn lock_kinds(&self) -> MutexGuard<'_, BTreeMap<ActionQueue, NodeKindSlots>> {
        self.0.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn in_use(&self) -> usize {
        self.lock_kinds().values().map(|kind| kind.held).sum()
    }

    /// Reserves up to `most` slots for a queue, within the capacity of executors and its tenant's share.
    pub(crate) fn reserve_some(
        &self,
        executors: &ExecutorTable,
        quotas: &WorkerQuotas,
        queue: &ActionQueue,
        (most, worth): (usize, LeaseWorth),
    ) -> Vec<NodeSlot> {
        let Some(QueueParts::Node { tenant, .. }) = queue.parts() else { return Vec::new() };
        let room = NodeLeaseLimits { all: self.0.all, of_tenant: quotas.action_slots(&tenant, self.0.all) };
        let executors = executors.seats_of(&tenant);
        let mut kinds = self.lock_kinds();
        let held = kinds.iter().filter(|(_, kind)| kind.held > 0);
        let taken = |(queue, kind): (&ActionQueue, &NodeKindSlots)| HeldNodes {
            queue: queue.clone(),
            held: kind.held,
            waiting: kind.waiting,
        };
        let taken: Vec<HeldNodes> = held.map(taken).collect();
        let count = match graph::lease_allowance(&executors, &taken, queue, room) {
            NodeLeaseAllowance::Nobody => 0,
            NodeLeaseAllowance::Some { now, worthwhile }
                if worth == LeaseWorth::RoundTrip && now < worthwhile =>
            {
                0
            }
            NodeLeaseAllowance::Some { now, worthwhile: _ } => now.min(most),
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
            waits: Some(WaitsForPlace { queue: queue.clone(), slots: self.clone() }),
        };
        std::iter::repeat_with(slot).take(count).collect()
    }

    /// Reserves slots for all nodes that a commit makes ready in a queue, or none: kinds that are behind come
    /// first.
    pub(crate) fn reserve_all(
        &self,
        executors: &ExecutorTable,
        quotas: &WorkerQuotas,
        queue: &ActionQueue,
        count: usize,
    ) -> Vec<NodeSlot> {
        if self.lock_kinds().get(queue).is_some_and(|kind| kind.backlog == KindBacklog::Behind) {
            return Vec::new();
        }
        let claimed = self.reserve_some(executors, quotas, queue, (count, LeaseWorth::Any));
        if claimed.len() < count { Vec::new() } else { claimed }
    }

    /// Marks queues with nodes left in the store. Whether that is new for any of them.
    pub(crate) fn mark_behind<'a>(&self, queues: impl IntoIterator<Item = &'a ActionQueue>) -> bool {
        let mut news = false;
        let mut kinds = self.lock_kinds();
        for queue in queues {
            let kind = kinds.entry(queue.clone()).or_default();
            news |= kind.backlog == KindBacklog::None;
            kind.backlog = KindBacklog::Behind;
            kind.said += 1;
        }
        drop(kinds);
        if news {
            self.0.news.notify_one();
        }
        news
    }

    /// The store had no more nodes, unless a later notice said otherwise.
    pub(crate) fn caught_up(&self, behind: &KindBehind) {
        if let Some(kind) = self.lock_kinds().get_mut(&behind.queue)
            && kind.said == behind.said
        {
            kind.backlog = KindBacklog::None;
        }
    }

    /// Sets the complete list of queues with nodes in the store.
    pub(crate) fn set_open_kinds(&self, queues: &[ActionQueue]) {
        let open: BTreeSet<&ActionQueue> = queues.iter().collect();
        self.lock_kinds().retain(|queue, kind| kind.held > 0 || open.contains(queue));
        self.mark_behind(queues);
    }

    pub(crate) fn all_behind(&self) -> Vec<KindBehind> {
        let kinds = self.lock_kinds();
        let behind = kinds.iter().filter(|(_, kind)| kind.backlog == KindBacklog::Behind);
        behind.map(|(queue, kind)| KindBehind { queue: queue.clone(), said: kind.said }).collect()
    }

    /// Waits until there may be capacity, or another kind is behind.
    pub(crate) async fn wait_for_news(&self) {
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
    pub(crate) fn take_wait(&mut self) -> Option<WaitsForPlace> {
        self.waits.take()
    }
}

impl Drop for NodeSlot {
    fn drop(&mut self) {
        if let Some(kind) = self.slots.lock_kinds().get_mut(&self.queue) {
            kind.held = kind.held.saturating_sub(1);
        }
        self.slots.0.news.notify_one();
        self.slots.0.fewer.notify_waiters();
    }
}

impl Drop for WaitsForPlace {
    fn drop(&mut self) {
        if let Some(kind) = self.slots.lock_kinds().get_mut(&self.queue) {
            kind.waiting = kind.waiting.saturating_sub(1);
        }
        self.slots.0.news.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use millstream_model::id::{Name, TenantId};
    use millstream_model::quota::QuotaSettings;

    use super::*;
    use crate::executors::FixedExecutor;

    fn executors(capacity: u32) -> ExecutorTable {
        ExecutorTable::new(&[FixedExecutor {
            name: Name::parse("a").unwrap(),
            address: String::new(),
            roles: BTreeSet::new(),
            labels: BTreeSet::new(),
            capacity,
        }])
    }

    fn queue(role: &str) -> ActionQueue {
        ActionQueue::of_node(&TenantId::default_tenant(), role, &BTreeSet::new())
    }

    /// The built-in quotas: three quarters for one tenant.
    fn quotas() -> WorkerQuotas {
        WorkerQuotas::from_settings(QuotaSettings::default())
    }

    #[test]
    fn tenant_with_many_roles_leaves_slots() {
        let (slots, executors) = (NodeSlots::new(64), executors(1_000));
        let mut held = Vec::new();
        for role in 0..12 {
            let queue = queue(&format!("r{role}"));
            held.extend(slots.reserve_some(&executors, &quotas(), &queue, (usize::MAX, LeaseWorth::Any)));
        }
        assert_eq!((held.len(), slots.in_use()), (48, 48));
        let other = ActionQueue::of_node(&TenantId::parse("other").unwrap(), "r0", &BTreeSet::new());
        assert_eq!(slots.reserve_some(&executors, &quotas(), &other, (usize::MAX, LeaseWorth::Any)).len(), 8);
        held.truncate(40);
        let again = slots.reserve_some(&executors, &quotas(), &queue("r5"), (usize::MAX, LeaseWorth::Any));
        assert_eq!(again.len() + held.len(), 48, "what was given back is claimed again");
    }

    #[test]
    fn dropped_node_slot_is_free() {
        let (slots, executors) = (NodeSlots::new(64), executors(4));
        let claimed = slots.reserve_some(&executors, &quotas(), &queue("a"), (usize::MAX, LeaseWorth::Any));
        assert_eq!((claimed.len(), slots.in_use()), (6, 6));
        assert!(slots.reserve_some(&executors, &quotas(), &queue("a"), (1, LeaseWorth::Any)).is_empty());
        drop(claimed);
        assert_eq!(slots.in_use(), 0);
        assert_eq!(slots.reserve_some(&executors, &quotas(), &queue("a"), (5, LeaseWorth::Any)).len(), 5);
    }

    #[test]
    fn commit_does_not_overtake_waiting_nodes() {
        let (slots, executors) = (NodeSlots::new(64), executors(4));
        assert!(
            slots.reserve_all(&executors, &quotas(), &queue("a"), 7).is_empty(),
            "more than there is room for"
        );
        assert_eq!(slots.reserve_all(&executors, &quotas(), &queue("a"), 6).len(), 6);
        slots.mark_behind([&queue("a")]);
        assert!(slots.reserve_all(&executors, &quotas(), &queue("a"), 1).is_empty());
        assert_eq!(slots.reserve_all(&executors, &quotas(), &queue("b"), 1).len(), 1);
        let behind = slots.all_behind();
        slots.mark_behind([&queue("a")]);
        slots.caught_up(&behind[0]);
        assert!(slots.reserve_all(&executors, &quotas(), &queue("a"), 1).is_empty(), "there are more since");
        slots.caught_up(&slots.all_behind()[0]);
        assert_eq!(slots.reserve_all(&executors, &quotas(), &queue("a"), 1).len(), 1);
    }

    #[test]
    fn empty_node_kind_is_forgotten() {
        let (slots, executors) = (NodeSlots::new(64), executors(4));
        let held = slots.reserve_some(&executors, &quotas(), &queue("a"), (1, LeaseWorth::Any));
        slots.mark_behind([&queue("b")]);
        slots.set_open_kinds(&[queue("c")]);
        let behind: Vec<ActionQueue> = slots.all_behind().into_iter().map(|behind| behind.queue).collect();
        assert_eq!(behind, [queue("c")]);
        assert_eq!((held.len(), slots.in_use()), (1, 1));
    }
}
