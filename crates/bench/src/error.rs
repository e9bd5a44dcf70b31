//! How a measurement ends badly: told apart by what the caller can do about it.

use std::io;

/// What every fallible function of this crate returns.
pub type Result<T> = std::result::Result<T, BenchError>;

#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The command line asks for something that makes no sense.
    #[error("{0}")]
    Usage(String),
    /// A server or a service does not answer.
    #[error("{what} cannot be reached: {reason}")]
    Unreachable { what: String, reason: String },
    /// The engine did something that it must not: lost an event, refused a good one, died.
    #[error("{0}")]
    Wrong(String),
    /// Somebody pressed Ctrl-C.
    #[error("interrupted; everything that was started has been stopped")]
    Interrupted,
    /// The machine refused.
    #[error("cannot {doing}: {source}")]
    Machine { doing: String, source: io::Error },
}

impl BenchError {
    pub(crate) fn unreachable(what: impl Into<String>, reason: impl ToString) -> Self {
        Self::Unreachable { what: what.into(), reason: reason.to_string() }
    }

    /// For `map_err`: what was being done when the machine refused.
    pub(crate) fn machine(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Machine { doing, source }
    }
}
