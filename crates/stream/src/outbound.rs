//! What leaves the engine by a stream that others read.
//!
//! The one place where contents go into Redis. Nothing in here reads them, and nothing of the engine depends on
//! their being there: they are copies of what the database holds.

use crate::Result;

#[async_trait::async_trait]
pub trait Outbound: Send + Sync {
    /// Appends entries to the stream of this name, in order, all of them or none; about `keep` of the newest
    /// stay. When it fails all the same, they may have been appended.
    async fn append(&self, stream: &str, entries: &[Entry], keep: usize) -> Result<()>;
}

/// Fields with their values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry(pub Vec<(&'static str, String)>);
