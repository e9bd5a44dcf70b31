//! Errors of a store, as decisions for the caller.

/// Errors of a whole call. Verdicts on single items are values, not errors.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The store cannot be reached or refuses to work now. Nothing was written, or it is in doubt: read again
    /// by key. Retry with backoff; answer 503.
    #[error("store unavailable: {0}")]
    Unavailable(String),
    /// Contention: the transaction lost against another one (deadlock, serialization). Nothing was written;
    /// retry the batch at once.
    #[error("store contention: {0}")]
    Contention(String),
    /// A row cannot be decoded, or the data of an item was refused by the database. Retrying does
    /// not help: bisect the batch so that one item fails alone.
    #[error("corrupt data: {0}")]
    Corrupt(String),
}

impl StoreError {
    /// Whether the same call may succeed later without anything being changed.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unavailable(_) | Self::Contention(_) => true,
            Self::Corrupt(_) => false,
        }
    }
}
