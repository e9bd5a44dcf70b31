//! The capacity of this worker for actions, and the queue of those that it has leased.
//!
//! A lease is requested only within the free slots: they are reserved first, and a leased action holds its
//! slot until its outcome is settled.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millstream_model::action_queue::ActionQueue;
use millstream_model::id::{Name, TenantId};
use millstream_store::action_store::LeasedAction;
use millstream_store::execution_store::LeaseGrant;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::action_slots::{ActionSlots, ReservedSlots, WorkSlot};
use super::due_tenants::{DueOwner, DueTenants, QueueOwner, crowding_tenants};
use super::leased_work::{LeasedWork, lease_owner};
use super::leases::HeldLeases;
use super::node_slots::NodeSlots;
use super::settle_backlog::SettleBacklog;
use super::tenant_slots::TenantSlotReservation;
use crate::alarm::Alarm;
use crate::environment::WorkerEnvironment;
use crate::executors::ExecutorTable;
use crate::quotas::WorkerQuotas;

#[derive(Debug)]
pub(crate) struct ActionLeasing {
    pub(crate) env: Arc<WorkerEnvironment>,
    /// The queues that it can perform, of all tenants.
    queues: Arc<[ActionQueue]>,
    /// For leased actions.
    pub(crate) slots: ActionSlots,
    /// For leased nodes.
    pub(crate) node_slots: NodeSlots,
    pub(crate) leases: HeldLeases,
    pub(crate) unsettled: SettleBacklog,
    /// Tenants with due actions.
    pub(crate) due_tenants: DueTenants,
    /// Wakes the leasing of actions.
    pub(crate) action_alarm: Alarm,
    /// Wakes the leasing of nodes.
    pub(crate) node_alarm: Alarm,
    pub(crate) quotas: Arc<WorkerQuotas>,
    pub(crate) executors: ExecutorTable,
    hand_over: mpsc::Sender<(TenantId, LeasedWork)>,
}

/// At most `1 / FEW` of the slots counts as few.
const FEW: usize = 8;

impl ActionLeasing {
    /// `calls` are the functions that this worker provides. The receiver gets the leased actions.
    pub(crate) fn new(
        env: Arc<WorkerEnvironment>,
        calls: Vec<Name>,
    ) -> (Self, mpsc::Receiver<(TenantId, LeasedWork)>) {
        let options = &env.options;
        // Every leased action holds a slot, so the number of slots bounds them.
        let (hand_over, leased) = mpsc::channel(options.max_leases());
        let leasing = Self {
            queues: std::iter::once(ActionQueue::engine_for_all())
                .chain(calls.iter().map(ActionQueue::call_for_all))
                .collect(),
            slots: ActionSlots::new(options.max_action_leases(), options.spare_leases()),
            node_slots: NodeSlots::new(options.node_slots),
            leases: HeldLeases::default(),
            unsettled: SettleBacklog::for_slots(options.max_action_leases()),
            due_tenants: DueTenants::default(),
            action_alarm: Alarm::default(),
            node_alarm: Alarm::default(),
            quotas: Arc::new(WorkerQuotas::from_settings(options.quotas.clone())),
            executors: ExecutorTable::new(&options.executors),
            hand_over,
            env,
        };
        (leasing, leased)
    }

    /// A request to lease up to `slots` actions that this worker can perform.
    pub(crate) fn lease_grant(&self, slots: usize) -> LeaseGrant {
        LeaseGrant { slots, ttl: self.env.options.lease, queues: Arc::clone(&self.queues) }
    }

    /// The same for actions of these owners.
    pub(crate) fn lease_grant_of(&self, owners: &[DueOwner], slots: usize) -> LeaseGrant {
        let queues = owners.iter().flat_map(|due| match &due.owner {
            QueueOwner::AllTenants => self.queues.to_vec(),
            QueueOwner::Tenant(tenant) => self.queues_of(tenant),
        });
        LeaseGrant { queues: queues.collect(), ..self.lease_grant(slots) }
    }

    /// The same for actions of these tenants, without barred ones.
    pub(crate) fn lease_grant_except<'a>(
        &self,
        barred: &BTreeSet<TenantId>,
        tenants: impl Iterator<Item = &'a TenantId>,
    ) -> LeaseGrant {
        let tenants: BTreeSet<&TenantId> = tenants.filter(|tenant| !barred.contains(*tenant)).collect();
        let queues = tenants.into_iter().flat_map(|tenant| self.queues_of(tenant)).collect();
        LeaseGrant { queues, ..self.lease_grant(0) }
    }

    fn queues_of(&self, tenant: &TenantId) -> Vec<ActionQueue> {
        self.queues.iter().filter_map(|queue| queue.of_tenant(tenant)).collect()
    }

    /// Number of queues per owner.
    pub(crate) fn queues_per_owner(&self) -> usize {
        self.queues.len()
    }

    /// The action queues that this worker performs and that have open actions.
    pub(crate) fn open_queues(&self) -> Vec<ActionQueue> {
        let open = self.due_tenants.open_queues();
        self.queues.iter().cloned().chain(open).collect()
    }

    pub(crate) fn can_perform(&self, queue: &ActionQueue) -> bool {
        // Every worker serves the queues of the engine: most actions cost no further look.
        queue.is_of_the_engine() || queue.for_all_tenants().is_some_and(|all| self.queues.contains(&all))
    }

    /// Records that actions of this tenant may be due now.
    pub(crate) fn note_due_actions(&self, tenant: &TenantId) {
        self.due_tenants.note_due(tenant);
        self.action_alarm.set_instant(Instant::now());
    }

    /// Tenants whose actions are not leased for now: over their fair share of the slots while others, below
    /// theirs, have due actions; or at their quota.
    pub(crate) fn barred_tenants(&self) -> BTreeSet<TenantId> {
        let due = self.due_tenants.due_tenants();
        if due.is_empty() {
            return BTreeSet::new();
        }
        let held = self.leases.tenant_slots().held_by_tenant();
        let mut barred = crowding_tenants(&due, &held, self.env.options.max_action_leases());
        barred.extend(due.into_iter().filter(|tenant| self.free_slot_quota(tenant) == 0));
        barred
    }

    /// Number of slots that the tenant's actions may hold here.
    pub(crate) fn slot_quota(&self, tenant: &TenantId) -> usize {
        self.quotas.action_slots(tenant, self.env.options.action_slots)
    }

    /// Number of further slots that they may take.
    pub(crate) fn free_slot_quota(&self, tenant: &TenantId) -> usize {
        self.leases.tenant_slots().free_of_tenant(tenant, self.slot_quota(tenant))
    }

    /// Whether the tenant's actions hold so few slots that they delay no other tenant.
    pub(crate) fn holds_few_slots(&self, tenant: &TenantId) -> bool {
        self.leases.tenant_slots().free_of_tenant(tenant, self.env.options.max_action_leases() / FEW) > 0
    }

    /// Reserves slots for leases that are about to be requested, by tenant. Tenants whose quota leaves fewer
    /// are added to `barred`.
    pub(crate) fn reserve_tenant_slots(
        &self,
        wanted: BTreeMap<&TenantId, usize>,
        barred: &mut BTreeSet<TenantId>,
    ) -> Vec<TenantSlotReservation> {
        let mut all = Vec::with_capacity(wanted.len());
        for (tenant, wanted) in wanted {
            match self.leases.tenant_slots().reserve_all(tenant, wanted, self.slot_quota(tenant)) {
                Some(aside) => all.push(aside),
                None => drop(barred.insert(tenant.clone())),
            }
        }
        all
    }

    /// Hands leased actions over to the performers. `asked` is the instant before the lease was requested.
    pub(crate) fn start_actions(
        &self,
        leased: Vec<LeasedAction>,
        reserved: &mut ReservedSlots,
        asked: Instant,
    ) {
        for action in leased {
            self.start_action(action, reserved.take_slot(), asked);
        }
    }

    /// Never blocks: the channel has capacity for as many actions as there are slots. An action without a
    /// receiver is dropped, and its lease runs out.
    pub(crate) fn start_action(&self, action: LeasedAction, mut slot: WorkSlot, asked: Instant) {
        let (lease, length) = (action.lease.clone(), self.env.options.lease);
        let mut held = self.leases.hold_lease(lease, asked, length, action.heartbeat, lease_owner(&action));
        if let WorkSlot::Node(slot) = &mut slot {
            held.waits_for_place(slot.take_wait());
        }
        let tenant = action.lease.key.execution.tenant.clone();
        if let Err(error) = self.hand_over.try_send((tenant, LeasedWork { action, held, slot })) {
            tracing::warn!(error = %error, "leased action cannot be performed by this worker");
        }
    }
}
