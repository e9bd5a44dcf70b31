//! The known executors, and the load that this worker has put on each.
//!
//! The list consists of the executors from the settings and of those that registered themselves; it is
//! refreshed every second. [`millstream_workflow::graph::choose_executor`] chooses the executor of a node; this file
//! supplies the numbers. They reserve nothing: an overloaded executor refuses, and the node is tried
//! elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millstream_model::action_queue::{ActionQueue, QueueParts};
use millstream_model::id::{Name, TenantId};
use millstream_rpc::client::ExecutorTarget;
use millstream_store::executor_store::RegisteredExecutor;
use millstream_workflow::graph::{self, DispatchRequirements, ExecutorCandidate, ExecutorCapacity};
use tokio::sync::Notify;
use tokio::time::Instant;

/// Back-off for an unreachable executor, unless it is the only suitable one.
const SHUNNED: Duration = Duration::from_secs(2);

/// An executor from the settings; it serves all tenants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixedExecutor {
    pub name: Name,
    /// `http://host:port`.
    pub address: String,
    pub roles: BTreeSet<String>,
    pub labels: BTreeSet<Name>,
    pub capacity: u32,
}

#[derive(Debug, Clone)]
pub(crate) struct ExecutorTable(Arc<ExecutorTableInner>);

#[derive(Debug)]
struct ExecutorTableInner {
    known: Mutex<BTreeMap<ExecutorOwnerKey, KnownExecutor>>,
    /// Round-robin counter, the tie-break between equal candidates.
    turn: AtomicUsize,
    /// Waiters for capacity, by tenant and requirements: an executor with free capacity wakes one of each.
    waiting: Mutex<BTreeMap<WaitingKind, Arc<Notify>>>,
}

/// Tenant, role and labels. The tenant is part of it, so that no tenant's waiters consume the wake-up of
/// another's.
type WaitingKind = (TenantId, String, BTreeSet<Name>);

/// The tenant is set where the executor belongs to one tenant.
type ExecutorOwnerKey = (Option<TenantId>, Name);

#[derive(Debug)]
struct KnownExecutor {
    address: String,
    roles: BTreeSet<String>,
    labels: BTreeSet<Name>,
    capacity: u32,
    /// Nodes sent by this worker and not answered yet.
    given: u32,
    /// Its load from other workers, as last reported.
    elsewhere: u32,
    shunned_until: Option<Instant>,
}

/// A node's requirements for an executor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeRequirements<'a> {
    pub(crate) role: &'a str,
    pub(crate) labels: &'a BTreeSet<Name>,
    /// Executors that died while performing it.
    pub(crate) avoid: &'a [String],
}

/// Capacity reserved at an executor, until it is dropped.
#[derive(Debug)]
pub(crate) struct ExecutorPlace {
    pub(crate) name: Name,
    pub(crate) target: ExecutorTarget,
    pub(crate) reason: String,
    whose: ExecutorOwnerKey,
    executors: ExecutorTable,
}

/// Reason for a refused reservation.
#[derive(Debug)]
pub(crate) enum NoExecutorPlace {
    /// All suitable executors are at capacity.
    Busy,
    /// No executor is suitable: the missing requirement.
    Nobody(String),
}

impl ExecutorTable {
    pub(crate) fn new(fixed: &[FixedExecutor]) -> Self {
        let known = fixed.iter().map(|executor| {
            let known = KnownExecutor {
                address: executor.address.clone(),
                roles: executor.roles.clone(),
                labels: executor.labels.clone(),
                capacity: executor.capacity,
                given: 0,
                elsewhere: 0,
                shunned_until: None,
            };
            ((None, executor.name.clone()), known)
        });
        Self(Arc::new(ExecutorTableInner {
            known: Mutex::new(known.collect()),
            turn: AtomicUsize::new(0),
            waiting: Mutex::default(),
        }))
    }

    fn lock_known(&self) -> MutexGuard<'_, BTreeMap<ExecutorOwnerKey, KnownExecutor>> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the registered executors by the store's current list.
    pub(crate) fn set_registered(&self, executors: Vec<RegisteredExecutor>) {
        let mut known = self.lock_known();
        let mut gone: BTreeSet<ExecutorOwnerKey> =
            known.keys().filter(|(tenant, _)| tenant.is_some()).cloned().collect();
        for executor in executors {
            let whose = (Some(executor.tenant), executor.name);
            gone.remove(&whose);
            let given = known.get(&whose).map_or(0, |known| known.given);
            let shunned_until = known.get(&whose).and_then(|known| known.shunned_until);
            known.insert(
                whose,
                KnownExecutor {
                    address: executor.address,
                    roles: executor.roles,
                    labels: executor.labels,
                    capacity: executor.capacity,
                    given,
                    elsewhere: executor.load.saturating_sub(given),
                    shunned_until,
                },
            );
        }
        for whose in gone {
            known.remove(&whose);
        }
        drop(known);
        for kind in self.lock_waiting().values() {
            kind.notify_waiters();
        }
    }

    /// Reserves capacity at the best executor.
    pub(crate) fn reserve_place(
        &self,
        tenant: &TenantId,
        wanted: &NodeRequirements<'_>,
    ) -> Result<ExecutorPlace, NoExecutorPlace> {
        let mut known = self.lock_known();
        let now = Instant::now();
        let mut avoid = wanted.avoid.to_vec();
        let mut whose = Vec::new();
        let mut candidates = Vec::new();
        for (owner, known) in
            known.iter().filter(|((owner, _), _)| owner.as_ref().is_none_or(|owner| owner == tenant))
        {
            if known.shunned_until.is_some_and(|until| until > now) {
                avoid.push(owner.1.as_str().to_owned());
            }
            whose.push(owner.clone());
            candidates.push(known.as_candidate(&owner.1));
        }
        let turn = self.0.turn.fetch_add(1, Ordering::Relaxed);
        let request = DispatchRequirements { role: wanted.role, labels: wanted.labels, avoid: &avoid, turn };
        let Some(choice) = graph::choose_executor(&candidates, &request) else {
            return Err(if candidates.iter().any(|candidate| candidate.can_perform(&request)) {
                NoExecutorPlace::Busy
            } else {
                NoExecutorPlace::Nobody(graph::explain_no_executor(&candidates, &request))
            });
        };
        let Some(whose) = whose.into_iter().nth(choice.at) else { return Err(NoExecutorPlace::Busy) };
        let Some(chosen) = known.get_mut(&whose) else { return Err(NoExecutorPlace::Busy) };
        chosen.given += 1;
        let address = chosen.address.clone();
        let target = match whose.0 {
            None => ExecutorTarget::configured(address),
            Some(_) => ExecutorTarget::registered(address),
        };
        Ok(ExecutorPlace {
            name: choice.executor,
            target,
            reason: choice.reason,
            whose,
            executors: self.clone(),
        })
    }

    /// Executors that may perform nodes of the tenant, with the load of each.
    pub(crate) fn seats_of(&self, tenant: &TenantId) -> Vec<ExecutorCapacity> {
        let known = self.lock_known();
        let may = known.iter().filter(|((owner, _), _)| owner.as_ref().is_none_or(|owner| owner == tenant));
        let seats = may.map(|((owner, name), known)| ExecutorCapacity {
            tenant: owner.clone(),
            executor: known.as_candidate(name),
        });
        seats.collect()
    }

    /// Why no executor can perform the nodes of a queue, or `None` if one can.
    pub(crate) fn missing_requirement(&self, queue: &ActionQueue) -> Option<String> {
        let Some(QueueParts::Node { tenant, role, labels }) = queue.parts() else { return None };
        let candidates: Vec<ExecutorCandidate> =
            self.seats_of(&tenant).into_iter().map(|seats| seats.executor).collect();
        let request = DispatchRequirements { role: &role, labels: &labels, avoid: &[], turn: 0 };
        let can = candidates.iter().any(|candidate| candidate.can_perform(&request));
        (!can).then(|| graph::explain_no_executor(&candidates, &request))
    }

    /// Waits until a suitable executor may have capacity, at most `longest`.
    pub(crate) async fn wait_for_capacity(
        &self,
        tenant: &TenantId,
        wanted: &NodeRequirements<'_>,
        longest: Duration,
    ) {
        let kind = (tenant.clone(), wanted.role.to_owned(), wanted.labels.clone());
        let news = Arc::clone(self.lock_waiting().entry(kind).or_default());
        let _ = tokio::time::timeout(longest, news.notified()).await;
    }

    fn lock_waiting(&self) -> MutexGuard<'_, BTreeMap<WaitingKind, Arc<Notify>>> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes one waiter of each tenant and kind that can use the capacity. If the capacity is already gone,
    /// it waits again.
    fn release_place(&self, whose: &ExecutorOwnerKey) {
        let mut known = self.lock_known();
        let Some(left) = known.get_mut(whose) else { return };
        left.given = left.given.saturating_sub(1);
        let mut waiting = self.lock_waiting();
        // Only this table refers to it: no waiters.
        waiting.retain(|_, news| Arc::strong_count(news) > 1);
        for ((tenant, role, labels), news) in waiting.iter() {
            let may = whose.0.as_ref().is_none_or(|owner| owner == tenant);
            if may && graph::meets_requirements((&left.roles, &left.labels), (role, labels)) {
                news.notify_one();
            }
        }
    }
}

impl KnownExecutor {
    fn as_candidate(&self, name: &Name) -> ExecutorCandidate {
        ExecutorCandidate {
            name: name.clone(),
            roles: self.roles.clone(),
            labels: self.labels.clone(),
            capacity: self.capacity,
            in_flight: self.given.saturating_add(self.elsewhere),
        }
    }
}

impl ExecutorPlace {
    /// Records that the executor was unreachable.
    pub(crate) fn mark_unreachable(&self) {
        if let Some(known) = self.executors.lock_known().get_mut(&self.whose) {
            known.shunned_until = Some(Instant::now() + SHUNNED);
        }
    }
}

impl Drop for ExecutorPlace {
    fn drop(&mut self) {
        self.executors.release_place(&self.whose);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    fn tenant(name: &str) -> TenantId {
        TenantId::parse(name).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn executor_capacity_wakes_its_own_tenant() {
        let executors = ExecutorTable::new(&[]);
        let (noisy, quiet) = (tenant("noisy"), tenant("quiet"));
        executors.set_registered(vec![RegisteredExecutor {
            tenant: quiet.clone(),
            name: Name::parse("a").unwrap(),
            address: "http://127.0.0.1:1".to_owned(),
            roles: BTreeSet::new(),
            labels: BTreeSet::new(),
            capacity: 1,
            load: 0,
        }]);
        let labels = BTreeSet::new();
        let wanted = NodeRequirements { role: "render", labels: &labels, avoid: &[] };
        let place = executors.reserve_place(&quiet, &wanted).unwrap();
        let mut first = pin!(executors.wait_for_capacity(&noisy, &wanted, Duration::MAX));
        let mut second = pin!(executors.wait_for_capacity(&quiet, &wanted, Duration::MAX));
        assert!(futures::poll!(&mut first).is_pending() && futures::poll!(&mut second).is_pending());
        drop(place);
        assert!(futures::poll!(&mut second).is_ready(), "another tenant's node was woken for it");
        assert!(futures::poll!(&mut first).is_pending(), "it has no use for the place");
    }
}
