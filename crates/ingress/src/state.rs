//! Composition of the ingress: starts the components that live as long as it does, and holds what the
//! handlers use.

use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use millstream_model::entropy::Entropy;
use millstream_model::id::{DefinitionRef, EventId, ExecutionKey, TenantId, WorkerId};
use millstream_store::clock::Clock;
use millstream_store::event_log::EventLog;
use millstream_store::views::{EventView, EventViews};
use millstream_store::{StoreResult, Stores};
use millstream_stream::StreamHandles;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::accept::EventAcceptor;
use crate::admission::AdmissionControl;
use crate::auth::{CallAuthenticator, KeyLookup, attend_keys};
use crate::body_budget::BodyBudget;
use crate::clock;
use crate::coalescer::Coalescer;
use crate::definition_cache::DefinitionCache;
use crate::devices::batcher::DeviceBatcher;
use crate::devices::{DeviceDeps, DeviceEnvironment};
use crate::gate::RequestGate;
use crate::graphs::GraphDeps;
use crate::metrics_page::{MetricsPage, RenderMetrics};
use crate::options::IngressOptions;
use crate::people::batcher::PeopleBatcher;
use crate::quotas::{self, TenantQuotas};
use crate::readiness::{LastCheck, ReadinessProbe};
use crate::ring::DoorbellRinger;
use crate::submit::SubmitDeps;
use crate::tasks::TaskDeps;
use crate::tasks::board::WorkerBoard;
use crate::tasks::handed_out_tasks::HandedOutTasks;
use crate::tasks::report::{SettleNotifier, TaskBatcher};
use crate::wait::WaitDeps;
use crate::waiters::WaiterRegistry;

/// Dependencies of the ingress; the app supplies them.
#[derive(Clone)]
pub struct IngressDeps {
    pub stores: Stores,
    pub streams: StreamHandles,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub metrics: RenderMetrics,
}

impl std::fmt::Debug for IngressDeps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deps").finish_non_exhaustive()
    }
}

/// What the handlers of both transports use. The services below take the parts that they need.
pub(crate) struct IngressState {
    pub(crate) stores: Stores,
    pub(crate) streams: StreamHandles,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) metrics_page: MetricsPage,
    pub(crate) options: IngressOptions,
    /// The listen addresses, as a `Host` header writes them.
    pub(crate) listen: Vec<String>,
    /// Cancelled when the process is asked to stop: readiness turns red, waits and tails end.
    pub(crate) draining: CancellationToken,
    pub(crate) auth: CallAuthenticator,
    pub(crate) admission: Arc<AdmissionControl>,
    pub(crate) bodies: BodyBudget,
    /// Quotas of each tenant.
    pub(crate) quotas: Arc<TenantQuotas>,
    pub(crate) accept: EventAcceptor,
    pub(crate) ring: DoorbellRinger,
    pub(crate) news: WaiterRegistry,
    pub(crate) machines: Arc<DefinitionCache>,
    pub(crate) submit: Arc<SubmitDeps>,
    pub(crate) waits: Arc<WaitDeps>,
    /// Tasks for external workers.
    pub(crate) tasks: TaskDeps,
    pub(crate) graphs: Arc<GraphDeps>,
    /// Devices and their runs.
    pub(crate) devices: Arc<DeviceDeps>,
    /// People and their work items.
    pub(crate) desk: PeopleBatcher,
    pub(crate) readiness: ReadinessProbe,
    /// The OpenAPI document, rendered on first use.
    pub(crate) document: LazyLock<Bytes>,
}

/// Life cycle of the ingress: drain, end, and the tasks that are awaited.
#[derive(Debug, Clone)]
pub struct IngressLifecycle {
    /// Cancelled by the process when it is asked to stop.
    pub draining: CancellationToken,
    /// Cancelled when every accepted event is committed: the ringer and the listener end.
    closing: CancellationToken,
    /// Ends when no request is left that could submit events.
    commits: TaskTracker,
    tasks: TaskTracker,
}

/// Timeout of the last commits, and then of the last doorbells.
const LAST_WORDS: Duration = Duration::from_secs(5);

impl IngressLifecycle {
    pub fn until_drained(draining: CancellationToken) -> Self {
        Self {
            draining,
            closing: CancellationToken::new(),
            commits: TaskTracker::new(),
            tasks: TaskTracker::new(),
        }
    }

    /// Waits for the tasks of the ingress to end. All its routers must be dropped before.
    pub async fn end_tasks(&self) {
        self.commits.close();
        if tokio::time::timeout(LAST_WORDS, self.commits.wait()).await.is_err() {
            tracing::warn!("the last commits did not finish before the shutdown deadline");
        }
        self.closing.cancel();
        self.tasks.close();
        if tokio::time::timeout(LAST_WORDS, self.tasks.wait()).await.is_err() {
            tracing::warn!("the last doorbells were not rung before the shutdown deadline");
        }
    }
}

impl IngressState {
    pub(crate) fn open_ingress(
        deps: IngressDeps,
        options: IngressOptions,
        listen: &[SocketAddr],
        life: &IngressLifecycle,
        render_document: fn() -> Bytes,
    ) -> Arc<Self> {
        let IngressDeps { stores, streams, clock, entropy, metrics } = deps;
        let ring = DoorbellRinger::start_ringer(
            streams.bells.clone(),
            options.limits.unrung,
            life.closing.clone(),
            &life.tasks,
        );
        let accept = EventAcceptor::start_dispatcher(
            stores.events.clone(),
            clock.clone(),
            ring.clone(),
            &options,
            &life.commits,
        );
        let news =
            WaiterRegistry::start_listening(streams.announcer.clone(), life.closing.clone(), &life.tasks);
        let me = ingress_worker_id(&*entropy);
        let quotas =
            Arc::new(TenantQuotas::of(stores.quotas.clone(), options.quotas.clone(), &options.limits));
        life.tasks.spawn(quotas::refresh_quotas(quotas.clone(), life.closing.clone()));
        let board = WorkerBoard::start_board(
            stores.clone(),
            clock.clone(),
            news.work.clone(),
            quotas.clone(),
            life.closing.clone(),
            &life.tasks,
        );
        let told = SettleNotifier {
            ring: ring.clone(),
            announcer: streams.announcer.clone(),
            work: news.work.clone(),
        };
        let reports =
            Arc::new(TaskBatcher::start_batchers(&stores, &clock, me.clone(), told.clone(), &life.tasks));
        let machines = Arc::new(DefinitionCache::of(
            Coalescer::start_coalescer(definition_query(stores.events.clone()), &life.tasks),
            stores.definitions.clone(),
            options.evaluation_place,
        ));
        let desk = PeopleBatcher::start_batchers(
            &stores,
            (&clock, &entropy),
            (me, &machines),
            told.clone(),
            &life.tasks,
        );
        life.tasks.spawn(clock::follow_store_clock(
            stores.housekeeping.clone(),
            clock.clone(),
            life.closing.clone(),
        ));
        let keys = Arc::new(KeyLookup::of(stores.keys.clone(), clock.clone(), options.key_ttl));
        life.tasks.spawn(attend_keys(keys.clone(), life.closing.clone()));
        let admission = Arc::new(AdmissionControl {
            gate: RequestGate::of(&options.limits),
            quotas: quotas.clone(),
            execution_views: stores.execution_views.clone(),
        });
        let submit = Arc::new(SubmitDeps {
            events: stores.events.clone(),
            machines: machines.clone(),
            clock: clock.clone(),
            entropy: entropy.clone(),
        });
        let waits = Arc::new(WaitDeps {
            admission: admission.clone(),
            outcomes: Coalescer::start_coalescer(event_query(stores.event_views.clone()), &life.tasks),
            news: news.clone(),
            draining: life.draining.clone(),
            reread: options.reread,
        });
        let devices = DeviceEnvironment {
            stores: stores.clone(),
            clock: clock.clone(),
            entropy: entropy.clone(),
            weights: options.devices.weights,
            machines: machines.clone(),
            reports: reports.clone(),
            told,
            ears: news.devices.clone(),
            tellers: life.tasks.clone(),
            rosters: Arc::default(),
            choices: AtomicU64::default(),
        };
        Arc::new(Self {
            tasks: TaskDeps {
                board,
                handed: HandedOutTasks::default(),
                reports: reports.clone(),
                actions: stores.actions.clone(),
                machines: machines.clone(),
                clock: clock.clone(),
                entropy: entropy.clone(),
            },
            graphs: Arc::new(GraphDeps {
                stores: stores.clone(),
                accept: accept.clone(),
                admission: admission.clone(),
                submit: submit.clone(),
                waits: waits.clone(),
                news: news.clone(),
                machines: machines.clone(),
                reports,
                clock: clock.clone(),
                entropy: entropy.clone(),
                draining: life.draining.clone(),
                reread: options.reread,
            }),
            devices: Arc::new(DeviceDeps {
                fleet: DeviceBatcher::start_batchers(devices, &life.tasks),
                devices: stores.devices.clone(),
                admission: admission.clone(),
                clock: clock.clone(),
                entropy: entropy.clone(),
                draining: life.draining.clone(),
            }),
            readiness: ReadinessProbe {
                draining: life.draining.clone(),
                writes: accept.writes.clone(),
                housekeeping: stores.housekeeping.clone(),
                care: streams.care.clone(),
                last: LastCheck::default(),
            },
            auth: CallAuthenticator { keys, mode: options.auth },
            bodies: BodyBudget::of(options.limits.body_bytes_in_flight, quotas.clone()),
            document: LazyLock::new(render_document),
            draining: life.draining.clone(),
            metrics_page: MetricsPage::of(metrics),
            listen: listen.iter().map(ToString::to_string).collect(),
            admission,
            quotas,
            machines,
            submit,
            waits,
            desk,
            stores,
            streams,
            clock,
            entropy,
            options,
            accept,
            ring,
            news,
        })
    }
}

/// The worker id under which the store records reports of external workers through this ingress.
fn ingress_worker_id(entropy: &dyn Entropy) -> WorkerId {
    #[expect(clippy::expect_used, reason = "hexadecimal digits and a word")]
    WorkerId::parse(format!("door-{:016x}", entropy.next_u64())).expect("a valid id")
}

/// The future of a batched query.
type BatchedAnswers<V> = BoxFuture<'static, StoreResult<Vec<V>>>;

fn definition_query(
    log: Arc<dyn EventLog>,
) -> impl Fn(Vec<ExecutionKey>) -> BatchedAnswers<Option<DefinitionRef>> {
    move |keys| {
        let log = log.clone();
        async move { log.find_definitions(&keys).await }.boxed()
    }
}

fn event_query(
    views: Arc<dyn EventViews>,
) -> impl Fn(Vec<(TenantId, EventId)>) -> BatchedAnswers<Option<EventView>> {
    move |keys| {
        let views = views.clone();
        async move { views.find_events(&keys).await }.boxed()
    }
}
