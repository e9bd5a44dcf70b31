//! An ingress over a memory store and an embedded stream, and a small worker that decides accepted events.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Request, StatusCode};
use axum::middleware::map_request;
use millstream_ingress::{AuthMode, IngressDeps, IngressLifecycle, IngressOptions, build_router};
use millstream_model::document::SourceFormat;
use millstream_model::entropy::Entropy;
use millstream_model::id::{ActionKey, ExecutionId, ExecutionKey, TenantId, WorkerId};
use millstream_model::network_policy::NetworkPolicy;
use millstream_model::status::{ActionStatus, EventStatus, Role};
use millstream_model::time::Timestamp;
use millstream_store::Stores;
use millstream_store::action_store::FailureHandling;
use millstream_store::clock::{Clock, StoreClock};
use millstream_store::execution_store::{
    ActionRelation, DecidedEvent, EventVerdict, ExecutionCommit, LeaseGrant, LoadRequest, LoadVerdict,
    MailboxLimits, NewAction, OpenActions, SnapshotWrite,
};
use millstream_store::key_store::NewKey;
use millstream_store_memory::MemoryStore;
use millstream_stream::StreamHandles;
use millstream_stream::announcement::Announcement;
use millstream_stream::embedded::EmbeddedStream;
use millstream_workflow::definition_parser::parse;
use millstream_workflow::lease_policy::LeasePolicy;
use millstream_workflow::log::{ActionPlan, EventOutcome, Transition};
use millstream_workflow::machine::{Machine, decide_mailbox};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// Two states, a guard, a timer, a deferral; no actions.
pub(crate) const ORDER: &str = r#"
name: order
initial: received
context: { total: 10 }
states:
  received:
    on:
      pay: { to: paid, set: { paid: event.payload.amount } }
      note: {}
    defer: [ship]
    after: [ { in: 1h, send: expire } ]
  paid: { on: { ship: { to: shipped }, expire: { to: shipped } } }
  shipped: { final: true }
"#;

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Entropy for Counter {
    fn next_u64(&self) -> u64 {
        u64::MAX - self.0.fetch_add(1, Ordering::Relaxed)
    }
}

pub(crate) struct Bench {
    pub(crate) app: Router,
    pub(crate) stores: Stores,
    pub(crate) streams: StreamHandles,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) draining: CancellationToken,
}

pub(crate) fn open_options() -> IngressOptions {
    IngressOptions {
        auth: AuthMode::OpenOnLoopback,
        sync_wait: Duration::from_secs(20),
        reread: Duration::from_millis(50),
        executor_networks: NetworkPolicy::allowing_networks(vec!["127.0.0.0/8".parse().unwrap()]),
        ..IngressOptions::default()
    }
}

impl Bench {
    pub(crate) fn open() -> Self {
        Self::with(open_options(), |stores, streams| (stores, streams))
    }

    /// An ingress with other options, on stores and streams that `change` may wrap.
    pub(crate) fn with(
        options: IngressOptions,
        change: impl FnOnce(Stores, StreamHandles) -> (Stores, StreamHandles),
    ) -> Self {
        let deps = deps();
        let (stores, streams) = change(deps.stores.clone(), deps.streams.clone());
        let clock = deps.clock.clone();
        let draining = CancellationToken::new();
        let deps = IngressDeps { stores: stores.clone(), streams: streams.clone(), ..deps };
        let app = build_router(deps, options, &IngressLifecycle::until_drained(draining.clone()))
            .layer(map_request(name_host));
        Self { app, stores, streams, clock, draining }
    }

    pub(crate) async fn with_order() -> Self {
        let bench = Self::open();
        bench.put_order().await;
        bench
    }

    pub(crate) async fn put_order(&self) {
        let answer = self.send(yaml("/v1/definitions", ORDER)).await;
        assert!(answer.status.is_success(), "{answer:?}");
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        Answer::of(self.app.clone().oneshot(request).await.unwrap()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(get(path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(post(path, body)).await
    }

    /// Starts an order with this id.
    pub(crate) async fn start(&self, id: &str) -> Answer {
        let answer = self.post("/v1/executions", &json!({"definition": "order", "execution_id": id})).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        answer
    }

    pub(crate) async fn key(&self, secret: &str, tenant: &str, role: Role) {
        let hash = Sha256::digest(secret.as_bytes()).into();
        let name = format!("{tenant}-{role}");
        // An operator belongs to no tenant; a key with the role work is bound to a person.
        let key = NewKey {
            bound_to: (role == Role::Work).then(|| "ann".to_owned()),
            ..NewKey::for_tenant(TenantId::parse(tenant).unwrap(), name, role, hash)
        };
        assert!(self.stores.keys.create_key(&key, self.clock.now()).await.unwrap());
    }

    /// Decides every undecided event of an execution and announces it.
    pub(crate) async fn decide(&self, id: &str) {
        decide(&self.stores, &self.streams, &*self.clock, id).await;
    }
}

/// Sends well-formed requests only. Malformed ones are sent over a socket.
async fn name_host(mut request: Request<Body>) -> Request<Body> {
    if request.uri().authority().is_none() {
        let host = request.headers_mut().entry("host");
        host.or_insert_with(|| HeaderValue::from_static("localhost"));
    }
    request
}

pub(crate) fn deps() -> IngressDeps {
    let since_epoch = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let entropy = Arc::new(Counter::default());
    IngressDeps {
        stores: Stores::from_backend(MemoryStore::new()),
        streams: StreamHandles::from_backend(EmbeddedStream::new(&*entropy)),
        clock: Arc::new(StoreClock::starting_at(Timestamp::EPOCH.plus(since_epoch))),
        entropy,
        metrics: Arc::new(|| "millstream_up 1\n".to_owned()),
    }
}

pub(crate) fn key(id: &str) -> ExecutionKey {
    ExecutionKey { tenant: TenantId::default_tenant(), execution: ExecutionId::parse(id).unwrap() }
}

pub(crate) async fn decide(stores: &Stores, streams: &StreamHandles, clock: &dyn Clock, id: &str) {
    let wanted = LoadRequest { execution: key(id), known: None };
    let loaded = stores.executions.load_executions(&[wanted], MailboxLimits::default()).await.unwrap().pop();
    let Some(LoadVerdict::Found(loaded)) = loaded else { panic!("{id} was not found") };
    let definition = &loaded.definition;
    let tenant = TenantId::default_tenant();
    let stored =
        stores.definitions.get_definition(&tenant, &definition.name, Some(definition.version)).await.unwrap();
    let machine = Machine::compile(parse(&stored.unwrap().source, SourceFormat::Json).unwrap()).unwrap();
    let (state, _) = loaded.state.unwrap();
    let before = state.state.clone();
    let turn = decide_mailbox(&machine, state, &loaded.mailbox, loaded.pause, clock.now());
    let mut transitions = Vec::new();
    let mut decided = Vec::new();
    let mut actions = Vec::new();
    for (event_id, outcome) in turn.outcomes {
        let verdict = match outcome {
            EventOutcome::Applied(applied) => {
                let (seq, decision) = (applied.transition.seq, applied.transition.decision.clone());
                let status =
                    if applied.actions.is_empty() { EventStatus::Completed } else { EventStatus::Processing };
                actions.extend(applied.actions.into_iter().map(|planned| NewAction {
                    terms:
                        machine.action_spec(&planned.name).map_or_else(LeasePolicy::engine_for_all, |spec| {
                            LeasePolicy::of_action(spec, &TenantId::default_tenant())
                        }),
                    undoes: None,
                    incident: None,
                    key: ActionKey { execution: key(id), seq, action: planned.name },
                    event_id,
                    traceparent: None,
                    ordinal: planned.ordinal,
                    needs: planned.needs,
                    status: match planned.plan {
                        ActionPlan::Waiting { .. } => ActionStatus::Waiting,
                        ActionPlan::Standby { .. } => ActionStatus::Standby,
                        ActionPlan::Inline { .. } | ActionPlan::Ready { .. } | ActionPlan::Broken { .. } => {
                            ActionStatus::Ready
                        }
                    },
                    scope: match &planned.plan {
                        ActionPlan::Waiting { scope } | ActionPlan::Standby { scope } => Some(scope.clone()),
                        ActionPlan::Inline { .. } | ActionPlan::Ready { .. } | ActionPlan::Broken { .. } => {
                            None
                        }
                    },
                    input: match planned.plan {
                        ActionPlan::Inline { input, .. } | ActionPlan::Ready { input } => Some(input),
                        ActionPlan::Waiting { .. }
                        | ActionPlan::Standby { .. }
                        | ActionPlan::Broken { .. } => None,
                    },
                    result: None,
                    error: None,
                    handling: FailureHandling::Unhandled,
                    company: ActionRelation::Together,
                }));
                transitions.push(applied.transition);
                EventVerdict::Applied { seq, from: decision.from, to: decision.to, status, error: None }
            }
            EventOutcome::Rejected { reason } => EventVerdict::Rejected { state: before.clone(), reason },
            EventOutcome::Deferred => EventVerdict::Deferred,
        };
        let accept_no = loaded.mailbox.iter().find(|event| event.event_id == event_id).unwrap().accept_no;
        decided.push(DecidedEvent { event_id, accept_no, verdict });
    }
    let by_request = transitions.last().is_some_and(|last: &Transition| last.name.is_end());
    let open_actions = if by_request { OpenActions::Cancel } else { OpenActions::Keep };
    let armed = transitions.iter().flat_map(|transition| transition.decision.timers.clone());
    let armed = armed.filter(|timer| timer.armed_seq == turn.state.entered_seq).collect();
    let commit = ExecutionCommit {
        execution: key(id),
        definition: loaded.definition.clone(),
        expected: loaded.seq,
        snapshot: SnapshotWrite::Write,
        transitions,
        decided,
        timers: armed,
        cancelled_timers: Vec::new(),
        actions,
        emitted: Vec::new(),
        open_actions,
        state: turn.state.clone(),
        graph: None,
    };
    let worker = WorkerId::parse("bench").unwrap();
    let lease = LeaseGrant {
        slots: 0,
        ttl: Duration::from_secs(15),
        queues: [millstream_model::action_queue::ActionQueue::engine_for_all()].into(),
    };
    stores.executions.commit_executions(&worker, &[commit], &lease, clock.now()).await.unwrap();
    let news = Announcement { execution: key(id), seq: turn.state.seq, event: None };
    streams.announcer.announce_commits(&[news]).await.unwrap();
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) async fn of(response: axum::response::Response) -> Self {
        let (parts, body) = response.into_parts();
        let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        Self { status: parts.status, headers: parts.headers, text: String::from_utf8(bytes.into()).unwrap() }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Asserts a problem document with this status and kind.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, kind: &str) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), "application/problem+json", "{self:?}");
        let document = self.json();
        assert_eq!(document["type"], format!("urn:millstream:problem:{kind}"), "{self:?}");
        assert_eq!(document["status"], status);
        assert!(document["title"].is_string() && document["detail"].is_string(), "{self:?}");
        assert!(document["instance"].as_str().unwrap().starts_with("urn:millstream:request:"), "{self:?}");
        document
    }
}

pub(crate) fn get(path: &str) -> Request<Body> {
    Request::get(path).body(Body::empty()).unwrap()
}

pub(crate) fn post(path: &str, body: &Value) -> Request<Body> {
    with_type(path, "application/json", body.to_string())
}

pub(crate) fn yaml(path: &str, body: &str) -> Request<Body> {
    with_type(path, "application/yaml", body.to_owned())
}

pub(crate) fn with_type(path: &str, media: &str, body: impl Into<Body>) -> Request<Body> {
    Request::post(path).header("content-type", media).body(body.into()).unwrap()
}

/// The same request with one more header.
pub(crate) fn header(mut request: Request<Body>, name: &'static str, value: &str) -> Request<Body> {
    request.headers_mut().append(name, value.parse().unwrap());
    request
}
