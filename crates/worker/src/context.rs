//! Shared state of all loops of one worker. It runs nothing itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millstream_model::action_queue::ActionQueue;
use millstream_model::id::{EventId, TenantId};
use millstream_model::time::Timestamp;
use millstream_model::{entropy, overdue_sweep};
use millstream_rpc::client;
use millstream_rpc::evaluation_pool::EvaluationPool;
use millstream_store::execution_store::LeaseGrant;
use millstream_store::run_service::RosterCache;
use millstream_stream::doorbell::FullTenants;
use millstream_stream::locks::LockToken;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::alarm::Alarm;
use crate::deps::WorkerDeps;
use crate::due_tenants::{DueOwner, DueTenants, QueueOwner, crowding_tenants};
use crate::duties::graph_times::EndedGraphs;
use crate::error::WorkerFailure;
use crate::executors::ExecutorTable;
use crate::options::WorkerOptions;
use crate::outage::OutageLog;
use crate::perform::action_slots::ActionSlots;
use crate::perform::dispatch_recorder::{DispatchRecorder, DispatchRequest};
use crate::perform::graph_inputs::GraphInputCache;
use crate::perform::leases::HeldLeases;
use crate::perform::node_slots::NodeSlots;
use crate::perform::tenant_slots::TenantSlotReservation;
use crate::perform::{ActionRunner, LeasedWork, PerformNodes};
use crate::program_cache::ProgramCache;
use crate::quotas::WorkerQuotas;
use crate::settle::SettleBacklog;
use crate::state_cache::StateCache;

#[derive(Debug)]
pub(crate) struct WorkerContext {
    pub(crate) deps: WorkerDeps,
    pub(crate) options: WorkerOptions,
    /// The queues that it can perform, of all tenants.
    queues: Arc<[ActionQueue]>,
    pub(crate) programs: ProgramCache,
    /// For visits with expensive expressions.
    pub(crate) evaluations: EvaluationPool,
    pub(crate) states: StateCache,
    /// For leased actions.
    pub(crate) slots: ActionSlots,
    /// For leased nodes.
    pub(crate) node_slots: NodeSlots,
    /// For actions performed at the same time.
    pub(crate) performing: Semaphore,
    pub(crate) leases: HeldLeases,
    pub(crate) unsettled: SettleBacklog,
    /// Wakes the leasing of actions.
    pub(crate) hunger: Alarm,
    /// Tenants with due actions.
    pub(crate) due_tenants: DueTenants,
    /// Wakes the leasing of nodes.
    pub(crate) node_hunger: Alarm,
    pub(crate) performers: ActionRunner,
    pub(crate) executors: ExecutorTable,
    pub(crate) dispatches: DispatchRecorder,
    pub(crate) inputs: GraphInputCache,
    pub(crate) ended_graphs: EndedGraphs,
    /// Client of executors.
    pub(crate) nodes: Arc<dyn PerformNodes>,
    /// Due times of the timers that this worker armed.
    pub(crate) timers: Alarm,
    /// Reading and acknowledging.
    pub(crate) stream_outage: OutageLog,
    /// Ringing: a full Redis server still serves reads and refuses writes.
    pub(crate) ring_outage: OutageLog,
    pub(crate) lock_outage: OutageLog,
    /// Ends with a successful write.
    pub(crate) store_outage: OutageLog,
    /// The reader found the consumer group missing.
    pub(crate) amnesia: Notify,
    /// Tenants with enough held doorbells.
    pub(crate) full_tenants: FullTenants,
    /// Stop taking on work.
    pub(crate) stop: CancellationToken,
    /// Stop performing: the drain deadline is exceeded.
    pub(crate) halt: CancellationToken,
    visits: AtomicU64,
    /// Number of devices chosen so far: the tie-break between equals.
    pub(crate) choices: AtomicU64,
    pub(crate) rosters: RosterCache,
    /// Tenant quotas.
    pub(crate) quotas: WorkerQuotas,
    generation: Mutex<Option<String>>,
    queue: Mutex<overdue_sweep::DoorbellDelays>,
}

/// Inputs of the worker's loops.
#[derive(Debug)]
pub(crate) struct WorkerInputs {
    pub(crate) errands: mpsc::Receiver<(TenantId, LeasedWork)>,
    pub(crate) wishes: mpsc::Receiver<DispatchRequest>,
}

/// At most `1 / FEW` of the slots counts as few.
const FEW: usize = 8;

impl WorkerContext {
    pub(crate) fn new(
        deps: WorkerDeps,
        options: WorkerOptions,
        stop: CancellationToken,
    ) -> Result<(Arc<Self>, WorkerInputs), WorkerFailure> {
        // Every errand holds a slot, so the number of slots bounds them.
        let (hand_over, errands) = mpsc::channel(options.max_leases());
        let performers = ActionRunner::new(deps.http.clone(), deps.calls.clone(), &options.http, hand_over)?;
        let calls = deps.calls.iter().flat_map(|calls| calls.action_names());
        let queues = std::iter::once(ActionQueue::engine_for_all())
            .chain(calls.map(|name| ActionQueue::call_for_all(&name)))
            .collect();
        let (dispatches, wishes) = DispatchRecorder::new(options.node_slots);
        let nodes = deps.nodes.clone().unwrap_or_else(|| {
            let policy = options.executor_networks.clone();
            let private_roots = options.http.private_roots.clone();
            Arc::new(client::ExecutorClients::new(client::ExecutorClientOptions {
                policy,
                private_roots,
                ..client::ExecutorClientOptions::default()
            }))
        });
        let worker = Self {
            queues,
            programs: ProgramCache::compiled_at(options.evaluation_place),
            evaluations: EvaluationPool::new(options.decision_patience, options.evaluation_place),
            states: StateCache::with_capacity(options.state_cache_bytes),
            slots: ActionSlots::new(options.max_action_leases(), options.spare_leases()),
            node_slots: NodeSlots::new(options.node_slots),
            performing: Semaphore::new(options.action_slots),
            leases: HeldLeases::default(),
            unsettled: SettleBacklog::for_slots(options.max_action_leases()),
            hunger: Alarm::default(),
            due_tenants: DueTenants::default(),
            node_hunger: Alarm::default(),
            performers,
            executors: ExecutorTable::new(&options.executors),
            quotas: WorkerQuotas::from_settings(options.quotas.clone()),
            dispatches,
            inputs: GraphInputCache::default(),
            ended_graphs: EndedGraphs::default(),
            nodes,
            timers: Alarm::default(),
            stream_outage: OutageLog::of_service("the stream"),
            ring_outage: OutageLog::of_service("ringing"),
            lock_outage: OutageLog::of_service("the lock service"),
            store_outage: OutageLog::of_service("the store"),
            amnesia: Notify::new(),
            full_tenants: FullTenants::default(),
            stop,
            halt: CancellationToken::new(),
            visits: AtomicU64::new(0),
            choices: AtomicU64::new(0),
            rosters: RosterCache::default(),
            generation: Mutex::new(None),
            queue: Mutex::default(),
            deps,
            options,
        };
        Ok((Arc::new(worker), WorkerInputs { errands, wishes }))
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.deps.clock.now()
    }

    /// A request to lease up to `slots` actions that this worker can perform.
    pub(crate) fn lease_grant(&self, slots: usize) -> LeaseGrant {
        LeaseGrant { slots, ttl: self.options.lease, queues: Arc::clone(&self.queues) }
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
        self.hunger.set_instant(Instant::now());
    }

    /// Tenants whose actions are not leased for now: over their fair share of the slots while others, below
    /// theirs, have due actions; or at their quota.
    pub(crate) fn barred_tenants(&self) -> BTreeSet<TenantId> {
        let due = self.due_tenants.due_tenants();
        if due.is_empty() {
            return BTreeSet::new();
        }
        let held = self.leases.tenant_slots().held_by_tenant();
        let mut barred = crowding_tenants(&due, &held, self.options.max_action_leases());
        barred.extend(due.into_iter().filter(|tenant| self.free_slot_quota(tenant) == 0));
        barred
    }

    /// Number of slots that the tenant's actions may hold here.
    pub(crate) fn slot_quota(&self, tenant: &TenantId) -> usize {
        self.quotas.action_slots(tenant, self.options.action_slots)
    }

    /// Number of further slots that they may take.
    pub(crate) fn free_slot_quota(&self, tenant: &TenantId) -> usize {
        self.leases.tenant_slots().free_of_tenant(tenant, self.slot_quota(tenant))
    }

    /// Whether the tenant's actions hold so few slots that they delay no other tenant.
    pub(crate) fn holds_few_slots(&self, tenant: &TenantId) -> bool {
        self.leases.tenant_slots().free_of_tenant(tenant, self.options.max_action_leases() / FEW) > 0
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

    pub(crate) fn new_event_id(&self) -> EventId {
        entropy::event_id(self.now(), &*self.deps.entropy)
    }

    /// A random number in `0.0..1.0`.
    pub(crate) fn random_unit(&self) -> f64 {
        entropy::random_unit(&*self.deps.entropy)
    }

    /// Jitter: three quarters to five quarters of `length`, so that workers do not act in step.
    pub(crate) fn jittered(&self, length: Duration) -> Duration {
        length.mul_f64(0.75 + self.random_unit() / 2.0)
    }

    /// Unique per visit: the worker's id is unique per start.
    pub(crate) fn new_lock_token(&self) -> LockToken {
        LockToken(format!("{}/{}", self.options.worker, self.visits.fetch_add(1, Ordering::Relaxed)))
    }

    /// The monotonic instant of a store time, computed from now.
    pub(crate) fn instant_of(&self, time: Timestamp) -> Instant {
        Instant::now() + time.since(self.now())
    }

    /// Queueing time of doorbells, measured by this worker's decisions.
    pub(crate) fn lock_queueing_times(&self) -> MutexGuard<'_, overdue_sweep::DoorbellDelays> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all undecided executions were rung since this stream generation began, as far as this worker
    /// knows.
    pub(crate) fn has_swept_generation(&self, generation: &str) -> bool {
        let known = self.generation.lock().unwrap_or_else(PoisonError::into_inner);
        known.as_deref() == Some(generation)
    }

    pub(crate) fn remember_generation(&self, generation: String) {
        *self.generation.lock().unwrap_or_else(PoisonError::into_inner) = Some(generation);
    }
}
