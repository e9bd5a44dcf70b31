//! A leased action with its lease and slot, and the dispatcher over the kinds of actions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millstream_model::attempt::{ActionFailure, AttemptOutcome};
use millstream_model::error_class::ErrorClass;
use millstream_model::id::{Name, TenantId};
use millstream_model::quota::QuotaRefusal;
use millstream_model::raw::RawJson;
use millstream_model::secrets::{self, MissingSecret, SecretHoles, SecretValues};
use millstream_model::time::Timestamp;
use millstream_people::assignment::ItemOutcome;
use millstream_store::action_store::LeasedAction;
use millstream_workflow::definition::{ActionSpec, HttpMethod, StatusPattern};
use millstream_workflow::machine::{ActionInput, CallInput, HttpInput};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::action_slots::WorkSlot;
use super::call::{ActionCall, PerformCalls};
use super::http::HttpPerformer;
use super::leases::{HeldLease, LeaseOwner};
use super::outcome::internal_error;
use super::{device, emit, log, node, noop, parent_child, start, task_for, wait, webhook};
use crate::context::WorkerContext;
use crate::error::WorkerFailure;
use crate::options::HttpOptions;
use crate::quota_rows::pause_at_quota;

#[derive(Debug)]
pub(crate) struct LeasedWork {
    pub(crate) action: LeasedAction,
    pub(crate) held: HeldLease,
    pub(crate) slot: WorkSlot,
}

impl LeasedWork {
    /// `asked` is the instant before the lease was requested.
    pub(crate) fn new(
        worker: &WorkerContext,
        action: LeasedAction,
        mut slot: WorkSlot,
        asked: Instant,
    ) -> Self {
        let whose =
            if action.definition.name == Name::graph() { LeaseOwner::Graph } else { LeaseOwner::Machine };
        let (lease, length) = (action.lease.clone(), worker.options.lease);
        let mut held = worker.leases.hold_lease(lease, asked, length, action.heartbeat, whose);
        if let WorkSlot::Node(slot) = &mut slot {
            held.waits_for_place(slot.take_wait());
        }
        Self { action, held, slot }
    }
}

/// Dispatcher: the queue of leased actions, and one performer per kind of action.
#[derive(Debug)]
pub(crate) struct ActionRunner {
    hand_over: mpsc::Sender<(TenantId, LeasedWork)>,
    http: Arc<dyn PerformHttp>,
    calls: Option<Arc<dyn PerformCalls>>,
}

/// Outcome of performing.
#[derive(Debug)]
pub(crate) enum PerformOutcome {
    Attempt(AttemptOutcome),
    /// A people item that had ended before.
    Told(Box<ItemOutcome>),
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

impl PerformOutcome {
    /// For an action over a quota.
    pub(super) fn over_quota(worker: &WorkerContext, action: &LeasedAction, refusal: QuotaRefusal) -> Self {
        let now = worker.now();
        let pause = pause_at_quota(now.since(action.ready_at), refusal.retry_after);
        Self::OverQuota { at: now.plus(worker.jittered(pause)), refusal }
    }
}

/// Identity of an attempt, sent besides its input.
#[derive(Debug)]
pub struct AttemptCredentials {
    pub idempotency_key: String,
    pub fencing_token: i64,
    pub traceparent: String,
}

/// An outgoing request, secrets filled in. Not to be logged.
#[derive(Clone)]
pub struct HttpRequest {
    pub method: HttpMethod,
    pub url: String,
    /// Names in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Option<RawJson>,
    /// The statuses that succeed; empty: 2xx.
    pub expect: Vec<StatusPattern>,
    pub max_response: Option<usize>,
    pub sealed: SealedParts,
    /// Time of sending, by the store's clock.
    pub at: Timestamp,
}

/// The parts of a request that hold a secret and stay with the origin for which they are meant.
#[derive(Debug, Clone, Default)]
pub struct SealedParts {
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
    pub(crate) fn of_holes(holes: &SecretHoles) -> Self {
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
    async fn send_request(&self, request: &HttpRequest, credentials: &AttemptCredentials) -> AttemptOutcome;
}

impl ActionRunner {
    pub(crate) fn new(
        http: Option<Arc<dyn PerformHttp>>,
        calls: Option<Arc<dyn PerformCalls>>,
        options: &HttpOptions,
        hand_over: mpsc::Sender<(TenantId, LeasedWork)>,
    ) -> Result<Self, WorkerFailure> {
        let http = match http {
            Some(http) => http,
            None => Arc::new(HttpPerformer::new(options)?),
        };
        Ok(Self { hand_over, http, calls })
    }

    /// Never blocks: the channel has capacity for as many actions as there are slots. An action without a
    /// receiver is dropped, and its lease runs out.
    pub(crate) fn hand_over(&self, errand: LeasedWork) {
        let tenant = errand.action.lease.key.execution.tenant.clone();
        if let Err(error) = self.hand_over.try_send((tenant, errand)) {
            tracing::warn!(error = %error, "leased action cannot be performed by this worker");
        }
    }

    #[expect(clippy::too_many_arguments, reason = "everything that an attempt has")]
    pub(crate) async fn run_action(
        &self,
        worker: &WorkerContext,
        spec: &ActionSpec,
        action: &LeasedAction,
        held: &HeldLease,
        input: ActionInput,
        credentials: &AttemptCredentials,
        filled: &Arc<SecretValues>,
        deadline: Instant,
    ) -> PerformOutcome {
        PerformOutcome::Attempt(match input {
            ActionInput::Http(input) => match fill_http_request(&input, filled, worker.now()) {
                Ok(request) => self.http.send_request(&request, credentials).await,
                Err(missing) => missing_secret(&missing),
            },
            ActionInput::Webhook(input) => {
                match webhook::webhook_request(&input, filled, &credentials.idempotency_key, worker.now()) {
                    Ok(request) => self.http.send_request(&request, credentials).await,
                    Err(missing) => missing_secret(&missing),
                }
            }
            ActionInput::Log(text) => log::perform_log(&action.lease.key, &text),
            ActionInput::Noop(value) => noop::perform_noop(value),
            ActionInput::Call(input) => {
                self.run_call(action, held, &input, credentials, filled, deadline).await
            }
            ActionInput::Emit(input) => emit::perform_emit(worker, action, input, credentials).await,
            ActionInput::Start(input) => {
                return start::perform_start(worker, action, input, credentials, &spec.timeouts).await;
            }
            ActionInput::Wait(input) => return wait::perform_wait(input, worker.now()),
            ActionInput::Return(input) => {
                return parent_child::return_to_parent(worker, action, &input).await;
            }
            ActionInput::CloseChildren => parent_child::close_children(worker, action).await,
            ActionInput::Node(input) => {
                return node::perform_node(worker, action, held, input, credentials).await;
            }
            ActionInput::Device(input) => {
                return device::perform_device(worker, action, &input, &spec.timeouts).await;
            }
            ActionInput::TaskFor(input) => {
                return task_for::perform_task_for(worker, action, &input, &spec.timeouts).await;
            }
            // Only external workers perform these.
            ActionInput::Task(_) => return PerformOutcome::Lost,
        })
    }

    /// The schedule of the action is missed: withdraws what it began.
    pub(crate) async fn withdraw_begun(&self, worker: &WorkerContext, action: &LeasedAction) {
        start::give_up_child(worker, action).await;
        device::give_up_run(worker, action).await;
        task_for::give_up_item(worker, action).await;
    }

    async fn run_call(
        &self,
        action: &LeasedAction,
        held: &HeldLease,
        input: &CallInput,
        credentials: &AttemptCredentials,
        filled: &Arc<SecretValues>,
        deadline: Instant,
    ) -> AttemptOutcome {
        let Some(calls) = &self.calls else {
            let message = format!("this worker has no function {:?}", input.function.as_str());
            return AttemptOutcome::Transient { error: internal_error(message), retry_after: None };
        };
        let full = match secrets::fill_holes(&input.input, &input.secrets, filled) {
            Ok(full) => full,
            Err(missing) => return missing_secret(&missing),
        };
        let call = ActionCall {
            name: input.function.clone(),
            key: credentials.idempotency_key.clone(),
            action: action.lease.key.clone(),
            attempt: action.attempt,
            token: action.lease.epoch.0,
            deadline,
            input: full,
            progress: action.progress.clone(),
            pulse: held.attempt_pulse().redacting(Arc::clone(filled)),
        };
        calls.perform_call(call).await
    }
}

fn fill_http_request(
    input: &HttpInput,
    filled: &SecretValues,
    now: Timestamp,
) -> Result<HttpRequest, MissingSecret> {
    let headers = input.headers.iter().map(|(name, phrase)| Ok((name.clone(), phrase.fill_secrets(filled)?)));
    Ok(HttpRequest {
        method: input.method,
        url: input.url.fill_secrets(filled)?,
        headers: headers.collect::<Result<_, _>>()?,
        body: match &input.body {
            Some(body) => Some(secrets::fill_holes(body, &input.body_secrets, filled)?),
            None => None,
        },
        expect: input.expect.clone(),
        max_response: input.max_response,
        sealed: SealedParts {
            headers: input
                .headers
                .iter()
                .filter(|(_, phrase)| phrase.secret_names().next().is_some())
                .map(|(name, _)| name.clone())
                .collect(),
            body: SealedBody::of_holes(&input.body_secrets),
        },
        at: now,
    })
}

fn missing_secret(missing: &MissingSecret) -> AttemptOutcome {
    let error = ActionFailure { class: ErrorClass::Secret, message: missing.to_string(), status: None };
    AttemptOutcome::Transient { error, retry_after: None }
}
