//! Stored data that cannot be understood.

use std::fmt;

/// Bytes or text of our own that do not say what they should. Whoever meets one pauses that execution: it is
/// corruption, or a process that is older than the data.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} cannot be read: {why}")]
pub struct Unreadable {
    pub what: &'static str,
    pub why: String,
}

impl Unreadable {
    pub(crate) fn new(what: &'static str, why: impl fmt::Display) -> Self {
        Self { what, why: why.to_string() }
    }
}
