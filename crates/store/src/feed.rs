//! The feed: what happened to graphs, in order, for watchers and outbound events.
//!
//! Each entry is written in the transaction that it describes. Positions grow; entries of one execution
//! become visible in the order of their positions. Entries of different executions may become visible in
//! another order, which is why outbound delivery uses a mark per entry and not a cursor ([`crate::outbox`]).
//! Entries are removed with their execution.

use millstream_model::id::{ExecutionKey, Seq};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;

use crate::StoreResult;

#[async_trait::async_trait]
pub trait Feed: Send + Sync {
    /// The entries of one execution after `after`, in order.
    async fn read_feed(
        &self,
        execution: &ExecutionKey,
        after: i64,
        limit: usize,
    ) -> StoreResult<Vec<FeedEntry>>;
}

#[derive(Debug, Clone)]
pub struct FeedEntry {
    pub position: i64,
    pub execution: ExecutionKey,
    pub at: Timestamp,
    pub what: FeedContent,
}

#[derive(Debug, Clone)]
pub enum FeedContent {
    /// The transitions of a commit, both included.
    Transitions { first: Seq, last: Seq },
    /// JSON: a list of `{"node", "attempt", "executor", "reason"}`.
    Dispatched(RawJson),
}
