//! Lease sizing: how many nodes of one kind a worker leases now. As many as the matching executors have free
//! capacity for, and a few spare ones, which wait so that no capacity idles during a round trip to the store.
//!
//! Further nodes stay in the store, where they block neither other work of the worker, nor nodes of other
//! kinds, nor other workers.

use std::collections::BTreeSet;

use millstream_model::action_queue::{ActionQueue, QueueParts};
use millstream_model::id::{Name, TenantId};

use super::placement::{ExecutorCandidate, meets_requirements};

/// Maximum number of spare nodes per kind.
const MOST_SPARE: usize = 128;

/// The capacity of an executor as known to the worker.
#[derive(Debug, Clone)]
pub struct ExecutorCapacity {
    /// `None`: shared by all tenants.
    pub tenant: Option<TenantId>,
    pub executor: ExecutorCandidate,
}

/// Nodes of one kind that the worker holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldNodes {
    pub queue: ActionQueue,
    /// All nodes with a lease.
    pub held: usize,
    /// Those of them without an executor yet.
    pub waiting: usize,
}

/// How many nodes of a kind the worker may lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeLeaseAllowance {
    /// No executor matches.
    Nobody,
    /// Up to this many. Fewer than `worthwhile` do not justify a round trip: the spare nodes last for a
    /// while.
    Some { now: usize, worthwhile: usize },
}

/// Limits on the nodes a worker may hold a lease on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeLeaseLimits {
    pub all: usize,
    /// Limit for the tenant of the wanted queue, over all kinds.
    pub of_tenant: usize,
}

/// How many more nodes to lease from the `wanted` queue, given everything the worker holds (the wanted queue
/// included) and its limit.
///
/// One kind holds at most half of what the others leave, so the next kind always finds some. All kinds of a
/// tenant together hold at most the tenant's limit.
pub fn lease_allowance(
    executors: &[ExecutorCapacity],
    taken: &[HeldNodes],
    wanted: &ActionQueue,
    most: NodeLeaseLimits,
) -> NodeLeaseAllowance {
    let Some(kind) = NodeKind::of_queue(wanted) else { return NodeLeaseAllowance::Nobody };
    let mut free: Vec<usize> = executors.iter().map(ExecutorCapacity::free_capacity).collect();
    let capacity: usize = executors
        .iter()
        .filter(|seats| kind.matches_executor(seats))
        .map(|seats| usize::try_from(seats.executor.capacity).unwrap_or(usize::MAX))
        .fold(0, usize::saturating_add);
    if capacity == 0 {
        return NodeLeaseAllowance::Nobody;
    }
    let spare = (capacity / 2).clamp(1, MOST_SPARE);
    // Waiting nodes get free capacity first, whatever their kind.
    let mut standing = 0;
    let (mut held, mut elsewhere, mut of_tenant_elsewhere) = (0, 0usize, 0usize);
    for other in taken {
        let of = NodeKind::of_queue(&other.queue);
        let left = of
            .as_ref()
            .map_or(other.waiting, |kind| assign_free_capacity(executors, &mut free, kind, other.waiting));
        if other.queue == *wanted {
            (standing, held) = (left, other.held);
        } else {
            elsewhere = elsewhere.saturating_add(other.held);
            if of.is_some_and(|of| of.tenant == kind.tenant) {
                of_tenant_elsewhere = of_tenant_elsewhere.saturating_add(other.held);
            }
        }
    }
    let open =
        executors.iter().zip(&free).filter(|(seats, _)| kind.matches_executor(seats)).map(|(_, free)| *free);
    let open = open.fold(0, usize::saturating_add);
    let share = most.all.saturating_sub(elsewhere).div_ceil(2);
    let share = share.min(most.of_tenant.saturating_sub(of_tenant_elsewhere));
    let now = open.saturating_add(spare.saturating_sub(standing)).min(share.saturating_sub(held));
    // With fewer spare nodes, others are running, and the end of one triggers the next lease.
    NodeLeaseAllowance::Some { now, worthwhile: spare.div_ceil(2).min((share / 2).max(1)) }
}

/// Assigns free capacity to the waiting nodes; returns how many get none.
fn assign_free_capacity(
    executors: &[ExecutorCapacity],
    free: &mut [usize],
    kind: &NodeKind,
    mut waiting: usize,
) -> usize {
    for (seats, free) in executors.iter().zip(free) {
        if kind.matches_executor(seats) {
            let given = waiting.min(*free);
            *free -= given;
            waiting -= given;
        }
    }
    waiting
}

impl ExecutorCapacity {
    fn free_capacity(&self) -> usize {
        let ExecutorCandidate { capacity, in_flight, .. } = self.executor;
        usize::try_from(capacity.saturating_sub(in_flight)).unwrap_or(usize::MAX)
    }
}

struct NodeKind {
    tenant: TenantId,
    role: String,
    labels: BTreeSet<Name>,
}

impl NodeKind {
    fn of_queue(queue: &ActionQueue) -> Option<Self> {
        match queue.parts()? {
            QueueParts::Node { tenant, role, labels } => Some(Self { tenant, role, labels }),
            QueueParts::Engine { .. } | QueueParts::Call { .. } | QueueParts::Task { .. } => None,
        }
    }

    fn matches_executor(&self, seats: &ExecutorCapacity) -> bool {
        let ExecutorCandidate { roles, labels, .. } = &seats.executor;
        seats.tenant.as_ref().is_none_or(|tenant| *tenant == self.tenant)
            && meets_requirements((roles, labels), (&self.role, &self.labels))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executor(role: &str, in_flight: u32, capacity: u32) -> ExecutorCapacity {
        let executor = ExecutorCandidate {
            name: Name::parse("a").unwrap(),
            roles: if role.is_empty() { BTreeSet::new() } else { BTreeSet::from([role.to_owned()]) },
            labels: BTreeSet::new(),
            capacity,
            in_flight,
        };
        ExecutorCapacity { tenant: None, executor }
    }

    fn queue(role: &str) -> ActionQueue {
        ActionQueue::of_node(&TenantId::default_tenant(), role, &BTreeSet::new())
    }

    fn taken(role: &str, held: usize, waiting: usize) -> HeldNodes {
        HeldNodes { queue: queue(role), held, waiting }
    }

    fn now(executors: &[ExecutorCapacity], taken: &[HeldNodes], role: &str) -> usize {
        match lease_allowance(
            executors,
            taken,
            &queue(role),
            NodeLeaseLimits { all: 2_000, of_tenant: 2_000 },
        ) {
            NodeLeaseAllowance::Some { now, .. } => now,
            NodeLeaseAllowance::Nobody => panic!("an executor matches"),
        }
    }

    #[test]
    fn allowance_is_free_capacity_plus_spare() {
        let two = [executor("", 0, 2)];
        assert_eq!(now(&two, &[], ""), 3);
        assert_eq!(now(&two, &[taken("", 3, 3)], ""), 0, "leased and not placed yet");
        let full = [executor("", 2, 2)];
        assert_eq!(now(&full, &[taken("", 2, 0)], ""), 1);
        assert_eq!(now(&full, &[taken("", 3, 1)], ""), 0);
        assert_eq!(now(&[executor("", 0, 1_000)], &[], ""), 1_000);
    }

    #[test]
    fn full_role_leaves_other_roles_alone() {
        let executors = [executor("slow", 2, 2), executor("fast", 0, 4)];
        let slow = [taken("slow", 3, 1)];
        assert_eq!(now(&executors, &slow, "slow"), 0);
        assert_eq!(now(&executors, &slow, "fast"), 6);
    }

    #[test]
    fn waiting_nodes_get_capacity_first() {
        let executors = [executor("", 2, 4)];
        assert_eq!(now(&executors, &[taken("a", 1, 1)], "b"), 3);
        assert_eq!(now(&executors, &[taken("a", 2, 2)], "b"), 2, "two nodes wait for their own executor");
    }

    #[test]
    fn node_kind_leaves_half_of_leases() {
        let executors = [executor("a", 0, 9_000), executor("b", 0, 9_000)];
        assert_eq!(now(&executors, &[], "a"), 1_000);
        let all = [taken("a", 1_000, 0)];
        assert_eq!((now(&executors, &all, "a"), now(&executors, &all, "b")), (0, 500));
    }

    #[test]
    fn tenant_limit_spans_node_kinds() {
        let executors = [executor("", 0, 9_000)];
        let room = NodeLeaseLimits { all: 2_000, of_tenant: 1_500 };
        let claim = |taken: &[HeldNodes], wanted: &ActionQueue| match lease_allowance(
            &executors, taken, wanted, room,
        ) {
            NodeLeaseAllowance::Some { now, .. } => now,
            NodeLeaseAllowance::Nobody => panic!("an executor matches"),
        };
        let mut held: Vec<HeldNodes> = Vec::new();
        for kind in 0..12 {
            let now = claim(&held, &queue(&format!("r{kind}")));
            held.push(taken(&format!("r{kind}"), now, 0));
        }
        assert_eq!(held.iter().map(|taken| taken.held).sum::<usize>(), 1_500);
        assert_eq!(claim(&held, &queue("r0")), 0);
        let other = ActionQueue::of_node(&TenantId::parse("other").unwrap(), "r0", &BTreeSet::new());
        assert_eq!(claim(&held, &other), 250, "half of what is left");
    }

    #[test]
    fn no_executor_means_no_lease() {
        let claim = |executors: &[ExecutorCapacity], queue: &ActionQueue| {
            lease_allowance(executors, &[], queue, NodeLeaseLimits { all: 2_000, of_tenant: 2_000 })
        };
        assert_eq!(claim(&[], &queue("")), NodeLeaseAllowance::Nobody);
        assert_eq!(claim(&[executor("a", 0, 4)], &queue("b")), NodeLeaseAllowance::Nobody);
        assert_eq!(claim(&[executor("", 0, 4)], &ActionQueue::engine_for_all()), NodeLeaseAllowance::Nobody);
        let mut theirs = executor("", 0, 4);
        theirs.tenant = TenantId::parse("other").ok();
        assert_eq!(claim(&[theirs], &queue("")), NodeLeaseAllowance::Nobody);
    }

    #[test]
    fn half_of_spare_justifies_round_trip() {
        let worthwhile = |capacity, most| {
            let room = NodeLeaseLimits { all: most, of_tenant: most };
            match lease_allowance(&[executor("", 0, capacity)], &[], &queue(""), room) {
                NodeLeaseAllowance::Some { worthwhile, .. } => worthwhile,
                NodeLeaseAllowance::Nobody => panic!("an executor matches"),
            }
        };
        assert_eq!([1, 2, 64, 256, 9_000].map(|capacity| worthwhile(capacity, 2_000)), [1, 1, 16, 64, 64]);
        assert_eq!([1, 2, 16].map(|most| worthwhile(9_000, most)), [1, 1, 4], "never more than there can be");
    }
}
