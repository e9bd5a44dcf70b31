//! Admission control: what is refused before a handler runs (too many requests in flight, a URI that is too
//! long, a foreign host).
//!
//! The slot of a request is its place among those in flight, until its answer is sent: an answer that the
//! client does not read stays counted, with its bytes. A caller that waits for an outcome releases its slot
//! first (see `admit_wait`), so that waiting does not block others; so does a stream when it begins.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use millstream_model::permission::Permission;
use millstream_model::quota::QuotaRefusal;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::answer_body::{AnswerHold, whole_bytes};
use crate::auth::{self, TenantCaller};
use crate::body::BodyBudget;
use crate::connection_use::{BeyondUnproven, OnReserve};
use crate::http::problem::{ApiProblem, ProblemKind};
use crate::options::IngressLimits;
use crate::quotas::{QuotaPermit, RepeatAnswer, RequestClass};
use crate::state::IngressState;

/// Semaphores that bound the work in flight.
#[derive(Debug)]
pub(crate) struct RequestGate {
    requests: Arc<Semaphore>,
    waits: Arc<Semaphore>,
    tails: Arc<Semaphore>,
    probes: Arc<Semaphore>,
    documents: Arc<Semaphore>,
    health_checks: Arc<Semaphore>,
    health_watches: Arc<Semaphore>,
    reflections: Arc<Semaphore>,
}

/// Budgets of anonymous calls. Each kind of call has a budget of its own, so that anonymous calls take no
/// capacity from callers with a key, nor from each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnonymousBudget {
    /// `/healthz` and `/readyz`.
    Probe,
    /// `/openapi.json`.
    OpenApi,
    HealthCheck,
    HealthWatch,
    Reflection,
}

impl AnonymousBudget {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Probe => "probe",
            Self::OpenApi => "openapi",
            Self::HealthCheck => "health_check",
            Self::HealthWatch => "health_watch",
            Self::Reflection => "reflection",
        }
    }
}

impl RequestGate {
    pub(crate) fn of(limits: &IngressLimits) -> Self {
        let semaphore = |permits: usize| Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)));
        Self {
            requests: semaphore(limits.in_flight),
            waits: semaphore(limits.waits),
            tails: semaphore(limits.tails),
            probes: semaphore(limits.probes),
            documents: semaphore(limits.documents),
            health_checks: semaphore(limits.health_checks),
            health_watches: semaphore(limits.health_watches),
            reflections: semaphore(limits.reflections),
        }
    }

    /// A slot for a request, which also holds its tenant's share. `beyond` is the quota that the tenant has
    /// reached.
    pub(crate) fn admit_request(
        &self,
        share: Option<QuotaPermit>,
        beyond: Option<QuotaRefusal>,
    ) -> Result<RequestSlot, ApiProblem> {
        let permit = self.requests.clone().try_acquire_owned();
        let permit =
            permit.map_err(|_| ApiProblem::new(ProblemKind::Busy, "too many requests are in flight"))?;
        Ok(RequestSlot { permits: Arc::new(std::sync::Mutex::new(Some((permit, share)))), beyond })
    }

    /// A permit to wait; `None` when too many callers wait already.
    pub(crate) fn admit_wait(&self) -> Option<OwnedSemaphorePermit> {
        self.waits.clone().try_acquire_owned().ok()
    }

    /// A place in the budget of an anonymous call.
    pub(crate) fn admit_anonymous(
        &self,
        budget: AnonymousBudget,
    ) -> Result<OwnedSemaphorePermit, ApiProblem> {
        let semaphore = match budget {
            AnonymousBudget::Probe => &self.probes,
            AnonymousBudget::OpenApi => &self.documents,
            AnonymousBudget::HealthCheck => &self.health_checks,
            AnonymousBudget::HealthWatch => &self.health_watches,
            AnonymousBudget::Reflection => &self.reflections,
        };
        semaphore.clone().try_acquire_owned().map_err(|_| {
            crate::metrics::record_anonymous_refusal(budget);
            ApiProblem::new(ProblemKind::Busy, format!("too many calls are in flight ({})", budget.as_str()))
        })
    }

    pub(crate) fn admit_tail(&self) -> Result<OwnedSemaphorePermit, ApiProblem> {
        let permit = self.tails.clone().try_acquire_owned();
        permit.map_err(|_| ApiProblem::new(ProblemKind::Busy, "too many tails are open"))
    }
}

/// The slot of a request; released when dropped, or when the request is dropped.
#[derive(Debug, Clone)]
pub(crate) struct RequestSlot {
    permits: Arc<std::sync::Mutex<Option<SlotPermits>>>,
    beyond: Option<QuotaRefusal>,
}

/// Permits of the process, and of the tenant where the caller is known.
type SlotPermits = (OwnedSemaphorePermit, Option<QuotaPermit>);

impl RequestSlot {
    pub(crate) fn give_back(&self) {
        if let Ok(mut permit) = self.permits.lock() {
            *permit = None;
        }
    }

    /// Admits new work. Where the tenant has reached its rate or its share, only repeats are answered.
    pub(crate) fn admit_new(&self) -> Result<(), ApiProblem> {
        self.beyond.map_or(Ok(()), |refusal| Err(refusal.into()))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for RequestSlot {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiProblem> {
        let slot = parts.extensions.get::<RequestSlot>().cloned();
        slot.ok_or_else(|| ApiProblem::new(ProblemKind::Internal, "the request has no slot"))
    }
}

/// Middleware: bounds the requests in flight. Health and metrics are exempt.
pub(crate) async fn limit_in_flight(
    State((door, needs, repeats)): State<(Arc<IngressState>, Option<Permission>, RepeatAnswer)>,
    mut request: Request,
    next: Next,
) -> Response {
    let class = RequestClass::of(needs, repeats, request.headers());
    let slot = match door.request_slot(request.extensions().get::<TenantCaller>(), class) {
        Ok(slot) => slot,
        Err(problem) => return problem.into_response(),
    };
    request.extensions_mut().insert(slot.clone());
    request.extensions_mut().insert(class);
    let bodies = door.bodies.for_caller(request.extensions());
    let call = if request.method().is_safe() { AnsweredCall::Read } else { AnsweredCall::Act };
    let counted = crate::metrics::InFlight::begin();
    let response = next.run(request).await;
    drop(counted);
    match whole_bytes(response.body()) {
        Some(bytes) => {
            hold_answer(response, bytes, slot, &bodies, call).unwrap_or_else(IntoResponse::into_response)
        }
        None => {
            slot.give_back();
            response
        }
    }
}

/// Answers up to this size are bounded by the number of slots alone.
const SMALL_ANSWER: usize = 4 * 1024;

/// Lets a complete answer keep the slot of its request, and its bytes, until it is sent. Without room in
/// the budget, the answer of a read is refused; the answer of an act is sent in any case, because the act
/// is done.
pub(crate) fn hold_answer(
    mut response: Response,
    bytes: usize,
    slot: RequestSlot,
    bodies: &BodyBudget,
    call: AnsweredCall,
) -> Result<Response, ApiProblem> {
    let paid = if bytes > SMALL_ANSWER { Some(bodies.charge_kib(bytes.div_ceil(1024))) } else { None };
    let paid = match (paid.transpose(), call) {
        (Err(problem), AnsweredCall::Read) => return Err(problem),
        (Err(_), AnsweredCall::Act) => None,
        (Ok(paid), _) => paid,
    };
    response.extensions_mut().insert(AnswerHold::of_request(slot, paid));
    Ok(response)
}

/// Whether an answered call was a read or an act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnsweredCall {
    Read,
    Act,
}

/// Middleware: bounds anonymous HTTP calls by the budget of their kind.
pub(crate) async fn limit_anonymous_calls(
    State((door, budget)): State<(Arc<IngressState>, AnonymousBudget)>,
    request: Request,
    next: Next,
) -> Response {
    let place = match door.gate.admit_anonymous(budget) {
        Ok(place) => place,
        Err(problem) => return problem.into_response(),
    };
    let mut response = next.run(request).await;
    match budget {
        // Short answers: a client that does not read one must not occupy the place of the next probe.
        AnonymousBudget::Probe => drop(place),
        AnonymousBudget::OpenApi
        | AnonymousBudget::HealthCheck
        | AnonymousBudget::HealthWatch
        | AnonymousBudget::Reflection => {
            response.extensions_mut().insert(AnswerHold::of_anonymous(place));
        }
    }
    response
}

/// Middleware for every path: checks sizes, hosts and connection limits.
pub(crate) async fn check_request(
    State(door): State<Arc<IngressState>>,
    request: Request,
    next: Next,
) -> Response {
    match refuse_early(request.uri(), request.headers(), request.extensions(), &door).await {
        Some(problem) => problem.into_response(),
        None => next.run(request).await,
    }
}

/// Paths that reserve connections may request.
const PROBES: &[&str] = &["/healthz", "/readyz", "/metrics", "/grpc.health.v1.Health/Check"];

/// Why a request is refused before authentication.
pub(crate) async fn refuse_early(
    uri: &Uri,
    headers: &HeaderMap,
    marks: &Extensions,
    door: &IngressState,
) -> Option<ApiProblem> {
    let is_probe = PROBES.contains(&uri.path());
    if marks.get::<OnReserve>().is_some() && !is_probe {
        return Some(ApiProblem::new(ProblemKind::Busy, "too many connections are open"));
    }
    if marks.get::<BeyondUnproven>().is_some() {
        return Some(ApiProblem::new(
            ProblemKind::Busy,
            "too many requests are in progress on this connection, none of them with a valid key",
        ));
    }
    if let Some(problem) = too_long(uri, headers, &door.options.limits) {
        return Some(problem);
    }
    // When the store is unavailable, the host check stays on; a probe does not wait for the store.
    let is_open = auth::is_open(door);
    let is_open = match is_probe {
        true => tokio::time::timeout(PROBE_PATIENCE, is_open).await,
        false => Ok(is_open.await),
    };
    match is_open {
        Ok(Ok(false)) => None,
        Ok(Ok(true) | Err(_)) | Err(_) => foreign_host(uri, headers, door),
    }
}

/// How long a probe waits for the store's answer whether keys exist.
const PROBE_PATIENCE: Duration = Duration::from_millis(250);

fn too_long(uri: &Uri, headers: &HeaderMap, limits: &IngressLimits) -> Option<ApiProblem> {
    let address = uri.path_and_query().map_or(0, |path| path.as_str().len());
    if address > limits.uri_bytes {
        let detail = format!("path and query are {address} bytes, at most {} are read", limits.uri_bytes);
        return Some(ApiProblem::new(ProblemKind::UriTooLong, detail));
    }
    let size: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    (size > limits.header_bytes).then(|| {
        let detail = format!("the headers are {size} bytes, at most {} are read", limits.header_bytes);
        ApiProblem::new(ProblemKind::HeadersTooLarge, detail)
    })
}

/// Headers that a proxy adds: behind a proxy, a loopback peer address does not identify the origin of a
/// request.
const PROXY_HEADERS: [&str; 3] = ["forwarded", "x-forwarded-for", "x-real-ip"];

/// Host check. While calls need no key, a web page must not reach the ingress: neither by a DNS name that
/// was rebound to this address, nor by a cross-origin request, not even from another port of this machine.
/// A request that a proxy forwards, or that names no host, is refused as well.
fn foreign_host(uri: &Uri, headers: &HeaderMap, door: &IngressState) -> Option<ApiProblem> {
    // HTTP/2 carries the host in the URI (`:authority`).
    let authority = uri.authority().map(|authority| authority.as_str());
    let hosts = headers.get_all(header::HOST).iter().map(|value| value.to_str().unwrap_or(""));
    let named: Vec<&str> = authority.into_iter().chain(hosts).collect();
    let origins = headers.get_all(header::ORIGIN).iter().map(|value| value.to_str().unwrap_or(""));
    let mut origins = origins.map(|origin| origin.split_once("://").map_or(origin, |(_, host)| host));
    let is_own = |origin: &str| {
        let listed = door.options.allowed_hosts.iter().map(String::as_str);
        named.iter().copied().chain(listed).any(|name| origin.eq_ignore_ascii_case(name))
    };
    let detail = if named.is_empty() {
        "while no key is needed, a request must name its host".to_owned()
    } else if let Some(name) = named.iter().find(|name| !is_own_host(name, door)) {
        format!(
            "{name:?} is not served while no key is needed; use 127.0.0.1 or localhost, or list it in ingress.allowed_hosts"
        )
    } else if let Some(origin) = origins.find(|origin| !is_own(origin)) {
        format!(
            "pages of {origin:?} are not served while no key is needed: it is another origin; list it with its port in ingress.allowed_hosts"
        )
    } else if let Some(header) = PROXY_HEADERS.iter().find(|name| headers.contains_key(**name)) {
        format!(
            "the request comes through a proxy ({header}); that needs a key, see `millstream keys create`"
        )
    } else {
        return None;
    };
    Some(ApiProblem::new(ProblemKind::HostRefused, detail))
}

fn is_own_host(authority: &str, door: &IngressState) -> bool {
    let host = without_port(authority);
    ["localhost", "127.0.0.1", "[::1]"].iter().any(|name| host.eq_ignore_ascii_case(name))
        || door.listen.iter().any(|listen| authority.eq_ignore_ascii_case(listen))
        || door
            .options
            .allowed_hosts
            .iter()
            .any(|name| authority.eq_ignore_ascii_case(name) || host.eq_ignore_ascii_case(name))
}

fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}
