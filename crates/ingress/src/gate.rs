//! Request slots and permits: how many requests, waits, streams and anonymous calls are in flight.
//!
//! The slot of a request is its place among those in flight, until its answer is sent: an answer that the
//! client does not read stays counted, with its bytes. A caller that waits for an outcome releases its slot
//! first (see `admit_wait`), so that waiting does not block others; so does a stream when it begins.

use std::sync::Arc;

use millstream_model::quota::QuotaRefusal;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::options::IngressLimits;
use crate::quotas::QuotaPermit;
use crate::refusal::{RefusalKind, RequestRefusal};

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
    ) -> Result<RequestSlot, RequestRefusal> {
        let permit = self.requests.clone().try_acquire_owned();
        let permit =
            permit.map_err(|_| RequestRefusal::new(RefusalKind::Busy, "too many requests are in flight"))?;
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
    ) -> Result<OwnedSemaphorePermit, RequestRefusal> {
        let semaphore = match budget {
            AnonymousBudget::Probe => &self.probes,
            AnonymousBudget::OpenApi => &self.documents,
            AnonymousBudget::HealthCheck => &self.health_checks,
            AnonymousBudget::HealthWatch => &self.health_watches,
            AnonymousBudget::Reflection => &self.reflections,
        };
        semaphore.clone().try_acquire_owned().map_err(|_| {
            metrics::counter!("millstream_anonymous_refused_total", "budget" => budget.as_str()).increment(1);
            RequestRefusal::new(
                RefusalKind::Busy,
                format!("too many calls are in flight ({})", budget.as_str()),
            )
        })
    }

    pub(crate) fn admit_tail(&self) -> Result<OwnedSemaphorePermit, RequestRefusal> {
        let permit = self.tails.clone().try_acquire_owned();
        permit.map_err(|_| RequestRefusal::new(RefusalKind::Busy, "too many tails are open"))
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
    pub(crate) fn admit_new(&self) -> Result<(), RequestRefusal> {
        self.beyond.map_or(Ok(()), |refusal| Err(refusal.into()))
    }
}
