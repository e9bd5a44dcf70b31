//! Shared state of all loops of one worker. It runs nothing itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millstream_core::entropy;
use millstream_core::id::{EventId, TenantId};
use millstream_core::placement::Queue;
use millstream_core::sweep;
use millstream_core::time::Timestamp;
use millstream_rpc::client;
use millstream_rpc::evaluation_pool::EvaluationPool;
use millstream_store::execution_store::LeaseGrant;
use millstream_store::running::Rosters;
use millstream_stream::doorbell::FullTenants;
use millstream_stream::locks::LockToken;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::alarm::Alarm;
use crate::deps::Deps;
use crate::due_tenants::{DueOwner, DueTenants, QueueOwner, crowding_tenants};
use crate::duties::graph_times::EndedGraphs;
use crate::error::WorkerError;
use crate::executors::Executors;
use crate::options::WorkerOptions;
use crate::outage::Outage;
use crate::perform::dispatches::{Dispatches, Wish};
use crate::perform::inputs::Inputs;
use crate::perform::leases::Leases;
use crate::perform::node_slots::NodeSlots;
use crate::perform::slots::Slots;
use crate::perform::tenant_slots::SlotsAside;
use crate::perform::{Errand, PerformNodes, Performers};
use crate::programs::Programs;
use crate::quotas::WorkerQuotas;
use crate::settle::Unsettled;
use crate::states::States;

#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) deps: Deps,
    pub(crate) options: WorkerOptions,
    /// The queues that it can perform, of all tenants.
    queues: Arc<[Queue]>,
    pub(crate) programs: Programs,
    /// For visits with expensive expressions.
    pub(crate) evaluations: EvaluationPool,
    pub(crate) states: States,
    /// For leased actions.
    pub(crate) slots: Slots,
    /// For leased nodes.
    pub(crate) node_slots: NodeSlots,
    /// For actions performed at the same time.
    pub(crate) performing: Semaphore,
    pub(crate) leases: Leases,
    pub(crate) unsettled: Unsettled,
    /// Wakes the leasing of actions.
    pub(crate) hunger: Alarm,
    /// Tenants with due actions.
    pub(crate) due_tenants: DueTenants,
    /// Wakes the leasing of nodes.
    pub(crate) node_hunger: Alarm,
    pub(crate) performers: Performers,
    pub(crate) executors: Executors,
    pub(crate) dispatches: Dispatches,
    pub(crate) inputs: Inputs,
    pub(crate) ended_graphs: EndedGraphs,
    /// Client of executors.
    pub(crate) nodes: Arc<dyn PerformNodes>,
    /// Due times of the timers that this worker armed.
    pub(crate) timers: Alarm,
    /// Reading and acknowledging.
    pub(crate) stream_outage: Outage,
    /// Ringing: a full Redis server still serves reads and refuses writes.
    pub(crate) ring_outage: Outage,
    pub(crate) lock_outage: Outage,
    /// Ends with a successful write.
    pub(crate) store_outage: Outage,
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
    pub(crate) rosters: Rosters,
    /// Tenant quotas.
    pub(crate) quotas: WorkerQuotas,
    generation: Mutex<Option<String>>,
    queue: Mutex<sweep::Queue>,
}

/// Inputs of the worker's loops.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) errands: mpsc::Receiver<(TenantId, Errand)>,
    pub(crate) wishes: mpsc::Receiver<Wish>,
}

/// At most `1 / FEW` of the slots counts as few.
const FEW: usize = 8;

impl Worker {
    pub(crate) fn new(
        deps: Deps,
        options: WorkerOptions,
        stop: CancellationToken,
    ) -> Result<(Arc<Self>, Work), WorkerError> {
        // Every errand holds a slot, so the number of slots bounds them.
        let (hand_over, errands) = mpsc::channel(options.all_leases());
        let performers = Performers::new(deps.http.clone(), deps.calls.clone(), &options.http, hand_over)?;
        let calls = deps.calls.iter().flat_map(|calls| calls.names());
        let queues = std::iter::once(Queue::engine()).chain(calls.map(|name| Queue::call(&name))).collect();
        let (dispatches, wishes) = Dispatches::new(options.node_slots);
        let nodes = deps.nodes.clone().unwrap_or_else(|| {
            let policy = options.executor_networks.clone();
            let private_roots = options.http.private_roots.clone();
            Arc::new(client::Executors::new(client::Options {
                policy,
                private_roots,
                ..client::Options::default()
            }))
        });
        let worker = Self {
            queues,
            programs: Programs::compiled_at(options.evaluation_place),
            evaluations: EvaluationPool::new(options.decision_patience, options.evaluation_place),
            states: States::with_capacity(options.state_cache_bytes),
            slots: Slots::new(options.leases(), options.spare_leases()),
            node_slots: NodeSlots::new(options.node_slots),
            performing: Semaphore::new(options.action_slots),
            leases: Leases::default(),
            unsettled: Unsettled::within(options.leases()),
            hunger: Alarm::default(),
            due_tenants: DueTenants::default(),
            node_hunger: Alarm::default(),
            performers,
            executors: Executors::new(&options.executors),
            quotas: WorkerQuotas::of(options.quotas.clone()),
            dispatches,
            inputs: Inputs::default(),
            ended_graphs: EndedGraphs::default(),
            nodes,
            timers: Alarm::default(),
            stream_outage: Outage::of("the stream"),
            ring_outage: Outage::of("ringing"),
            lock_outage: Outage::of("the lock service"),
            store_outage: Outage::of("the store"),
            amnesia: Notify::new(),
            full_tenants: FullTenants::default(),
            stop,
            halt: CancellationToken::new(),
            visits: AtomicU64::new(0),
            choices: AtomicU64::new(0),
            rosters: Rosters::default(),
            generation: Mutex::new(None),
            queue: Mutex::default(),
            deps,
            options,
        };
        Ok((Arc::new(worker), Work { errands, wishes }))
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.deps.clock.now()
    }

    /// A request to lease up to `slots` actions that this worker can perform.
    pub(crate) fn grant(&self, slots: usize) -> LeaseGrant {
        LeaseGrant { slots, ttl: self.options.lease, queues: Arc::clone(&self.queues) }
    }

    /// The same for actions of these owners.
    pub(crate) fn grant_of(&self, owners: &[DueOwner], slots: usize) -> LeaseGrant {
        let queues = owners.iter().flat_map(|due| match &due.owner {
            QueueOwner::AllTenants => self.queues.to_vec(),
            QueueOwner::Tenant(tenant) => self.queues_of(tenant),
        });
        LeaseGrant { queues: queues.collect(), ..self.grant(slots) }
    }

    /// The same for actions of these tenants, without barred ones.
    pub(crate) fn grant_except<'a>(
        &self,
        barred: &BTreeSet<TenantId>,
        tenants: impl Iterator<Item = &'a TenantId>,
    ) -> LeaseGrant {
        let tenants: BTreeSet<&TenantId> = tenants.filter(|tenant| !barred.contains(*tenant)).collect();
        let queues = tenants.into_iter().flat_map(|tenant| self.queues_of(tenant)).collect();
        LeaseGrant { queues, ..self.grant(0) }
    }

    fn queues_of(&self, tenant: &TenantId) -> Vec<Queue> {
        self.queues.iter().filter_map(|queue| queue.of_tenant(tenant)).collect()
    }

    /// Number of queues per owner.
    pub(crate) fn queues_per_owner(&self) -> usize {
        self.queues.len()
    }

    /// The action queues that this worker performs and that have open actions.
    pub(crate) fn open_queues(&self) -> Vec<Queue> {
        let open = self.due_tenants.open_queues();
        self.queues.iter().cloned().chain(open).collect()
    }

    pub(crate) fn can_perform(&self, queue: &Queue) -> bool {
        // Every worker serves the queues of the engine: most actions cost no further look.
        queue.is_of_the_engine() || queue.for_all_tenants().is_some_and(|all| self.queues.contains(&all))
    }

    /// Records that actions of this tenant may be due now.
    pub(crate) fn hear_of_actions(&self, tenant: &TenantId) {
        self.due_tenants.hear(tenant);
        self.hunger.set(Instant::now());
    }

    /// Tenants whose actions are not leased for now: over their fair share of the slots while others, below
    /// theirs, have due actions; or at their quota.
    pub(crate) fn barred_tenants(&self) -> BTreeSet<TenantId> {
        let due = self.due_tenants.tenants();
        if due.is_empty() {
            return BTreeSet::new();
        }
        let held = self.leases.tenants().held_by_tenant();
        let mut barred = crowding_tenants(&due, &held, self.options.leases());
        barred.extend(due.into_iter().filter(|tenant| self.slot_room(tenant) == 0));
        barred
    }

    /// Number of slots that the tenant's actions may hold here.
    pub(crate) fn slot_quota(&self, tenant: &TenantId) -> usize {
        self.quotas.action_slots(tenant, self.options.action_slots)
    }

    /// Number of further slots that they may take.
    pub(crate) fn slot_room(&self, tenant: &TenantId) -> usize {
        self.leases.tenants().room(tenant, self.slot_quota(tenant))
    }

    /// Whether the tenant's actions hold so few slots that they delay no other tenant.
    pub(crate) fn holds_few_slots(&self, tenant: &TenantId) -> bool {
        self.leases.tenants().holds_fewer_than(tenant, self.options.leases() / FEW)
    }

    /// Reserves slots for leases that are about to be requested, by tenant. Tenants whose quota leaves fewer
    /// are added to `barred`.
    pub(crate) fn set_slots_aside(
        &self,
        wanted: BTreeMap<&TenantId, usize>,
        barred: &mut BTreeSet<TenantId>,
    ) -> Vec<SlotsAside> {
        let mut all = Vec::with_capacity(wanted.len());
        for (tenant, wanted) in wanted {
            match self.leases.tenants().set_aside_all(tenant, wanted, self.slot_quota(tenant)) {
                Some(aside) => all.push(aside),
                None => drop(barred.insert(tenant.clone())),
            }
        }
        all
    }

    pub(crate) fn event_id(&self) -> EventId {
        entropy::event_id(self.now(), &*self.deps.entropy)
    }

    /// A random number in `0.0..1.0`.
    pub(crate) fn unit(&self) -> f64 {
        entropy::unit(&*self.deps.entropy)
    }

    /// Jitter: three quarters to five quarters of `length`, so that workers do not act in step.
    pub(crate) fn around(&self, length: Duration) -> Duration {
        length.mul_f64(0.75 + self.unit() / 2.0)
    }

    /// Unique per visit: the worker's id is unique per start.
    pub(crate) fn lock_token(&self) -> LockToken {
        LockToken(format!("{}/{}", self.options.worker, self.visits.fetch_add(1, Ordering::Relaxed)))
    }

    /// The monotonic instant of a store time, computed from now.
    pub(crate) fn instant_of(&self, time: Timestamp) -> Instant {
        Instant::now() + time.since(self.now())
    }

    /// Queueing time of doorbells, measured by this worker's decisions.
    pub(crate) fn queue(&self) -> MutexGuard<'_, sweep::Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all undecided executions were rung since this stream generation began, as far as this worker
    /// knows.
    pub(crate) fn swept_generation(&self, generation: &str) -> bool {
        let known = self.generation.lock().unwrap_or_else(PoisonError::into_inner);
        known.as_deref() == Some(generation)
    }

    pub(crate) fn remember_generation(&self, generation: String) {
        *self.generation.lock().unwrap_or_else(PoisonError::into_inner) = Some(generation);
    }
}
