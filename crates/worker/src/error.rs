//! Reasons why a worker cannot start or continue. Failures of single executions are not among them.

#[derive(Debug, thiserror::Error)]
pub enum WorkerFailure {
    #[error("worker options do not fit together: {}", .0.join("; "))]
    Options(Vec<String>),
    #[error("the HTTP client could not be built: {0}")]
    Http(String),
    /// One of the required loops of a worker has ended.
    #[error("the worker's {0} loop ended unexpectedly")]
    Loop(&'static str),
}
