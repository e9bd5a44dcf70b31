//! The outbox: feed entries that have not reached every sink yet.
//!
//! ```text
//! feed entry (written with its commit, unmarked)
//!    └ spread_entries: marked, and every configured sink has one more entry to receive of that execution
//!         └ due_parcels → sent → advance_sinks: the row of (sink, execution) moves on; removed with the last entry
//!                     └ refused  → postpone_parcels: that execution waits, at that sink alone
//! ```
//!
//! Entries of one execution become visible in the order of their positions, so one position per sink and
//! execution is enough; across executions there is no such order. A sink that never returns costs one row per
//! execution; the entries stay in the feed. Entries that retention removes are not sent any more.

use millstream_model::id::{ExecutionKey, Name};
use millstream_model::time::Timestamp;

use crate::StoreResult;
use crate::feed::FeedEntry;

#[async_trait::async_trait]
pub trait Outbox: Send + Sync {
    /// Marks up to `limit` unmarked entries of the feed, of all tenants, in the order of their positions, and
    /// notes them for these sinks; without a sink they are only marked. One transaction: an entry is noted
    /// once. Returns how many there were.
    async fn spread_entries(&self, sinks: &[Name], limit: usize, now: Timestamp) -> StoreResult<usize>;

    /// Executions with entries that are due for this sink, the longest due first, each with its next entries
    /// in order.
    async fn due_parcels(
        &self,
        sink: &Name,
        limit: ParcelLimit,
        now: Timestamp,
    ) -> StoreResult<Vec<FeedParcel>>;

    /// Records that the sink has received these. A parcel whose `from` is not the sink's current position
    /// changes nothing: another courier has delivered it. Further entries of the execution are due at `now`,
    /// behind all others.
    async fn advance_sinks(
        &self,
        sink: &Name,
        parcels: &[DeliveredParcel],
        now: Timestamp,
    ) -> StoreResult<()>;

    /// Backoff: these are not due before their time.
    async fn postpone_parcels(&self, sink: &Name, executions: &[ParcelBackoff]) -> StoreResult<()>;

    /// What each sink has not received, by its name; sinks without a backlog are left out.
    async fn count_backlogs(&self) -> StoreResult<Vec<SinkBacklog>>;
}

#[derive(Debug, Clone, Copy)]
pub struct ParcelLimit {
    pub executions: usize,
    /// Per execution.
    pub entries: usize,
}

/// Entries of one execution that a sink is to receive.
#[derive(Debug, Clone)]
pub struct FeedParcel {
    pub execution: ExecutionKey,
    pub heard: SinkPosition,
    /// The last position that the sink knows of so far.
    pub upto: i64,
    /// Failed deliveries since the last success.
    pub attempts: u32,
    /// Empty when retention has removed them.
    pub entries: Vec<FeedEntry>,
}

/// A sink's progress with an execution. One entry may contain thousands of events, of which a part was
/// received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SinkPosition {
    /// Everything up to this position.
    pub position: i64,
    /// Plus this number of events of the entry after it.
    pub part: u32,
}

#[derive(Debug, Clone)]
pub struct DeliveredParcel {
    pub execution: ExecutionKey,
    /// The sink's position before.
    pub from: SinkPosition,
    /// The sink's position now.
    pub to: SinkPosition,
    /// Number of whole entries between the two.
    pub entries: usize,
    /// When the last of them happened.
    pub at: Timestamp,
}

#[derive(Debug, Clone)]
pub struct ParcelBackoff {
    pub execution: ExecutionKey,
    pub until: Timestamp,
    pub attempts: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkBacklog {
    pub sink: Name,
    pub executions: u64,
    pub entries: u64,
    /// Time of the oldest notice or entry that the sink has not received.
    pub oldest: Timestamp,
}
