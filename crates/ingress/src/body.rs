//! Request bodies: read within a size limit, a deadline and a memory budget shared by all requests.
//!
//! The budget keeps a thousand clients with 8 MiB each from becoming 8 GiB. A body with an announced length
//! is charged before its first byte is read, so that a body that does not fit costs neither memory nor
//! time; other bodies are charged as they arrive. The bytes are released when the request is answered; an
//! exhausted budget answers 429. The content type is checked before the first byte is read.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body as Incoming;
use axum::http::{Extensions, HeaderMap, header};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use millstream_model::id::TenantId;
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::auth::TenantCaller;
use crate::http::problem::{ApiProblem, ProblemKind};
use crate::quotas::{HeldQuota, QuotaPermit, RequestClass, TenantQuotas};

/// Size and time limits of a body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyLimits {
    pub(crate) bytes: usize,
    pub(crate) time: Duration,
}

/// The bytes that all bodies together may hold, in units of 1 KiB.
#[derive(Debug, Clone)]
pub(crate) struct BodyBudget {
    process: Arc<Semaphore>,
    quotas: Arc<TenantQuotas>,
    /// The tenant whose share is charged as well.
    tenant: Option<TenantId>,
}

/// Bytes charged to the budgets of the process and of the tenant; released on drop.
#[derive(Debug)]
pub(crate) struct PaidBytes {
    process: OwnedSemaphorePermit,
    tenant: Option<QuotaPermit>,
}

impl PaidBytes {
    /// Merges both into one. Both belong to one request, so either both have a tenant or neither.
    pub(crate) fn merge_charge(&mut self, more: PaidBytes) {
        self.process.merge(more.process);
        match (&mut self.tenant, more.tenant) {
            (Some(paid), Some(more)) => paid.merge_permit(more),
            (paid @ None, more) => *paid = more,
            (Some(_), None) => {}
        }
    }
}

impl BodyBudget {
    pub(crate) fn of(bytes: usize, quotas: Arc<TenantQuotas>) -> Self {
        let permits = (bytes / 1024).min(Semaphore::MAX_PERMITS);
        Self { process: Arc::new(Semaphore::new(permits)), quotas, tenant: None }
    }

    /// The same budget, charging the tenant's share as well.
    pub(crate) fn for_tenant(&self, tenant: &TenantId) -> Self {
        Self { tenant: Some(tenant.clone()), ..self.clone() }
    }

    /// The same for the tenant of the authenticated caller. Operator acts do not charge the tenant.
    pub(crate) fn for_caller(&self, extensions: &Extensions) -> Self {
        let tenant = match extensions.get() {
            Some(RequestClass::OperatorAct) => None,
            Some(RequestClass::Ordinary | RequestClass::Keyed) | None => extensions.get::<TenantCaller>(),
        };
        Self { tenant: tenant.map(|caller| caller.tenant.clone()), ..self.clone() }
    }

    /// Charges `kib` KiB.
    pub(crate) fn charge_kib(&self, kib: usize) -> Result<PaidBytes, ApiProblem> {
        let process = self.process.clone().try_acquire_many_owned(u32::try_from(kib).unwrap_or(u32::MAX));
        let process =
            process.map_err(|_| ApiProblem::new(ProblemKind::Busy, "too many bytes are in flight"))?;
        let share = u64::try_from(kib).unwrap_or(u64::MAX);
        let tenant = self.tenant.as_ref();
        let tenant =
            tenant.map(|tenant| self.quotas.hold_share(tenant, HeldQuota::BodyBytes, share)).transpose()?;
        Ok(PaidBytes { process, tenant })
    }
}

/// A body that has arrived. Dropping it releases its bytes.
#[derive(Debug)]
pub(crate) struct RequestBody {
    bytes: Bytes,
    _paid: Option<PaidBytes>,
}

impl RequestBody {
    pub(crate) async fn read_within(
        body: Incoming,
        headers: &HeaderMap,
        allowed: BodyLimits,
        budget: &BodyBudget,
    ) -> Result<Self, ApiProblem> {
        let announced =
            headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        if announced.is_some_and(|length: usize| length > allowed.bytes) {
            return Err(too_large(allowed.bytes));
        }
        let announced = announced.unwrap_or(0);
        match tokio::time::timeout(allowed.time, collect_body(body, announced, allowed.bytes, budget)).await {
            Ok(read) => read,
            Err(_) => Err(ApiProblem::new(
                ProblemKind::BodyTimeout,
                format!("the body did not arrive within {} s", allowed.time.as_secs()),
            )),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn text(&self) -> Result<&str, ApiProblem> {
        std::str::from_utf8(&self.bytes)
            .map_err(|error| ApiProblem::bad_request(format!("the body is not UTF-8: {error}")))
    }

    /// The text, if all of it is one JSON value. The reader checks depth and fields.
    pub(crate) fn json(&self) -> Result<&str, ApiProblem> {
        let text = self.text()?;
        let raw: &RawValue = serde_json::from_str(text)
            .map_err(|error| ApiProblem::bad_request(format!("the body is not valid JSON: {error}")))?;
        Ok(raw.get())
    }
}

async fn collect_body(
    body: Incoming,
    announced: usize,
    limit: usize,
    budget: &BodyBudget,
) -> Result<RequestBody, ApiProblem> {
    let mut paid_kib = announced.div_ceil(1024);
    let mut paid = if paid_kib > 0 { Some(budget.charge_kib(paid_kib)?) } else { None };
    let mut stream = body.into_data_stream();
    // Only received bytes are resident.
    let mut bytes = BytesMut::with_capacity(announced);
    while let Some(chunk) = stream.next().await {
        let chunk =
            chunk.map_err(|error| ApiProblem::bad_request(format!("the body could not be read: {error}")))?;
        if bytes.len() + chunk.len() > limit {
            return Err(too_large(limit));
        }
        let due = (bytes.len() + chunk.len()).div_ceil(1024).saturating_sub(paid_kib);
        if due > 0 {
            let more = budget.charge_kib(due)?;
            paid_kib += due;
            match &mut paid {
                None => paid = Some(more),
                Some(paid) => paid.merge_charge(more),
            }
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(RequestBody { bytes: bytes.freeze(), _paid: paid })
}

fn too_large(limit: usize) -> ApiProblem {
    ApiProblem::new(ProblemKind::TooLarge, format!("the body is larger than {limit} bytes"))
}

/// Media type of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MediaType {
    Json,
    Ndjson,
    Yaml,
}

impl MediaType {
    /// The media type of the request, if it is one of `accepted`.
    pub(crate) fn of(headers: &HeaderMap, accepted: &[MediaType]) -> Result<MediaType, ApiProblem> {
        let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
        let essence = given.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
        let media = match essence.as_str() {
            "application/json" => Some(Self::Json),
            "application/x-ndjson" | "application/ndjson" | "application/jsonl" => Some(Self::Ndjson),
            "application/yaml" | "application/x-yaml" | "text/yaml" | "text/x-yaml" => Some(Self::Yaml),
            _ => None,
        };
        media.filter(|media| accepted.contains(media)).ok_or_else(|| {
            let names: Vec<_> = accepted.iter().map(|media| media.name()).collect();
            ApiProblem::new(
                ProblemKind::UnsupportedMediaType,
                format!("Content-Type is {given:?}; this path reads {}", names.join(" or ")),
            )
        })
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Ndjson => "application/x-ndjson",
            Self::Yaml => "application/yaml",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicBool, Ordering};

    use axum::http::HeaderValue;
    use futures::stream;
    use millstream_model::quota::QuotaSettings;
    use millstream_store::memory::MemoryStore;

    use super::*;
    use crate::options::IngressLimits;

    const ALLOWED: BodyLimits = BodyLimits { bytes: 1024 * 1024, time: Duration::from_secs(60) };

    fn budget(kib: usize) -> BodyBudget {
        let quotas =
            TenantQuotas::of(MemoryStore::new(), QuotaSettings::default(), &IngressLimits::default());
        BodyBudget::of(kib * 1024, Arc::new(quotas))
    }

    fn announcing(bytes: usize) -> HeaderMap {
        HeaderMap::from_iter([(header::CONTENT_LENGTH, HeaderValue::from(bytes))])
    }

    /// Pieces of 1 KiB, and whether one was polled.
    fn pieces(kib: usize) -> (Incoming, Arc<AtomicBool>) {
        let read = Arc::new(AtomicBool::new(false));
        let note = read.clone();
        let pieces = stream::iter(0..kib).map(move |_| {
            note.store(true, Ordering::Relaxed);
            Ok::<_, Infallible>(Bytes::from_static(&[b'x'; 1024]))
        });
        (Incoming::from_stream(pieces), read)
    }

    #[tokio::test]
    async fn oversized_body_refused_before_read() {
        let budget = budget(10);
        let (body, read) = pieces(11);
        let refused =
            RequestBody::read_within(body, &announcing(11 * 1024), ALLOWED, &budget).await.unwrap_err();
        assert_eq!(refused.kind, ProblemKind::Busy);
        assert!(!read.load(Ordering::Relaxed), "nothing of it was read");
        let (body, _) = pieces(10);
        assert!(
            RequestBody::read_within(body, &announcing(10 * 1024), ALLOWED, &budget).await.is_ok(),
            "all of it is free"
        );
    }

    #[tokio::test]
    async fn unknown_length_body_charged_incrementally() {
        let budget = budget(10);
        let (body, read) = pieces(11);
        let refused = RequestBody::read_within(body, &HeaderMap::new(), ALLOWED, &budget).await.unwrap_err();
        assert_eq!((refused.kind, read.load(Ordering::Relaxed)), (ProblemKind::Busy, true));
        let (body, _) = pieces(8);
        let held = RequestBody::read_within(body, &HeaderMap::new(), ALLOWED, &budget).await.unwrap();
        assert!(budget.charge_kib(3).is_err(), "8 of 10 are held");
        drop(held);
        assert!(budget.charge_kib(10).is_ok());
    }
}
