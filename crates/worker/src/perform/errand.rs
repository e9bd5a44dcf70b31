//! A leased action with its lease and slot, and the dispatcher over the kinds of actions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millstream_core::action::{ActionError, Attempt, ErrorClass};
use millstream_core::assignment::Told;
use millstream_core::definition::{ActionSpec, Method, StatusPattern};
use millstream_core::id::{Name, TenantId};
use millstream_core::machine::{ActionInput, CallInput, HttpInput};
use millstream_core::quota::QuotaRefusal;
use millstream_core::raw::RawJson;
use millstream_core::sealed::{self, Filled, Holes, MissingSecret};
use millstream_core::time::Timestamp;
use millstream_store::action_store::LeasedAction;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::call::{Call, PerformCalls};
use super::http::HttpPerformer;
use super::leases::{Held, Whose};
use super::outcome::internal;
use super::slots::Slot;
use super::{device, emit, family, log, node, noop, start, task_for, wait, webhook};
use crate::error::WorkerError;
use crate::options::HttpOptions;
use crate::quota_rows::pause_at_quota;
use crate::worker::Worker;

#[derive(Debug)]
pub(crate) struct Errand {
    pub(crate) action: LeasedAction,
    pub(crate) held: Held,
    pub(crate) slot: Slot,
}

impl Errand {
    /// `asked` is the instant before the lease was requested.
    pub(crate) fn new(worker: &Worker, action: LeasedAction, mut slot: Slot, asked: Instant) -> Self {
        let whose = if action.definition.name == Name::graph() { Whose::Graph } else { Whose::Machine };
        let (lease, length) = (action.lease.clone(), worker.options.lease);
        let mut held = worker.leases.hold(lease, asked, length, action.heartbeat, whose);
        if let Slot::Node(slot) = &mut slot {
            held.waits_for_place(slot.waits());
        }
        Self { action, held, slot }
    }
}

/// Dispatcher: the queue of leased actions, and one performer per kind of action.
#[derive(Debug)]
pub(crate) struct Performers {
    hand_over: mpsc::Sender<(TenantId, Errand)>,
    http: Arc<dyn PerformHttp>,
    calls: Option<Arc<dyn PerformCalls>>,
}

/// Outcome of performing.
#[derive(Debug)]
pub(crate) enum Done {
    Attempt(Attempt),
    /// A people item that had ended before.
    Told(Box<Told>),
    /// Not due yet.
    Postponed {
        at: Timestamp,
    },
    /// The tenant is at a quota: retried later, and the attempt is not counted.
    OverQuota {
        at: Timestamp,
        refusal: QuotaRefusal,
    },
    /// Another party will report the outcome; given up at `until`.
    Awaiting {
        until: Option<Timestamp>,
    },
    /// An external worker had it and its lease has ended.
    Lost,
}

impl Done {
    /// For an action over a quota.
    pub(super) fn over_quota(worker: &Worker, action: &LeasedAction, refusal: QuotaRefusal) -> Self {
        let now = worker.now();
        let pause = pause_at_quota(now.since(action.ready_at), refusal.retry_after);
        Self::OverQuota { at: now.plus(worker.around(pause)), refusal }
    }
}

/// Identity of an attempt, sent besides its input.
#[derive(Debug)]
pub struct Credentials {
    pub idempotency_key: String,
    pub fencing_token: i64,
    pub traceparent: String,
}

/// An outgoing request, secrets filled in. Not to be logged.
#[derive(Clone)]
pub struct HttpRequest {
    pub method: Method,
    pub url: String,
    /// Names in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Option<RawJson>,
    /// The statuses that succeed; empty: 2xx.
    pub expect: Vec<StatusPattern>,
    pub max_response: Option<usize>,
    pub sealed: Sealed,
    /// Time of sending, by the store's clock.
    pub at: Timestamp,
}

/// The parts of a request that hold a secret and stay with the origin for which they are meant.
#[derive(Debug, Clone, Default)]
pub struct Sealed {
    pub headers: BTreeSet<String>,
    pub body: SealedBody,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SealedBody {
    #[default]
    Open,
    Sealed,
}

impl SealedBody {
    pub(crate) fn of(holes: &Holes) -> Self {
        if holes.is_empty() { Self::Open } else { Self::Sealed }
    }
}

impl std::fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpRequest").field("method", &self.method).finish_non_exhaustive()
    }
}

/// Sends the request of one attempt and returns its outcome.
///
/// The future may be dropped at any await: the lease was lost, or the action's time is up. The request may
/// have been carried out all the same.
#[async_trait::async_trait]
pub trait PerformHttp: Send + Sync + std::fmt::Debug {
    async fn perform(&self, request: &HttpRequest, credentials: &Credentials) -> Attempt;
}

impl Performers {
    pub(crate) fn new(
        http: Option<Arc<dyn PerformHttp>>,
        calls: Option<Arc<dyn PerformCalls>>,
        options: &HttpOptions,
        hand_over: mpsc::Sender<(TenantId, Errand)>,
    ) -> Result<Self, WorkerError> {
        let http = match http {
            Some(http) => http,
            None => Arc::new(HttpPerformer::new(options)?),
        };
        Ok(Self { hand_over, http, calls })
    }

    /// Never blocks: the channel has capacity for as many actions as there are slots. An action without a
    /// receiver is dropped, and its lease runs out.
    pub(crate) fn hand_over(&self, errand: Errand) {
        let tenant = errand.action.lease.key.execution.tenant.clone();
        if let Err(error) = self.hand_over.try_send((tenant, errand)) {
            tracing::warn!(error = %error, "leased action cannot be performed by this worker");
        }
    }

    #[expect(clippy::too_many_arguments, reason = "everything that an attempt has")]
    pub(crate) async fn perform(
        &self,
        worker: &Worker,
        spec: &ActionSpec,
        action: &LeasedAction,
        held: &Held,
        input: ActionInput,
        credentials: &Credentials,
        filled: &Arc<Filled>,
        deadline: Instant,
    ) -> Done {
        Done::Attempt(match input {
            ActionInput::Http(input) => match outgoing(&input, filled, worker.now()) {
                Ok(request) => self.http.perform(&request, credentials).await,
                Err(missing) => unfilled(&missing),
            },
            ActionInput::Webhook(input) => {
                match webhook::request(&input, filled, &credentials.idempotency_key, worker.now()) {
                    Ok(request) => self.http.perform(&request, credentials).await,
                    Err(missing) => unfilled(&missing),
                }
            }
            ActionInput::Log(text) => log::perform(&action.lease.key, &text),
            ActionInput::Noop(value) => noop::perform(value),
            ActionInput::Call(input) => self.call(action, held, &input, credentials, filled, deadline).await,
            ActionInput::Emit(input) => emit::perform(worker, action, input, credentials).await,
            ActionInput::Start(input) => {
                return start::perform(worker, action, input, credentials, &spec.timeouts).await;
            }
            ActionInput::Wait(input) => return wait::perform(input, worker.now()),
            ActionInput::Return(input) => return family::tell_parent(worker, action, &input).await,
            ActionInput::CloseChildren => family::close_children(worker, action).await,
            ActionInput::Node(input) => {
                return node::perform(worker, action, held, input, credentials).await;
            }
            ActionInput::Device(input) => {
                return device::perform(worker, action, &input, &spec.timeouts).await;
            }
            ActionInput::TaskFor(input) => {
                return task_for::perform(worker, action, &input, &spec.timeouts).await;
            }
            // Only external workers perform these.
            ActionInput::Task(_) => return Done::Lost,
        })
    }

    /// The schedule of the action is missed: withdraws what it began.
    pub(crate) async fn give_up(&self, worker: &Worker, action: &LeasedAction) {
        start::give_up(worker, action).await;
        device::give_up(worker, action).await;
        task_for::give_up(worker, action).await;
    }

    async fn call(
        &self,
        action: &LeasedAction,
        held: &Held,
        input: &CallInput,
        credentials: &Credentials,
        filled: &Arc<Filled>,
        deadline: Instant,
    ) -> Attempt {
        let Some(calls) = &self.calls else {
            let message = format!("this worker has no function {:?}", input.function.as_str());
            return Attempt::Transient { error: internal(message), retry_after: None };
        };
        let full = match sealed::fill(&input.input, &input.secrets, filled) {
            Ok(full) => full,
            Err(missing) => return unfilled(&missing),
        };
        let call = Call {
            name: input.function.clone(),
            key: credentials.idempotency_key.clone(),
            action: action.lease.key.clone(),
            attempt: action.attempt,
            token: action.lease.epoch.0,
            deadline,
            input: full,
            progress: action.progress.clone(),
            pulse: held.pulse().keeping(Arc::clone(filled)),
        };
        calls.perform(call).await
    }
}

fn outgoing(input: &HttpInput, filled: &Filled, now: Timestamp) -> Result<HttpRequest, MissingSecret> {
    let headers = input.headers.iter().map(|(name, phrase)| Ok((name.clone(), phrase.fill(filled)?)));
    Ok(HttpRequest {
        method: input.method,
        url: input.url.fill(filled)?,
        headers: headers.collect::<Result<_, _>>()?,
        body: match &input.body {
            Some(body) => Some(sealed::fill(body, &input.body_secrets, filled)?),
            None => None,
        },
        expect: input.expect.clone(),
        max_response: input.max_response,
        sealed: Sealed {
            headers: input
                .headers
                .iter()
                .filter(|(_, phrase)| phrase.secrets().next().is_some())
                .map(|(name, _)| name.clone())
                .collect(),
            body: SealedBody::of(&input.body_secrets),
        },
        at: now,
    })
}

fn unfilled(missing: &MissingSecret) -> Attempt {
    let error = ActionError { class: ErrorClass::Secret, message: missing.to_string(), status: None };
    Attempt::Transient { error, retry_after: None }
}
