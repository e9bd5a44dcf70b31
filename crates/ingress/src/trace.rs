//! Request ids and trace contexts (W3C), the same for every transport.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName};
use millstream_model::entropy::{self, Entropy};
use millstream_store::clock::Clock;

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Carried by the request as an extension.
#[derive(Debug, Clone)]
pub(crate) struct TraceContext {
    /// W3C trace context: the caller's, or a new one.
    pub(crate) traceparent: Arc<str>,
}

/// The caller's id, if it is short and plain; else a new one.
pub(crate) fn request_id(headers: &HeaderMap, clock: &dyn Clock, entropy: &dyn Entropy) -> Arc<str> {
    let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    let plain = |id: &&str| {
        (1..=128).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte))
    };
    match given.filter(plain) {
        Some(id) => id.into(),
        None => entropy::uuid_v7(clock.now(), entropy).to_string().into(),
    }
}

/// The caller's trace context, if it is valid (version 00); else a new one.
pub(crate) fn traceparent_of(headers: &HeaderMap, entropy: &dyn Entropy) -> Arc<str> {
    let given = headers.get("traceparent").and_then(|value| value.to_str().ok());
    match given.filter(|text| is_traceparent(text)) {
        Some(text) => text.into(),
        None => format!(
            "00-{:016x}{:016x}-{:016x}-01",
            entropy.next_u64().max(1),
            entropy.next_u64(),
            entropy.next_u64().max(1)
        )
        .into(),
    }
}

pub(crate) fn is_traceparent(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let hex = |part: &str, len: usize| {
        part.len() == len && part.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    };
    match parts.as_slice() {
        ["00", trace, span, flags] => {
            hex(trace, 32)
                && hex(span, 16)
                && hex(flags, 2)
                && trace.bytes().any(|byte| byte != b'0')
                && span.bytes().any(|byte| byte != b'0')
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_traceparent_is_replaced() {
        assert!(is_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"));
        for wrong in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert!(!is_traceparent(wrong), "{wrong}");
        }
    }
}
