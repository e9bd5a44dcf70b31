//! Round robin between the tenants with due actions: chooses the queues of the next lease.
//!
//! Action queues belong to tenants (`model::action_queue`), and there may be many. The worker learns which of
//! them have due actions from its own commits and settlements, from doorbells for actions and, as the repair,
//! by polling the store. A lease that finds an empty queue forgets it. The statement that leases therefore
//! names few queues and takes turns between them; where there are more queues than it may name, they rotate.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millstream_model::action_queue::{ActionQueue, QueueParts};
use millstream_model::id::TenantId;
use tokio::time::Instant;

/// Minimum time between two polls of the store.
const LOOK_APART: Duration = Duration::from_millis(100);
/// Polling takes at most `1 / LOOK_SHARE` of the time.
const LOOK_SHARE: u32 = 20;

/// Owner of queues. The queues of all tenants come first: earlier releases wrote into them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum QueueOwner {
    AllTenants,
    Tenant(TenantId),
}

/// An owner to look at, with the state of knowledge about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DueOwner {
    pub(crate) owner: QueueOwner,
    /// Counter of the last notice: a later notice is kept when this look finds nothing.
    heard: u64,
}

#[derive(Debug, Default)]
pub(crate) struct DueTenants(Mutex<DueOwners>);

#[derive(Debug, Default)]
struct DueOwners {
    owners: BTreeMap<QueueOwner, u64>,
    heard: u64,
    /// The owner looked at last.
    last: Option<QueueOwner>,
    /// Queues with open actions at the last poll.
    open: Vec<ActionQueue>,
    next_look: Option<Instant>,
}

impl DueTenants {
    fn lock_owners(&self) -> MutexGuard<'_, DueOwners> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that actions of the tenant are, or may be, due.
    pub(crate) fn note_due(&self, tenant: &TenantId) {
        self.lock_owners().note_due(QueueOwner::Tenant(tenant.clone()));
    }

    /// Earliest time of the next poll of the store; `None` for now.
    pub(crate) fn next_poll(&self, now: Instant) -> Option<Instant> {
        self.lock_owners().next_look.filter(|next| *next > now)
    }

    /// Records the result of a poll, queues with open actions, and how long it took.
    pub(crate) fn record_poll(&self, open: Vec<ActionQueue>, took: Duration, now: Instant) {
        let mut owners = self.lock_owners();
        for queue in &open {
            match queue.parts() {
                Some(
                    QueueParts::Engine { tenant: Some(tenant) }
                    | QueueParts::Call { tenant: Some(tenant), .. },
                ) => owners.note_due(QueueOwner::Tenant(tenant)),
                Some(QueueParts::Engine { tenant: None } | QueueParts::Call { tenant: None, .. }) => {
                    owners.note_due(QueueOwner::AllTenants);
                }
                Some(QueueParts::Task { .. } | QueueParts::Node { .. }) | None => {}
            }
        }
        owners.open = open;
        owners.next_look = Some(now + LOOK_APART.max(took * LOOK_SHARE));
    }

    /// Queues with open actions at the last poll.
    pub(crate) fn open_queues(&self) -> Vec<ActionQueue> {
        self.lock_owners().open.clone()
    }

    /// Tenants that may have due actions.
    pub(crate) fn due_tenants(&self) -> BTreeSet<TenantId> {
        let owners = self.lock_owners();
        let tenants = owners.owners.keys().filter_map(|owner| match owner {
            QueueOwner::AllTenants => None,
            QueueOwner::Tenant(tenant) => Some(tenant.clone()),
        });
        tenants.collect()
    }

    /// Up to `most` owners in round robin, without barred tenants. A tenant that has to be asked alone,
    /// because its limit may be lower than what is due, is returned as the only one.
    pub(crate) fn next_owners(
        &self,
        most: usize,
        barred: &BTreeSet<TenantId>,
        alone: impl Fn(&TenantId) -> bool,
    ) -> Vec<DueOwner> {
        let mut owners = self.lock_owners();
        let after = owners.last.clone().map_or(Bound::Unbounded, Bound::Excluded);
        let until = owners.last.clone().map_or(Bound::Excluded(QueueOwner::AllTenants), Bound::Included);
        let first = owners.owners.range((after, Bound::Unbounded));
        let then = owners.owners.range((Bound::Unbounded, until));
        let mut next: Vec<DueOwner> = Vec::new();
        for (owner, heard) in first.chain(then) {
            let is_alone = match owner {
                QueueOwner::AllTenants => false,
                QueueOwner::Tenant(tenant) if barred.contains(tenant) => continue,
                QueueOwner::Tenant(tenant) => alone(tenant),
            };
            if next.len() == most || (is_alone && !next.is_empty()) {
                break;
            }
            next.push(DueOwner { owner: owner.clone(), heard: *heard });
            if is_alone {
                break;
            }
        }
        owners.last = next.last().map(|next| next.owner.clone());
        next
    }

    /// Forgets owners without (further) due actions, unless a notice arrived meanwhile.
    pub(crate) fn forget_exhausted<'a>(&self, looked_at: impl IntoIterator<Item = &'a DueOwner>) {
        let mut owners = self.lock_owners();
        for DueOwner { owner, heard } in looked_at {
            if owners.owners.get(owner) == Some(heard) {
                owners.owners.remove(owner);
            }
        }
    }
}

impl DueOwners {
    fn note_due(&mut self, owner: QueueOwner) {
        self.heard += 1;
        self.owners.insert(owner, self.heard);
    }
}

/// Tenants over their fair share of `slots` while others, below theirs, have due actions: they wait. `held`
/// maps a tenant to its used slots.
pub(crate) fn crowding_tenants(
    due: &BTreeSet<TenantId>,
    held: &BTreeMap<TenantId, usize>,
    slots: usize,
) -> BTreeSet<TenantId> {
    let tenants = due.len() + held.keys().filter(|tenant| !due.contains(*tenant)).count();
    let part = (slots / tenants.max(1)).max(1);
    let holds = |tenant: &TenantId| held.get(tenant).copied().unwrap_or(0);
    if due.iter().all(|tenant| holds(tenant) >= part) {
        return BTreeSet::new();
    }
    held.iter().filter(|(_, held)| **held >= part).map(|(tenant, _)| tenant.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> TenantId {
        TenantId::parse(name).unwrap()
    }

    fn names(next: &[DueOwner]) -> Vec<String> {
        let name = |due: &DueOwner| match &due.owner {
            QueueOwner::AllTenants => String::new(),
            QueueOwner::Tenant(tenant) => tenant.to_string(),
        };
        next.iter().map(name).collect()
    }

    #[test]
    fn lease_rotates_between_due_tenants() {
        let due = DueTenants::default();
        for name in ["a", "b", "c", "d", "e"] {
            due.note_due(&tenant(name));
        }
        let none = BTreeSet::new();
        let turns = [(); 4].map(|()| names(&due.next_owners(2, &none, |_| false)).concat());
        assert_eq!(turns, ["ab", "cd", "ea", "bc"]);
        assert_eq!(names(&due.next_owners(9, &none, |_| false)), ["d", "e", "a", "b", "c"], "each once");
    }

    #[test]
    fn exhausted_owner_is_forgotten_unless_notified() {
        let due = DueTenants::default();
        due.note_due(&tenant("a"));
        due.note_due(&tenant("b"));
        let next = due.next_owners(9, &BTreeSet::new(), |_| false);
        due.note_due(&tenant("b"));
        due.forget_exhausted(&next);
        assert_eq!(due.due_tenants(), [tenant("b")].into());
    }

    #[test]
    fn poll_finds_tenant_and_shared_queues() {
        let (due, now) = (DueTenants::default(), Instant::now());
        let call = millstream_model::id::Name::parse("charge").unwrap();
        let open = vec![
            ActionQueue::engine_for_all(),
            ActionQueue::engine_of(&tenant("a")),
            ActionQueue::call_of(&tenant("b"), &call),
        ];
        assert_eq!(due.next_poll(now), None);
        due.record_poll(open, Duration::from_millis(50), now);
        assert_eq!(names(&due.next_owners(9, &BTreeSet::new(), |_| false)), ["", "a", "b"]);
        assert_eq!(due.next_poll(now), Some(now + Duration::from_secs(1)), "a twentieth of the time");
        assert_eq!(due.next_poll(now + Duration::from_secs(1)), None);
    }

    #[test]
    fn barred_tenant_is_skipped() {
        let due = DueTenants::default();
        due.note_due(&tenant("a"));
        due.note_due(&tenant("b"));
        assert_eq!(names(&due.next_owners(9, &[tenant("a")].into(), |_| false)), ["b"]);
        assert!(due.next_owners(9, &[tenant("a"), tenant("b")].into(), |_| false).is_empty());
    }

    #[test]
    fn limited_tenant_is_leased_alone() {
        let due = DueTenants::default();
        for name in ["a", "b", "c", "d"] {
            due.note_due(&tenant(name));
        }
        let turns = [(); 4]
            .map(|()| names(&due.next_owners(9, &BTreeSet::new(), |owner| *owner == tenant("b"))).concat());
        assert_eq!(turns, ["a", "b", "cda", "b"]);
    }

    #[test]
    fn tenant_over_fair_share_waits() {
        let held = |all: &[(&str, usize)]| all.iter().map(|(name, held)| (tenant(name), *held)).collect();
        let due = |all: &[&str]| all.iter().map(|name| tenant(name)).collect();
        let crowding = |d: &[&str], h: &[(&str, usize)]| crowding_tenants(&due(d), &held(h), 100);
        assert_eq!(crowding(&["a", "b"], &[("a", 60)]), [tenant("a")].into());
        assert!(crowding(&["a"], &[("a", 100)]).is_empty(), "alone it has all");
        assert!(crowding(&["a", "b"], &[("a", 49)]).is_empty(), "there is room");
        assert!(crowding(&["a"], &[("a", 90), ("b", 10)]).is_empty(), "the other has nothing due");
        assert!(crowding(&["a", "b"], &[("a", 50), ("b", 50)]).is_empty(), "both have their part");
        assert_eq!(crowding(&["b"], &[("a", 60)]), [tenant("a")].into());
    }
}
