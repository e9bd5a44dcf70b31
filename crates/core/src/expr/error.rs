//! Why an evaluation has no value.

/// Why an expression has no value. The text is a fragment that names what was found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EvalError(pub String);

impl EvalError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}
