//! The error of a worker: it did not start, or a part of it ended.

/// Why a worker did not start, or ended. The text is for an operator: settings, tables, an address in use.
#[derive(Debug, thiserror::Error)]
#[error("{0:#}")]
pub struct WorkerError(anyhow::Error);

impl From<anyhow::Error> for WorkerError {
    fn from(error: anyhow::Error) -> Self {
        Self(error)
    }
}
