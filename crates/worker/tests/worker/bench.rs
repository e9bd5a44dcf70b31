//! Test fixture: a store, a stream, some workers, and the vocabulary of the tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use millstream_model::document::SourceFormat;
use millstream_model::entropy::{self, Entropy};
use millstream_model::id::{EventId, ExecutionId, ExecutionKey, Name, Seq, TenantId, WorkerId};
use millstream_model::raw::RawJson;
use millstream_model::status::{EventStatus, ExecutionStatus};
use millstream_model::time::Timestamp;
use millstream_store::Stores;
use millstream_store::clock::{Clock, StoreClock};
use millstream_store::definition_store::NewDefinition;
use millstream_store::event_log::{AppendRequest, Appended, EventSubmission, ExecutionStart};
use millstream_store::views::{EventView, ExecutionView, HistoryEntry};
use millstream_store_memory::MemoryStore;
use millstream_stream::doorbell::Doorbell;
use millstream_stream::{EmbeddedStream, StreamHandles};
use millstream_testkit::eventually;
use millstream_testkit::eventually::PATIENCE;
use millstream_worker::outbound::Sink;
use millstream_worker::{PerformNodes, WorkerDeps, WorkerFailure, WorkerOptions, run_worker};
use millstream_workflow::definition_parser;
use millstream_workflow::log::EventOrigin;
use millstream_workflow::machine::{self, Machine};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) struct WorkerBench {
    pub(crate) stores: Stores,
    pub(crate) streams: StreamHandles,
    pub(crate) clock: Arc<StoreClock>,
    pub(crate) entropy: Arc<SeededEntropy>,
    pub(crate) sinks: Vec<Arc<dyn Sink>>,
    workers: AtomicU64,
}

/// SplitMix64 from a fixed seed.
#[derive(Debug)]
pub(crate) struct SeededEntropy(AtomicU64);

impl From<u64> for SeededEntropy {
    fn from(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }
}

impl Entropy for SeededEntropy {
    fn next_u64(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// A worker that runs until it is stopped; dropping it crashes it without a shutdown.
pub(crate) struct BenchWorker {
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), WorkerFailure>>,
}

impl BenchWorker {
    /// Like SIGTERM.
    pub(crate) async fn drain(mut self) {
        self.shutdown.cancel();
        let ended = tokio::time::timeout(PATIENCE, &mut self.task).await.expect("the drain ends");
        ended.expect("the worker does not panic").expect("the worker ends well");
    }

    /// Like kill -9.
    pub(crate) async fn kill(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

impl Drop for BenchWorker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl WorkerBench {
    pub(crate) fn new() -> Self {
        let since_epoch = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
        let clock = Arc::new(StoreClock::starting_at(Timestamp::EPOCH.plus(since_epoch)));
        let entropy = Arc::new(SeededEntropy(AtomicU64::new(7)));
        let memory = MemoryStore::with_clock(clock.clone());
        let stream = EmbeddedStream::new(&*entropy);
        Self {
            stores: Stores::from_backend(memory),
            streams: StreamHandles::from_backend(stream),
            clock,
            entropy,
            sinks: Vec::new(),
            workers: AtomicU64::new(0),
        }
    }

    pub(crate) fn options(&self) -> WorkerOptions {
        let number = self.workers.fetch_add(1, Ordering::Relaxed);
        WorkerOptions {
            block: Duration::from_millis(20),
            tick: Duration::from_millis(100),
            http: millstream_worker::HttpOptions {
                allow: vec!["127.0.0.0/8".parse().unwrap()],
                ..Default::default()
            },
            ..WorkerOptions::for_worker(WorkerId::parse(format!("w{number}")).unwrap())
        }
    }

    /// Repairs within a fraction of a second.
    pub(crate) fn hasty(&self) -> WorkerOptions {
        WorkerOptions {
            lease: Duration::from_millis(300),
            lock_ttl: Duration::from_millis(150),
            reclaim_idle: Duration::from_millis(300),
            overdue: Duration::from_millis(200),
            ..self.options()
        }
    }

    pub(crate) fn worker(&self) -> BenchWorker {
        self.worker_with(self.options())
    }

    pub(crate) fn worker_with(&self, options: WorkerOptions) -> BenchWorker {
        self.worker_on(self.stores.clone(), self.streams.clone(), options)
    }

    pub(crate) fn worker_on(
        &self,
        stores: Stores,
        streams: StreamHandles,
        options: WorkerOptions,
    ) -> BenchWorker {
        self.start_worker(stores, streams, options, None)
    }

    /// A worker whose executors are a function.
    pub(crate) fn worker_performing(
        &self,
        nodes: Arc<dyn PerformNodes>,
        options: WorkerOptions,
    ) -> BenchWorker {
        self.start_worker(self.stores.clone(), self.streams.clone(), options, Some(nodes))
    }

    /// The same on a store that may fail.
    pub(crate) fn worker_performing_on(
        &self,
        stores: Stores,
        nodes: Arc<dyn PerformNodes>,
        options: WorkerOptions,
    ) -> BenchWorker {
        self.start_worker(stores, self.streams.clone(), options, Some(nodes))
    }

    fn start_worker(
        &self,
        stores: Stores,
        streams: StreamHandles,
        options: WorkerOptions,
        nodes: Option<Arc<dyn PerformNodes>>,
    ) -> BenchWorker {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (clock, entropy) = (self.clock.clone(), self.entropy.clone());
        let deps = WorkerDeps {
            stores,
            streams,
            clock,
            entropy,
            http: None,
            calls: None,
            secrets: None,
            nodes,
            sinks: self.sinks.clone(),
        };
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(run_worker(deps, options, shutdown.clone()));
        BenchWorker { shutdown, task }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn event_id(&self) -> EventId {
        entropy::event_id(self.now(), &*self.entropy)
    }

    /// Stores a definition written in YAML.
    pub(crate) async fn define(&self, yaml: &str) {
        self.define_for(&TenantId::default_tenant(), yaml).await;
    }

    pub(crate) async fn define_for(&self, tenant: &TenantId, yaml: &str) {
        let definition = definition_parser::parse(yaml, SourceFormat::Yaml).expect("a valid definition");
        let new = NewDefinition {
            name: definition.name().clone(),
            dialect: 1,
            source: definition.canonical_json(),
            checksum: definition.checksum(),
        };
        self.stores.definitions.put_definition(tenant, &new, self.now()).await.unwrap();
    }

    /// Starts an execution of the latest version.
    pub(crate) async fn start(&self, definition: &str, id: &str) -> ExecutionKey {
        self.start_key(definition, key(id)).await
    }

    pub(crate) async fn start_key(&self, definition: &str, key: ExecutionKey) -> ExecutionKey {
        let tenant = key.tenant.clone();
        let name = Name::parse(definition).unwrap();
        let stored =
            self.stores.definitions.get_definition(&tenant, &name, None).await.unwrap().expect("defined");
        let parsed = definition_parser::parse(&stored.source, SourceFormat::Json).unwrap();
        let compiled = Machine::compile(parsed).unwrap();
        let start = self.new_event(&key, "millstream.start", "null");
        let (applied, state) =
            machine::create_execution(&compiled, start.event_id, &RawJson::null(), self.now()).unwrap();
        let new = ExecutionStart {
            key: key.clone(),
            definition: stored.definition,
            input_hash: [0; 32],
            start,
            applied,
            state,
            events: Vec::new(),
            graph: None,
        };
        let appended =
            self.stores.events.append(&[AppendRequest::Start(Box::new(new))], self.now()).await.unwrap();
        assert!(matches!(appended[..], [Appended::Accepted { .. }]), "{appended:?}");
        key
    }

    fn new_event(&self, key: &ExecutionKey, name: &str, payload: &str) -> EventSubmission {
        EventSubmission {
            event_id: self.event_id(),
            execution: key.clone(),
            name: Name::parse(name).unwrap(),
            payload: RawJson::parse(payload).unwrap(),
            origin: EventOrigin::Posted,
            idempotency: None,
            actor: None,
            traceparent: None,
        }
    }

    /// Makes an event durable without a doorbell.
    pub(crate) async fn post(&self, key: &ExecutionKey, name: &str, payload: &str) -> EventId {
        let event = self.new_event(key, name, payload);
        let event_id = event.event_id;
        let appended = self.stores.events.append(&[AppendRequest::Event(event)], self.now()).await.unwrap();
        assert!(matches!(appended[..], [Appended::Accepted { .. }]), "{appended:?}");
        event_id
    }

    pub(crate) async fn ring(&self, key: &ExecutionKey) {
        self.streams.bells.publish_bells(&[Doorbell::Mailbox(key.clone())]).await.unwrap();
    }

    /// Posts and rings, as an ingress does.
    pub(crate) async fn send(&self, key: &ExecutionKey, name: &str, payload: &str) -> EventId {
        let event_id = self.post(key, name, payload).await;
        self.ring(key).await;
        event_id
    }

    pub(crate) async fn execution(&self, key: &ExecutionKey) -> ExecutionView {
        let found = self.stores.execution_views.find_executions(std::slice::from_ref(key)).await.unwrap();
        found.into_iter().next().flatten().expect("the execution")
    }

    pub(crate) async fn event(&self, event_id: EventId) -> EventView {
        let wanted = [(TenantId::default_tenant(), event_id)];
        self.stores.event_views.find_events(&wanted).await.unwrap().remove(0).expect("the event")
    }

    pub(crate) async fn history(&self, key: &ExecutionKey) -> Vec<HistoryEntry> {
        self.stores.execution_views.read_history(key, Seq(0), 10_000).await.unwrap().entries
    }

    /// The names of the events in the log after the start.
    pub(crate) async fn applied(&self, key: &ExecutionKey) -> Vec<String> {
        self.history(key).await.iter().skip(1).map(|entry| entry.transition.name.to_string()).collect()
    }

    pub(crate) async fn until_event(&self, event_id: EventId, status: EventStatus) -> EventView {
        eventually(PATIENCE, || async {
            let event = self.event(event_id).await;
            if event.status == status { Ok(event) } else { Err(event) }
        })
        .await
    }

    pub(crate) async fn until_state(&self, key: &ExecutionKey, state: &str) -> ExecutionView {
        eventually(PATIENCE, || async {
            let execution = self.execution(key).await;
            if execution.state.state.as_str() == state { Ok(execution) } else { Err(execution) }
        })
        .await
    }

    pub(crate) async fn until_status(&self, key: &ExecutionKey, status: ExecutionStatus) -> ExecutionView {
        eventually(PATIENCE, || async {
            let execution = self.execution(key).await;
            if execution.status == status { Ok(execution) } else { Err(execution) }
        })
        .await
    }

    /// The stream holds no doorbell, read or unread.
    pub(crate) async fn until_quiet(&self) {
        eventually(PATIENCE, || async {
            let stats = self.streams.care.lane_stats().await.unwrap();
            let busy: Vec<_> = stats.into_iter().filter(|lane| lane.length + lane.pending > 0).collect();
            if busy.is_empty() { Ok(()) } else { Err(busy) }
        })
        .await;
    }

    /// No event is undecided and no action is open.
    pub(crate) async fn until_done(&self) {
        eventually(PATIENCE, || async {
            let backlog = self.stores.event_views.count_backlog().await.unwrap();
            if backlog.undecided + backlog.open_actions == 0 { Ok(()) } else { Err(backlog) }
        })
        .await;
    }

    /// The log of an execution has no gap and no duplicate event, and folds to the stored state.
    pub(crate) async fn assert_sound(&self, key: &ExecutionKey) {
        let history = self.history(key).await;
        let seqs: Vec<i64> = history.iter().map(|entry| entry.transition.seq.0).collect();
        assert_eq!(seqs, (1..=seqs.len() as i64).collect::<Vec<_>>(), "gaps in the log of {key}");
        let mut events: Vec<EventId> = history.iter().map(|entry| entry.transition.event_id).collect();
        events.sort();
        events.dedup();
        assert_eq!(events.len(), history.len(), "an event was applied twice to {key}");
        let replayed = millstream_worker::replay::replay_execution(
            &self.stores,
            key,
            millstream_worker::replay::ReplayUntil::End,
        )
        .await
        .unwrap();
        assert_eq!(replayed.mismatches, []);
    }
}

pub(crate) fn key(id: &str) -> ExecutionKey {
    ExecutionKey { tenant: TenantId::default_tenant(), execution: ExecutionId::parse(id).unwrap() }
}

/// Counts its events, and records them in order.
pub(crate) const COUNTER: &str = "
name: counter
initial: counting
context: { total: 0, last: -1, ordered: true }
states:
  counting:
    on:
      add: { set: { total: context.total + 1, ordered: context.ordered && event.payload.n == context.last + 1, last: event.payload.n } }
      stop: { to: stopped }
  stopped: { final: true }
";
