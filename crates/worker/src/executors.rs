//! The known executors, and the load that this worker has put on each.
//!
//! The list consists of the executors from the settings and of those that registered themselves; it is
//! refreshed every second. [`millstream_core::graph::choose`] chooses the executor of a node; this file
//! supplies the numbers. They reserve nothing: an overloaded executor refuses, and the node is tried
//! elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millstream_core::graph::{self, Candidate, Request, Seats};
use millstream_core::id::{Name, TenantId};
use millstream_core::placement::{Queue, QueueParts};
use millstream_rpc::client::ExecutorTarget;
use millstream_store::executor_store::Executor;
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
pub(crate) struct Executors(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    known: Mutex<BTreeMap<Whose, Known>>,
    /// Round-robin counter, the tie-break between equal candidates.
    turn: AtomicUsize,
    /// Waiters for capacity, by tenant and requirements: an executor with free capacity wakes one of each.
    waiting: Mutex<BTreeMap<WaitingKind, Arc<Notify>>>,
}

/// Tenant, role and labels. The tenant is part of it, so that no tenant's waiters consume the wake-up of
/// another's.
type WaitingKind = (TenantId, String, BTreeSet<Name>);

/// The tenant is set where the executor belongs to one tenant.
type Whose = (Option<TenantId>, Name);

#[derive(Debug)]
struct Known {
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
pub(crate) struct Wanted<'a> {
    pub(crate) role: &'a str,
    pub(crate) labels: &'a BTreeSet<Name>,
    /// Executors that died while performing it.
    pub(crate) avoid: &'a [String],
}

/// Capacity reserved at an executor, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) name: Name,
    pub(crate) target: ExecutorTarget,
    pub(crate) reason: String,
    whose: Whose,
    executors: Executors,
}

/// Reason for a refused reservation.
#[derive(Debug)]
pub(crate) enum NoPlace {
    /// All suitable executors are at capacity.
    Busy,
    /// No executor is suitable: the missing requirement.
    Nobody(String),
}

impl Executors {
    pub(crate) fn new(fixed: &[FixedExecutor]) -> Self {
        let known = fixed.iter().map(|executor| {
            let known = Known {
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
        Self(Arc::new(Inner {
            known: Mutex::new(known.collect()),
            turn: AtomicUsize::new(0),
            waiting: Mutex::default(),
        }))
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Whose, Known>> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the registered executors by the store's current list.
    pub(crate) fn registered(&self, executors: Vec<Executor>) {
        let mut known = self.known();
        let mut gone: BTreeSet<Whose> =
            known.keys().filter(|(tenant, _)| tenant.is_some()).cloned().collect();
        for executor in executors {
            let whose = (Some(executor.tenant), executor.name);
            gone.remove(&whose);
            let given = known.get(&whose).map_or(0, |known| known.given);
            let shunned_until = known.get(&whose).and_then(|known| known.shunned_until);
            known.insert(
                whose,
                Known {
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
        for kind in self.waiting().values() {
            kind.notify_waiters();
        }
    }

    /// Reserves capacity at the best executor.
    pub(crate) fn place(&self, tenant: &TenantId, wanted: &Wanted<'_>) -> Result<Place, NoPlace> {
        let mut known = self.known();
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
            candidates.push(known.candidate(&owner.1));
        }
        let turn = self.0.turn.fetch_add(1, Ordering::Relaxed);
        let request = Request { role: wanted.role, labels: wanted.labels, avoid: &avoid, turn };
        let Some(choice) = graph::choose(&candidates, &request) else {
            return Err(if candidates.iter().any(|candidate| candidate.can(&request)) {
                NoPlace::Busy
            } else {
                NoPlace::Nobody(graph::why_nobody(&candidates, &request))
            });
        };
        let Some(whose) = whose.into_iter().nth(choice.at) else { return Err(NoPlace::Busy) };
        let Some(chosen) = known.get_mut(&whose) else { return Err(NoPlace::Busy) };
        chosen.given += 1;
        let address = chosen.address.clone();
        let target = match whose.0 {
            None => ExecutorTarget::configured(address),
            Some(_) => ExecutorTarget::registered(address),
        };
        Ok(Place { name: choice.executor, target, reason: choice.reason, whose, executors: self.clone() })
    }

    /// Executors that may perform nodes of the tenant, with the load of each.
    pub(crate) fn seats_of(&self, tenant: &TenantId) -> Vec<Seats> {
        let known = self.known();
        let may = known.iter().filter(|((owner, _), _)| owner.as_ref().is_none_or(|owner| owner == tenant));
        let seats = may
            .map(|((owner, name), known)| Seats { tenant: owner.clone(), executor: known.candidate(name) });
        seats.collect()
    }

    /// Why no executor can perform the nodes of a queue, or `None` if one can.
    pub(crate) fn nobody(&self, queue: &Queue) -> Option<String> {
        let Some(QueueParts::Node { tenant, role, labels }) = queue.parts() else { return None };
        let candidates: Vec<Candidate> =
            self.seats_of(&tenant).into_iter().map(|seats| seats.executor).collect();
        let request = Request { role: &role, labels: &labels, avoid: &[], turn: 0 };
        let can = candidates.iter().any(|candidate| candidate.can(&request));
        (!can).then(|| graph::why_nobody(&candidates, &request))
    }

    /// Waits until a suitable executor may have capacity, at most `longest`.
    pub(crate) async fn room(&self, tenant: &TenantId, wanted: &Wanted<'_>, longest: Duration) {
        let kind = (tenant.clone(), wanted.role.to_owned(), wanted.labels.clone());
        let news = Arc::clone(self.waiting().entry(kind).or_default());
        let _ = tokio::time::timeout(longest, news.notified()).await;
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<WaitingKind, Arc<Notify>>> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes one waiter of each tenant and kind that can use the capacity. If the capacity is already gone,
    /// it waits again.
    fn left(&self, whose: &Whose) {
        let mut known = self.known();
        let Some(left) = known.get_mut(whose) else { return };
        left.given = left.given.saturating_sub(1);
        let mut waiting = self.waiting();
        // Only this table refers to it: no waiters.
        waiting.retain(|_, news| Arc::strong_count(news) > 1);
        for ((tenant, role, labels), news) in waiting.iter() {
            let may = whose.0.as_ref().is_none_or(|owner| owner == tenant);
            if may && graph::can_do((&left.roles, &left.labels), (role, labels)) {
                news.notify_one();
            }
        }
    }
}

impl Known {
    fn candidate(&self, name: &Name) -> Candidate {
        Candidate {
            name: name.clone(),
            roles: self.roles.clone(),
            labels: self.labels.clone(),
            capacity: self.capacity,
            in_flight: self.given.saturating_add(self.elsewhere),
        }
    }
}

impl Place {
    /// Records that the executor was unreachable.
    pub(crate) fn shun(&self) {
        if let Some(known) = self.executors.known().get_mut(&self.whose) {
            known.shunned_until = Some(Instant::now() + SHUNNED);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.executors.left(&self.whose);
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
    async fn the_room_of_an_executor_wakes_a_node_of_its_own_tenant() {
        let executors = Executors::new(&[]);
        let (noisy, quiet) = (tenant("noisy"), tenant("quiet"));
        executors.registered(vec![Executor {
            tenant: quiet.clone(),
            name: Name::parse("a").unwrap(),
            address: "http://127.0.0.1:1".to_owned(),
            roles: BTreeSet::new(),
            labels: BTreeSet::new(),
            capacity: 1,
            load: 0,
        }]);
        let labels = BTreeSet::new();
        let wanted = Wanted { role: "render", labels: &labels, avoid: &[] };
        let place = executors.place(&quiet, &wanted).unwrap();
        let mut first = pin!(executors.room(&noisy, &wanted, Duration::MAX));
        let mut second = pin!(executors.room(&quiet, &wanted, Duration::MAX));
        assert!(futures::poll!(&mut first).is_pending() && futures::poll!(&mut second).is_pending());
        drop(place);
        assert!(futures::poll!(&mut second).is_ready(), "another tenant's node was woken for it");
        assert!(futures::poll!(&mut first).is_pending(), "it has no use for the place");
    }
}
