//! The executors that this worker knows, and how much it has given each of them.
//!
//! The list comes from the settings and from those that registered themselves; it is read anew every second.
//! Which one gets a node is decided by [`millstream_core::graph::choose`]; here are only the numbers it needs.
//! Nothing is exclusive by them: an executor that is given too much says so, and the node is tried elsewhere.

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

/// An executor that could not be reached is left alone for so long, unless nobody else can do it.
const SHUNNED: Duration = Duration::from_secs(2);

/// An executor from the settings: of every tenant.
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
    /// Rotates among those that are equally good.
    turn: AtomicUsize,
    /// Those who wait for a place, by tenant and by what they want: an executor that has room again wakes one of each.
    waiting: Mutex<BTreeMap<WaitingKind, Arc<Notify>>>,
}

/// Tenant, role and labels. With the tenant, no tenant's waiters take the wake-up of another's.
type WaitingKind = (TenantId, String, BTreeSet<Name>);

/// The tenant, where it is one tenant's own.
type Whose = (Option<TenantId>, Name);

#[derive(Debug)]
struct Known {
    address: String,
    roles: BTreeSet<String>,
    labels: BTreeSet<Name>,
    capacity: u32,
    /// Given by this worker and not answered yet.
    given: u32,
    /// What it has from others, as far as it says.
    elsewhere: u32,
    shunned_until: Option<Instant>,
}

/// What a node wants of an executor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) role: &'a str,
    pub(crate) labels: &'a BTreeSet<Name>,
    /// Those that died over it.
    pub(crate) avoid: &'a [String],
}

/// A place at an executor, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) name: Name,
    pub(crate) target: ExecutorTarget,
    pub(crate) reason: String,
    whose: Whose,
    executors: Executors,
}

/// Why there is no place.
#[derive(Debug)]
pub(crate) enum NoPlace {
    /// Those that could do it have enough to do.
    Busy,
    /// Nobody can do it: what is missing.
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

    /// Those that registered themselves, as the store has them now.
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

    /// A place at the one that suits best.
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

    /// Those that may perform nodes of the tenant, with how much each has to do.
    pub(crate) fn seats_of(&self, tenant: &TenantId) -> Vec<Seats> {
        let known = self.known();
        let may = known.iter().filter(|((owner, _), _)| owner.as_ref().is_none_or(|owner| owner == tenant));
        let seats = may
            .map(|((owner, name), known)| Seats { tenant: owner.clone(), executor: known.candidate(name) });
        seats.collect()
    }

    /// Why nobody can do what stands in a queue of nodes, or `None` if somebody can.
    pub(crate) fn nobody(&self, queue: &Queue) -> Option<String> {
        let Some(QueueParts::Node { tenant, role, labels }) = queue.parts() else { return None };
        let candidates: Vec<Candidate> =
            self.seats_of(&tenant).into_iter().map(|seats| seats.executor).collect();
        let request = Request { role: &role, labels: &labels, avoid: &[], turn: 0 };
        let can = candidates.iter().any(|candidate| candidate.can(&request));
        (!can).then(|| graph::why_nobody(&candidates, &request))
    }

    /// Until somebody who can do it may have room, or a while has passed.
    pub(crate) async fn room(&self, tenant: &TenantId, wanted: &Wanted<'_>, longest: Duration) {
        let kind = (tenant.clone(), wanted.role.to_owned(), wanted.labels.clone());
        let news = Arc::clone(self.waiting().entry(kind).or_default());
        let _ = tokio::time::timeout(longest, news.notified()).await;
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<WaitingKind, Arc<Notify>>> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One of each tenant and kind that has a use for it is woken. One that finds the place taken waits for the next.
    fn left(&self, whose: &Whose) {
        let mut known = self.known();
        let Some(left) = known.get_mut(whose) else { return };
        left.given = left.given.saturating_sub(1);
        let mut waiting = self.waiting();
        // Nobody but this table knows it: nobody waits.
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
    /// It could not be reached.
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
