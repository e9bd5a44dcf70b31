//! Request bodies: read within a size limit, a deadline and a memory budget shared by all requests.
//!
//! A body with an announced length is charged to the budget ([`crate::body_budget`]) before its first byte is
//! read, so that a body that does not fit costs neither memory nor time; other bodies are charged as they
//! arrive. An exhausted budget answers 429. The content type is checked before the first byte is read.

use std::time::Duration;

use axum::body::Body as Incoming;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use serde_json::value::RawValue;

use crate::body_budget::{BodyBudget, PaidBytes};
use crate::refusal::{RefusalKind, RequestRefusal};
use crate::state::IngressState;

/// Reads the body of a JSON request, charged to its caller.
pub(in crate::http) async fn read_json_body(
    door: &IngressState,
    request: Request,
    bytes: usize,
) -> Result<RequestBody, RequestRefusal> {
    let (parts, body) = request.into_parts();
    MediaType::of(&parts.headers, &[MediaType::Json])?;
    read_body(door, &parts, body, bytes).await
}

/// Reads a body of at most `bytes`, charged to the caller of the request.
pub(in crate::http) async fn read_body(
    door: &IngressState,
    parts: &Parts,
    body: Incoming,
    bytes: usize,
) -> Result<RequestBody, RequestRefusal> {
    let allowed = BodyLimits { bytes, time: door.options.limits.body_timeout };
    RequestBody::read_within(body, &parts.headers, allowed, &door.bodies.for_caller(&parts.extensions)).await
}

/// Reads a body that may be missing.
pub(in crate::http) async fn read_optional_body(
    door: &IngressState,
    headers: &HeaderMap,
    body: Incoming,
    bytes: usize,
) -> Result<RequestBody, RequestRefusal> {
    let allowed = BodyLimits { bytes, time: door.options.limits.body_timeout };
    let body = RequestBody::read_within(body, headers, allowed, &door.bodies).await?;
    if !body.is_empty() {
        MediaType::of(headers, &[MediaType::Json])?;
    }
    Ok(body)
}

/// The text of an optional body: an empty one is an empty object.
pub(in crate::http) fn body_text(body: &RequestBody) -> Result<&str, RequestRefusal> {
    if body.is_empty() { Ok("{}") } else { body.json() }
}

/// Size and time limits of a body.
#[derive(Debug, Clone, Copy)]
struct BodyLimits {
    bytes: usize,
    time: Duration,
}

/// A body that has arrived. Dropping it releases its bytes.
#[derive(Debug)]
pub(crate) struct RequestBody {
    bytes: Bytes,
    _paid: Option<PaidBytes>,
}

impl RequestBody {
    async fn read_within(
        body: Incoming,
        headers: &HeaderMap,
        allowed: BodyLimits,
        budget: &BodyBudget,
    ) -> Result<Self, RequestRefusal> {
        let announced =
            headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        if announced.is_some_and(|length: usize| length > allowed.bytes) {
            return Err(too_large(allowed.bytes));
        }
        let announced = announced.unwrap_or(0);
        match tokio::time::timeout(allowed.time, collect_body(body, announced, allowed.bytes, budget)).await {
            Ok(read) => read,
            Err(_) => Err(RequestRefusal::new(
                RefusalKind::BodyTimeout,
                format!("the body did not arrive within {} s", allowed.time.as_secs()),
            )),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn text(&self) -> Result<&str, RequestRefusal> {
        std::str::from_utf8(&self.bytes)
            .map_err(|error| RequestRefusal::bad_request(format!("the body is not UTF-8: {error}")))
    }

    /// The text, if all of it is one JSON value. The reader checks depth and fields.
    pub(crate) fn json(&self) -> Result<&str, RequestRefusal> {
        let text = self.text()?;
        let raw: &RawValue = serde_json::from_str(text)
            .map_err(|error| RequestRefusal::bad_request(format!("the body is not valid JSON: {error}")))?;
        Ok(raw.get())
    }
}

async fn collect_body(
    body: Incoming,
    announced: usize,
    limit: usize,
    budget: &BodyBudget,
) -> Result<RequestBody, RequestRefusal> {
    let mut paid_kib = announced.div_ceil(1024);
    let mut paid = if paid_kib > 0 { Some(budget.charge_kib(paid_kib)?) } else { None };
    let mut stream = body.into_data_stream();
    // Only received bytes are resident.
    let mut bytes = BytesMut::with_capacity(announced);
    while let Some(chunk) = stream.next().await {
        let chunk = chunk
            .map_err(|error| RequestRefusal::bad_request(format!("the body could not be read: {error}")))?;
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

fn too_large(limit: usize) -> RequestRefusal {
    RequestRefusal::new(RefusalKind::TooLarge, format!("the body is larger than {limit} bytes"))
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
    pub(crate) fn of(headers: &HeaderMap, accepted: &[MediaType]) -> Result<MediaType, RequestRefusal> {
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
            RequestRefusal::new(
                RefusalKind::UnsupportedMediaType,
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
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use axum::http::HeaderValue;
    use futures::stream;
    use millstream_model::quota::QuotaSettings;
    use millstream_store_memory::MemoryStore;

    use super::*;
    use crate::options::IngressLimits;
    use crate::quotas::TenantQuotas;

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
        assert_eq!(refused.kind, RefusalKind::Busy);
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
        assert_eq!((refused.kind, read.load(Ordering::Relaxed)), (RefusalKind::Busy, true));
        let (body, _) = pieces(8);
        let held = RequestBody::read_within(body, &HeaderMap::new(), ALLOWED, &budget).await.unwrap();
        assert!(budget.charge_kib(3).is_err(), "8 of 10 are held");
        drop(held);
        assert!(budget.charge_kib(10).is_ok());
    }
}
