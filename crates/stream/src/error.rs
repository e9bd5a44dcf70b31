//! Errors of a stream, as decisions for the caller.

#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The stream is unreachable or refuses the command now. Retry; the sweeps find doorbells that were not
    /// published.
    #[error("stream unavailable: {0}")]
    Unavailable(String),
    /// The stream or its consumer group was missing and has been created again: published doorbells may be
    /// lost, so sweep at once.
    #[error("stream or consumer group was missing: {0}")]
    Amnesia(String),
    /// A server setting makes it unusable (an eviction policy, for example).
    #[error("stream unusable: {0}")]
    Unusable(String),
}
