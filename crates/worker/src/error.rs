//! Why a worker could not start or go on. What happens to single executions is never in here.

#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    #[error("worker options do not fit together: {}", .0.join("; "))]
    Options(Vec<String>),
    #[error("the HTTP client could not be built: {0}")]
    Http(String),
    /// One of the loops that a worker cannot do without has ended.
    #[error("the worker's {0} loop ended unexpectedly")]
    Loop(&'static str),
}
