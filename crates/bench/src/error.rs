//! Errors of a benchmark, distinguished by what the caller can do about them.

use std::io;

/// Result of every fallible function of this crate.
pub type BenchResult<T> = std::result::Result<T, BenchError>;

#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// Invalid command line.
    #[error("{0}")]
    Usage(String),
    /// A server or a service does not answer.
    #[error("{what} cannot be reached: {reason}")]
    Unreachable { what: String, reason: String },
    /// The engine violated its contract: lost an event, refused a good one, died.
    #[error("{0}")]
    Wrong(String),
    /// Ctrl-C.
    #[error("interrupted; everything that was started has been stopped")]
    Interrupted,
    /// An operating-system error.
    #[error("cannot {doing}: {source}")]
    Machine { doing: String, source: io::Error },
}

impl BenchError {
    pub(crate) fn unreachable(what: impl Into<String>, reason: impl ToString) -> Self {
        Self::Unreachable { what: what.into(), reason: reason.to_string() }
    }

    /// For `map_err`: names the operation that failed.
    pub(crate) fn machine_error(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Machine { doing, source }
    }
}
