//! What deciding knows of performing: the capacity for the actions of its commits, and nothing else.
//!
//! A commit leases the actions that it makes ready to its own worker, as far as that has free slots:
//! [`CommitLeasing::reserve_for`] before the commit, [`CommitReservation::start_actions`] right after it. What
//! could not be reserved becomes free again with the reservation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millstream_model::id::{ExecutionKey, TenantId};
use millstream_model::status::ActionStatus;
use millstream_store::action_store::LeasedAction;
use millstream_store::execution_store::{ExecutionCommit, LeaseGrant};
use tokio::time::Instant;

use super::action_leasing::ActionLeasing;
use super::action_slots::ReservedSlots;
use super::ready_nodes::ReadyNodes;
use super::tenant_slots::TenantSlotReservation;

#[derive(Debug, Clone)]
pub(crate) struct CommitLeasing(Arc<ActionLeasing>);

/// Capacity reserved for the actions of a commit. Unused slots become free when it is dropped.
#[derive(Debug)]
pub(crate) struct CommitReservation<'a> {
    leasing: &'a ActionLeasing,
    nodes: ReadyNodes,
    slots: ReservedSlots,
    grant: LeaseGrant,
    /// Held until the leased actions hold their slots.
    _tenant_slots: Vec<TenantSlotReservation>,
}

impl CommitLeasing {
    pub(crate) fn new(leasing: Arc<ActionLeasing>) -> Self {
        Self(leasing)
    }

    /// Reserves slots for the actions that these commits make ready.
    pub(crate) fn reserve_for(&self, batch: &[ExecutionCommit]) -> CommitReservation<'_> {
        let leasing = &*self.0;
        let mut barred = leasing.barred_tenants();
        let mut wanted: BTreeMap<&TenantId, usize> = BTreeMap::new();
        for commit in batch.iter().filter(|commit| !barred.contains(&commit.execution.tenant)) {
            let ready = commit.actions.iter().filter(|action| action.status == ActionStatus::Ready);
            let ready = ready.filter(|action| leasing.can_perform(&action.terms.queue)).count();
            *wanted.entry(&commit.execution.tenant).or_default() += ready;
        }
        wanted.retain(|_, ready| *ready > 0);
        let tenant_slots = leasing.reserve_tenant_slots(wanted, &mut barred);
        let ready = tenant_slots.iter().map(TenantSlotReservation::len).sum();
        let grant = match barred.is_empty() {
            true => leasing.lease_grant(0),
            false => leasing.lease_grant_except(&barred, batch.iter().map(|commit| &commit.execution.tenant)),
        };
        let slots = leasing.slots.reserve_free(ready);
        let mut nodes = ReadyNodes::of_commits(batch);
        if slots.len() == ready {
            nodes.reserve_slots(leasing);
        }
        CommitReservation { leasing, nodes, slots, grant, _tenant_slots: tenant_slots }
    }

    /// Records that actions of this tenant, which no commit leased, may be due now.
    pub(crate) fn note_due_actions(&self, tenant: &TenantId) {
        self.0.note_due_actions(tenant);
    }

    /// A doorbell for actions of this tenant was read; [`wake`](Self::wake) follows.
    pub(crate) fn note_action_doorbell(&self, tenant: &TenantId) {
        self.0.due_tenants.note_due(tenant);
    }

    /// Wakes the leasing of actions and of nodes.
    pub(crate) fn wake(&self) {
        self.0.action_alarm.set_instant(Instant::now());
        self.0.node_alarm.set_instant(Instant::now());
    }

    /// The execution has ended: its actions that run on this worker are looked at now.
    pub(crate) fn renew_leases_of(&self, execution: &ExecutionKey) {
        self.0.leases.renew_ended(&BTreeSet::from([execution.clone()]));
    }

    /// Backpressure: whether outcomes that wait for their settlement leave enough slots.
    pub(crate) fn has_settle_capacity(&self) -> bool {
        self.0.unsettled.has_capacity()
    }

    pub(crate) async fn wait_for_settle_capacity(&self) {
        self.0.unsettled.wait_for_capacity().await;
    }

    /// Whether the tenant's actions hold so few slots that they delay no other tenant.
    pub(crate) fn holds_few_slots(&self, tenant: &TenantId) -> bool {
        self.0.holds_few_slots(tenant)
    }
}

impl CommitReservation<'_> {
    /// The request that goes with the commit.
    pub(crate) fn lease_grant(&self) -> LeaseGrant {
        self.nodes.extend_grant(self.grant.with_slots(self.slots.len()))
    }

    /// After the commit: leaves the nodes that were not leased with it to the duty. Returns whether other
    /// workers should be notified.
    pub(crate) fn leave_other_nodes(&self) -> bool {
        self.nodes.mark_rest_behind(self.leasing)
    }

    /// Number of a commit's nodes that were not leased with it.
    pub(crate) fn count_other_nodes(&self, commit: &ExecutionCommit) -> usize {
        self.nodes.count_not_leased(commit)
    }

    /// Hands over what the commit leased. `asked` is the instant before the commit.
    pub(crate) fn start_actions(&mut self, leased: Vec<LeasedAction>, asked: Instant) {
        let (of_nodes, leased) = self.nodes.split_leased(leased);
        self.leasing.start_actions(leased, &mut self.slots, asked);
        for (action, slot) in of_nodes {
            self.leasing.start_action(action, slot, asked);
        }
    }
}
