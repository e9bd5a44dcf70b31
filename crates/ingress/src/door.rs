//! Shared state of all handlers: stores, streams, and the components that live as long as the ingress.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use millstream_core::entropy::Entropy;
use millstream_core::id::{DefinitionRef, EventId, ExecutionKey, TenantId, WorkerId};
use millstream_store::clock::Clock;
use millstream_store::event_log::EventLog;
use millstream_store::views::{EventView, EventViews};
use millstream_store::{Result, Stores};
use millstream_stream::Streams;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::accept::Accept;
use crate::auth::{KeyLookup, attend_keys};
use crate::body::Budget;
use crate::devices::fleet::Fleet;
use crate::gate::Gate;
use crate::http::health::Readiness;
use crate::lookup::Lookup;
use crate::machines::Machines;
use crate::metrics_page::{MetricsPage, RenderMetrics};
use crate::news::News;
use crate::options::IngressOptions;
use crate::people::desk::Desk;
use crate::quotas::{self, TenantQuotas};
use crate::ring::Ring;
use crate::tasks::board::Board;
use crate::tasks::handed::Handed;
use crate::tasks::report::{Reports, Told};
use crate::{clock, openapi};

/// Dependencies of the ingress; the app supplies them.
#[derive(Clone)]
pub struct Deps {
    pub stores: Stores,
    pub streams: Streams,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub metrics: RenderMetrics,
}

impl std::fmt::Debug for Deps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deps").finish_non_exhaustive()
    }
}

pub(crate) struct Door {
    pub(crate) stores: Stores,
    pub(crate) streams: Streams,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) metrics_page: MetricsPage,
    pub(crate) options: IngressOptions,
    /// The listen addresses, as a `Host` header writes them.
    pub(crate) listen: Vec<String>,
    /// Cancelled when the process is asked to stop: readiness turns red, waits and tails end.
    pub(crate) draining: CancellationToken,
    pub(crate) accept: Accept,
    pub(crate) ring: Ring,
    pub(crate) news: News,
    pub(crate) machines: Arc<Machines>,
    /// External workers that wait for tasks.
    pub(crate) board: Board,
    /// Tasks that external workers hold.
    pub(crate) handed: Handed,
    /// Reports of external workers about their tasks.
    pub(crate) reports: Reports,
    /// Notifies executions and waiting workers of settled outcomes.
    pub(crate) told: Told,
    /// Devices and their runs.
    pub(crate) fleet: Fleet,
    /// People and their work items.
    pub(crate) desk: Desk,
    /// Event outcomes for waiting callers.
    pub(crate) outcomes: Lookup<(TenantId, EventId), Option<EventView>>,
    pub(crate) keys: Arc<KeyLookup>,
    pub(crate) gate: Gate,
    pub(crate) bodies: Budget,
    /// Quotas of each tenant.
    pub(crate) quotas: Arc<TenantQuotas>,
    pub(crate) readiness: Readiness,
    /// The OpenAPI document, rendered on first use.
    pub(crate) document: LazyLock<Bytes>,
}

/// Life cycle of the ingress: drain, end, and the tasks that are awaited.
#[derive(Debug, Clone)]
pub struct Life {
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

impl Life {
    pub fn until(draining: CancellationToken) -> Self {
        Self {
            draining,
            closing: CancellationToken::new(),
            commits: TaskTracker::new(),
            tasks: TaskTracker::new(),
        }
    }

    /// Waits for the tasks of the ingress to end. All its routers must be dropped before.
    pub async fn end(&self) {
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

impl Door {
    pub(crate) fn open(deps: Deps, options: IngressOptions, listen: &[SocketAddr], life: &Life) -> Arc<Self> {
        let Deps { stores, streams, clock, entropy, metrics } = deps;
        let ring =
            Ring::start(streams.bells.clone(), options.limits.unrung, life.closing.clone(), &life.tasks);
        let accept =
            Accept::start(stores.events.clone(), clock.clone(), ring.clone(), &options, &life.commits);
        let news = News::start(streams.announcer.clone(), life.closing.clone(), &life.tasks);
        let me = door_id(&*entropy);
        let quotas =
            Arc::new(TenantQuotas::of(stores.quotas.clone(), options.quotas.clone(), &options.limits));
        life.tasks.spawn(quotas::follow(quotas.clone(), life.closing.clone()));
        let board = Board::start(
            stores.clone(),
            clock.clone(),
            news.work.clone(),
            quotas.clone(),
            life.closing.clone(),
            &life.tasks,
        );
        let told = Told { ring: ring.clone(), announcer: streams.announcer.clone(), work: news.work.clone() };
        let reports = Reports::start(&stores, &clock, me.clone(), told.clone(), &life.tasks);
        let machines = Arc::new(Machines::of(
            Lookup::start(definitions_of(stores.events.clone()), &life.tasks),
            stores.definitions.clone(),
            options.evaluation_place,
        ));
        let desk = Desk::start(&stores, (&clock, &entropy), (me, &machines), told.clone(), &life.tasks);
        life.tasks.spawn(clock::follow(stores.housekeeping.clone(), clock.clone(), life.closing.clone()));
        let keys = Arc::new(KeyLookup::of(stores.keys.clone(), clock.clone(), options.key_ttl));
        life.tasks.spawn(attend_keys(keys.clone(), life.closing.clone()));
        Arc::new_cyclic(|door| Self {
            fleet: Fleet::start(&stores, &clock, news.devices.clone(), door.clone(), &life.tasks),
            machines,
            outcomes: Lookup::start(events_in(stores.event_views.clone()), &life.tasks),
            board,
            handed: Handed::default(),
            reports,
            told,
            desk,
            keys,
            gate: Gate::of(&options.limits),
            bodies: Budget::of(options.limits.body_bytes_in_flight, quotas.clone()),
            quotas,
            readiness: Readiness::default(),
            document: LazyLock::new(|| openapi::document().to_string().into()),
            draining: life.draining.clone(),
            metrics_page: MetricsPage::of(metrics),
            stores,
            streams,
            clock,
            entropy,
            options,
            listen: listen.iter().map(ToString::to_string).collect(),
            accept,
            ring,
            news,
        })
    }
}

/// The worker id under which the store records reports of external workers through this ingress.
fn door_id(entropy: &dyn Entropy) -> WorkerId {
    #[expect(clippy::expect_used, reason = "hexadecimal digits and a word")]
    WorkerId::parse(format!("door-{:016x}", entropy.next_u64())).expect("a valid id")
}

/// The future of a batched query.
type Answers<V> = BoxFuture<'static, Result<Vec<V>>>;

fn definitions_of(log: Arc<dyn EventLog>) -> impl Fn(Vec<ExecutionKey>) -> Answers<Option<DefinitionRef>> {
    move |keys| {
        let log = log.clone();
        async move { log.targets(&keys).await }.boxed()
    }
}

fn events_in(views: Arc<dyn EventViews>) -> impl Fn(Vec<(TenantId, EventId)>) -> Answers<Option<EventView>> {
    move |keys| {
        let views = views.clone();
        async move { views.events(&keys).await }.boxed()
    }
}
