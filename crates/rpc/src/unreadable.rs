//! Stored data that cannot be decoded.

use std::fmt;

/// Stored bytes or text that cannot be decoded. The caller pauses that execution: the data is corrupt, or
/// newer than this process.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} cannot be read: {why}")]
pub struct StoredFormError {
    pub what: &'static str,
    pub why: String,
}

impl StoredFormError {
    pub(crate) fn new(what: &'static str, why: impl fmt::Display) -> Self {
        Self { what, why: why.to_string() }
    }
}
