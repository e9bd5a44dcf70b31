//! Evaluation errors.

/// Why an expression has no value. The message is a fragment that names the offending value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EvalError(pub String);

impl EvalError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}
