//! What can go wrong with a doorbell, as decisions for the caller.

#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The stream cannot be reached or refuses the command now. Nothing that matters is lost: the
    /// sweeps will find what was not rung.
    #[error("stream unavailable: {0}")]
    Unavailable(String),
    /// The stream or its group was gone and has been made anew: what had been rung may be lost, so
    /// sweep at once.
    #[error("stream lost its memory: {0}")]
    Amnesia(String),
    /// A setting of the server makes it unusable for us (an eviction policy, say).
    #[error("stream unusable: {0}")]
    Unusable(String),
}
