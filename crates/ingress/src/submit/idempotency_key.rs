//! Idempotency keys of requests: their validation, and the header or metadata that carries one.

use axum::http::HeaderMap;

use crate::refusal::RequestRefusal;

/// Validates an idempotency key: it can be stored and shown.
pub(crate) fn parse_idempotency_key(text: &str) -> Result<String, &'static str> {
    if text.is_empty() || text.len() > 255 || text.chars().any(char::is_control) {
        return Err("must be 1 to 255 bytes of text without control characters");
    }
    Ok(text.to_owned())
}

/// The key of the `Idempotency-Key` header.
pub(crate) fn idempotency_header(headers: &HeaderMap) -> Result<Option<String>, RequestRefusal> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    let text = value.to_str().map_err(|_| "is not plain text").map(str::trim);
    text.and_then(parse_idempotency_key)
        .map(Some)
        .map_err(|message| RequestRefusal::bad_request(format!("Idempotency-Key {message}")))
}
