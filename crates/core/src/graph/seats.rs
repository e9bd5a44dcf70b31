//! Lease sizing: how many nodes of one kind a worker leases now. As many as the matching executors have free
//! capacity for, and a few spare ones, which wait so that no capacity idles during a round trip to the store.
//!
//! Further nodes stay in the store, where they block neither other work of the worker, nor nodes of other
//! kinds, nor other workers.

use std::collections::BTreeSet;

use super::placement::{Candidate, can_do};
use crate::id::{Name, TenantId};
use crate::placement::{Queue, QueueParts};

/// Maximum number of spare nodes per kind.
const MOST_SPARE: usize = 128;

/// The capacity of an executor as known to the worker.
#[derive(Debug, Clone)]
pub struct Seats {
    /// `None`: shared by all tenants.
    pub tenant: Option<TenantId>,
    pub executor: Candidate,
}

/// Nodes of one kind that the worker holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    pub queue: Queue,
    /// All nodes with a lease.
    pub held: usize,
    /// Those of them without an executor yet.
    pub waiting: usize,
}

/// How many nodes of a kind the worker may lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// No executor matches.
    Nobody,
    /// Up to this many. Fewer than `worthwhile` do not justify a round trip: the spare nodes last for a
    /// while.
    Some { now: usize, worthwhile: usize },
}

/// Limits on the nodes a worker may hold a lease on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeRoom {
    pub all: usize,
    /// Limit for the tenant of the wanted queue, over all kinds.
    pub of_tenant: usize,
}

/// How many more nodes to lease from the `wanted` queue, given everything the worker holds (the wanted queue
/// included) and its limit.
///
/// One kind holds at most half of what the others leave, so the next kind always finds some. All kinds of a
/// tenant together hold at most the tenant's limit.
pub fn seats(executors: &[Seats], taken: &[Taken], wanted: &Queue, most: NodeRoom) -> Claim {
    let Some(kind) = Kind::of(wanted) else { return Claim::Nobody };
    let mut free: Vec<usize> = executors.iter().map(Seats::free).collect();
    let capacity: usize = executors
        .iter()
        .filter(|seats| kind.is_done_by(seats))
        .map(|seats| usize::try_from(seats.executor.capacity).unwrap_or(usize::MAX))
        .fold(0, usize::saturating_add);
    if capacity == 0 {
        return Claim::Nobody;
    }
    let spare = (capacity / 2).clamp(1, MOST_SPARE);
    // Waiting nodes get free capacity first, whatever their kind.
    let mut standing = 0;
    let (mut held, mut elsewhere, mut of_tenant_elsewhere) = (0, 0usize, 0usize);
    for other in taken {
        let of = Kind::of(&other.queue);
        let left = of.as_ref().map_or(other.waiting, |kind| seat(executors, &mut free, kind, other.waiting));
        if other.queue == *wanted {
            (standing, held) = (left, other.held);
        } else {
            elsewhere = elsewhere.saturating_add(other.held);
            if of.is_some_and(|of| of.tenant == kind.tenant) {
                of_tenant_elsewhere = of_tenant_elsewhere.saturating_add(other.held);
            }
        }
    }
    let open = executors.iter().zip(&free).filter(|(seats, _)| kind.is_done_by(seats)).map(|(_, free)| *free);
    let open = open.fold(0, usize::saturating_add);
    let share = most.all.saturating_sub(elsewhere).div_ceil(2);
    let share = share.min(most.of_tenant.saturating_sub(of_tenant_elsewhere));
    let now = open.saturating_add(spare.saturating_sub(standing)).min(share.saturating_sub(held));
    // With fewer spare nodes, others are running, and the end of one triggers the next lease.
    Claim::Some { now, worthwhile: spare.div_ceil(2).min((share / 2).max(1)) }
}

/// Assigns free capacity to the waiting nodes; returns how many get none.
fn seat(executors: &[Seats], free: &mut [usize], kind: &Kind, mut waiting: usize) -> usize {
    for (seats, free) in executors.iter().zip(free) {
        if kind.is_done_by(seats) {
            let given = waiting.min(*free);
            *free -= given;
            waiting -= given;
        }
    }
    waiting
}

impl Seats {
    fn free(&self) -> usize {
        let Candidate { capacity, in_flight, .. } = self.executor;
        usize::try_from(capacity.saturating_sub(in_flight)).unwrap_or(usize::MAX)
    }
}

struct Kind {
    tenant: TenantId,
    role: String,
    labels: BTreeSet<Name>,
}

impl Kind {
    fn of(queue: &Queue) -> Option<Self> {
        match queue.parts()? {
            QueueParts::Node { tenant, role, labels } => Some(Self { tenant, role, labels }),
            QueueParts::Engine { .. } | QueueParts::Call { .. } | QueueParts::Task { .. } => None,
        }
    }

    fn is_done_by(&self, seats: &Seats) -> bool {
        let Candidate { roles, labels, .. } = &seats.executor;
        seats.tenant.as_ref().is_none_or(|tenant| *tenant == self.tenant)
            && can_do((roles, labels), (&self.role, &self.labels))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executor(role: &str, in_flight: u32, capacity: u32) -> Seats {
        let executor = Candidate {
            name: Name::parse("a").unwrap(),
            roles: if role.is_empty() { BTreeSet::new() } else { BTreeSet::from([role.to_owned()]) },
            labels: BTreeSet::new(),
            capacity,
            in_flight,
        };
        Seats { tenant: None, executor }
    }

    fn queue(role: &str) -> Queue {
        Queue::node(&TenantId::default_tenant(), role, &BTreeSet::new())
    }

    fn taken(role: &str, held: usize, waiting: usize) -> Taken {
        Taken { queue: queue(role), held, waiting }
    }

    fn now(executors: &[Seats], taken: &[Taken], role: &str) -> usize {
        match seats(executors, taken, &queue(role), NodeRoom { all: 2_000, of_tenant: 2_000 }) {
            Claim::Some { now, .. } => now,
            Claim::Nobody => panic!("an executor matches"),
        }
    }

    #[test]
    fn as_many_are_taken_on_as_there_are_places_and_a_few_that_wait() {
        let two = [executor("", 0, 2)];
        assert_eq!(now(&two, &[], ""), 3);
        assert_eq!(now(&two, &[taken("", 3, 3)], ""), 0, "leased and not placed yet");
        let full = [executor("", 2, 2)];
        assert_eq!(now(&full, &[taken("", 2, 0)], ""), 1);
        assert_eq!(now(&full, &[taken("", 3, 1)], ""), 0);
        assert_eq!(now(&[executor("", 0, 1_000)], &[], ""), 1_000);
    }

    #[test]
    fn a_full_role_takes_nothing_from_another() {
        let executors = [executor("slow", 2, 2), executor("fast", 0, 4)];
        let slow = [taken("slow", 3, 1)];
        assert_eq!(now(&executors, &slow, "slow"), 0);
        assert_eq!(now(&executors, &slow, "fast"), 6);
    }

    #[test]
    fn those_that_wait_have_the_next_places_whatever_their_kind() {
        let executors = [executor("", 2, 4)];
        assert_eq!(now(&executors, &[taken("a", 1, 1)], "b"), 3);
        assert_eq!(now(&executors, &[taken("a", 2, 2)], "b"), 2, "two nodes wait for their own executor");
    }

    #[test]
    fn one_kind_leaves_half_of_the_leases_to_the_next() {
        let executors = [executor("a", 0, 9_000), executor("b", 0, 9_000)];
        assert_eq!(now(&executors, &[], "a"), 1_000);
        let all = [taken("a", 1_000, 0)];
        assert_eq!((now(&executors, &all, "a"), now(&executors, &all, "b")), (0, 500));
    }

    #[test]
    fn all_kinds_of_a_tenant_together_have_its_room() {
        let executors = [executor("", 0, 9_000)];
        let room = NodeRoom { all: 2_000, of_tenant: 1_500 };
        let claim = |taken: &[Taken], wanted: &Queue| match seats(&executors, taken, wanted, room) {
            Claim::Some { now, .. } => now,
            Claim::Nobody => panic!("an executor matches"),
        };
        let mut held: Vec<Taken> = Vec::new();
        for kind in 0..12 {
            let now = claim(&held, &queue(&format!("r{kind}")));
            held.push(taken(&format!("r{kind}"), now, 0));
        }
        assert_eq!(held.iter().map(|taken| taken.held).sum::<usize>(), 1_500);
        assert_eq!(claim(&held, &queue("r0")), 0);
        let other = Queue::node(&TenantId::parse("other").unwrap(), "r0", &BTreeSet::new());
        assert_eq!(claim(&held, &other), 250, "half of what is left");
    }

    #[test]
    fn without_an_executor_nothing_is_taken_on() {
        let claim = |executors: &[Seats], queue: &Queue| {
            seats(executors, &[], queue, NodeRoom { all: 2_000, of_tenant: 2_000 })
        };
        assert_eq!(claim(&[], &queue("")), Claim::Nobody);
        assert_eq!(claim(&[executor("a", 0, 4)], &queue("b")), Claim::Nobody);
        assert_eq!(claim(&[executor("", 0, 4)], &Queue::engine()), Claim::Nobody);
        let mut theirs = executor("", 0, 4);
        theirs.tenant = TenantId::parse("other").ok();
        assert_eq!(claim(&[theirs], &queue("")), Claim::Nobody);
    }

    #[test]
    fn a_round_trip_for_half_of_those_that_may_wait_is_worth_it() {
        let worthwhile = |capacity, most| {
            let room = NodeRoom { all: most, of_tenant: most };
            match seats(&[executor("", 0, capacity)], &[], &queue(""), room) {
                Claim::Some { worthwhile, .. } => worthwhile,
                Claim::Nobody => panic!("an executor matches"),
            }
        };
        assert_eq!([1, 2, 64, 256, 9_000].map(|capacity| worthwhile(capacity, 2_000)), [1, 1, 16, 64, 64]);
        assert_eq!([1, 2, 16].map(|most| worthwhile(9_000, most)), [1, 1, 4], "never more than there can be");
    }
}
