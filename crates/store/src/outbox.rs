//! The outbox: feed entries that have not reached every sink yet.
//!
//! ```text
//! feed entry (written with its commit, unmarked)
//!    └ spread: marked, and every configured sink has one more entry to receive of that execution
//!         └ due → sent → handed_over: the row of (sink, execution) moves on; removed with the last entry
//!                     └ refused  → put_off: that execution waits, at that sink alone
//! ```
//!
//! Entries of one execution become visible in the order of their positions, so one position per sink and
//! execution is enough; across executions there is no such order. A sink that never returns costs one row per
//! execution; the entries stay in the feed. Entries that retention removes are not sent any more.

use millstream_core::id::{ExecutionKey, Name};
use millstream_core::time::Timestamp;

use crate::Result;
use crate::feed::FeedEntry;

#[async_trait::async_trait]
pub trait Outbox: Send + Sync {
    /// Marks up to `limit` unmarked entries of the feed, of all tenants, in the order of their positions, and
    /// notes them for these sinks; without a sink they are only marked. One transaction: an entry is noted
    /// once. Returns how many there were.
    async fn spread(&self, sinks: &[Name], limit: usize, now: Timestamp) -> Result<usize>;

    /// Executions with entries that are due for this sink, the longest due first, each with its next entries
    /// in order.
    async fn due(&self, sink: &Name, limit: Limit, now: Timestamp) -> Result<Vec<Parcel>>;

    /// Records that the sink has received these. A parcel whose `from` is not the sink's current position
    /// changes nothing: another courier has delivered it. Further entries of the execution are due at `now`,
    /// behind all others.
    async fn handed_over(&self, sink: &Name, parcels: &[HandedOver], now: Timestamp) -> Result<()>;

    /// Backoff: these are not due before their time.
    async fn put_off(&self, sink: &Name, executions: &[PutOff]) -> Result<()>;

    /// What each sink has not received, by its name; sinks without a backlog are left out.
    async fn backlogs(&self) -> Result<Vec<SinkBacklog>>;
}

#[derive(Debug, Clone, Copy)]
pub struct Limit {
    pub executions: usize,
    /// Per execution.
    pub entries: usize,
}

/// Entries of one execution that a sink is to receive.
#[derive(Debug, Clone)]
pub struct Parcel {
    pub execution: ExecutionKey,
    pub heard: Heard,
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
pub struct Heard {
    /// Everything up to this position.
    pub position: i64,
    /// Plus this number of events of the entry after it.
    pub part: u32,
}

#[derive(Debug, Clone)]
pub struct HandedOver {
    pub execution: ExecutionKey,
    /// The sink's position before.
    pub from: Heard,
    /// The sink's position now.
    pub to: Heard,
    /// Number of whole entries between the two.
    pub entries: usize,
    /// When the last of them happened.
    pub at: Timestamp,
}

#[derive(Debug, Clone)]
pub struct PutOff {
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
