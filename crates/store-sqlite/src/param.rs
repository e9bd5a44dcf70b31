//! Many rows as one parameter.
//!
//! A statement that handles many rows takes one JSON array and reads it with `json_each`, so its text
//! is the same for every batch and stays prepared. Text that is itself JSON (payloads, snapshots)
//! travels as a JSON *string*: as a value SQLite would hand back its own spelling of it.

use std::fmt::Write;

use millstream_core::id::{ActionKey, EventId, ExecutionKey, TenantId};
use millstream_store::Result;
use millstream_store::action_store::Handling;
use serde::Serialize;

use crate::errors::corrupt;

/// The parameter for `json_each`.
pub(crate) fn rows<T: Serialize>(items: impl IntoIterator<Item = T>) -> Result<String> {
    let items: Vec<T> = items.into_iter().collect();
    let text = serde_json::to_string(&items).map_err(corrupt)?;
    // SQLite would keep the bytes, but its text functions and shell stop at U+0000, and PostgreSQL
    // refuses such text: the two must behave alike.
    if has_nul(&text) {
        return Err(corrupt("a text contains U+0000"));
    }
    Ok(text)
}

/// Whether a string in this JSON contains the character U+0000 (and not its escape as text).
fn has_nul(json: &str) -> bool {
    let mut rest = json.as_bytes();
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        if rest[at..].starts_with(b"\\u0000") {
            return true;
        }
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    false
}

#[derive(Serialize)]
pub(crate) struct ExecutionParam<'a> {
    pub(crate) tenant: &'a str,
    pub(crate) execution: &'a str,
}

impl<'a> ExecutionParam<'a> {
    pub(crate) fn of(key: &'a ExecutionKey) -> Self {
        Self { tenant: key.tenant.as_str(), execution: key.execution.as_str() }
    }
}

#[derive(Serialize)]
pub(crate) struct EventParam<'a> {
    pub(crate) tenant: &'a str,
    pub(crate) event: EventId,
}

impl<'a> EventParam<'a> {
    pub(crate) fn of(tenant: &'a TenantId, event: EventId) -> Self {
        Self { tenant: tenant.as_str(), event }
    }
}

#[derive(Serialize)]
pub(crate) struct ActionParam<'a> {
    #[serde(flatten)]
    pub(crate) execution: ExecutionParam<'a>,
    pub(crate) seq: i64,
    pub(crate) action: &'a str,
}

impl<'a> ActionParam<'a> {
    pub(crate) fn of(key: &'a ActionKey) -> Self {
        Self { execution: ExecutionParam::of(&key.execution), seq: key.seq.0, action: key.action.as_str() }
    }
}

/// A hash as the tables hold it.
pub(crate) fn hex(bytes: &[u8; 32]) -> String {
    bytes.iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// SQLite has no booleans.
pub(crate) const fn handled(handling: Handling) -> i64 {
    match handling {
        Handling::Handled => 1,
        Handling::Unhandled => 0,
    }
}

/// A `LIMIT`.
pub(crate) fn limit(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_null_character_is_told_from_its_escape() {
        assert!(rows(["a\0b"]).is_err());
        assert!(rows(["\\\0"]).is_err());
        assert!(rows([r#"{"a":"\u0000"}"#]).is_ok());
        assert!(rows([r#"\\u0000"#]).is_ok());
    }

    #[test]
    fn hashes_are_spelled_in_lower_case_with_all_their_digits() {
        let mut hash = [0u8; 32];
        hash[31] = 0xAB;
        assert_eq!(hex(&hash), format!("{}ab", "0".repeat(62)));
    }
}
