//! What of the feed is still to be told, and to whom.
//!
//! ```text
//! feed entry (written with its commit, unmarked)
//!    └ spread: marked, and every sink of that moment has one more to hear of that execution
//!         └ due → told outside → handed_over: the row of (sink, execution) moves on, and goes with the last entry
//!                     └ refused  → put_off: that execution waits, at that sink alone
//! ```
//!
//! Entries of one execution are seen in the order of their positions, so a position per sink and execution says
//! it all; over all executions there is no such thing. A sink that is away for ever costs a row per execution, and
//! the entries are where they were. What retention removes is not told any more.

use millstream_core::id::{ExecutionKey, Name};
use millstream_core::time::Timestamp;

use crate::Result;
use crate::feed::FeedEntry;

#[async_trait::async_trait]
pub trait Outbox: Send + Sync {
    /// Marks up to `limit` unmarked entries of the feed, of all tenants, in the order of their positions, and
    /// notes them for these sinks; without a sink they are marked and that is all. One transaction: an entry is
    /// noted once. Returns how many there were.
    async fn spread(&self, sinks: &[Name], limit: usize, now: Timestamp) -> Result<usize>;

    /// Executions of which this sink has something to hear by now, the longest due first, each with its next
    /// entries in order.
    async fn due(&self, sink: &Name, limit: Limit, now: Timestamp) -> Result<Vec<Parcel>>;

    /// The sink has heard of these. One whose `from` is not where the sink is any more changes nothing: somebody
    /// else has told it. What an execution has beyond is due at `now`, behind all others.
    async fn handed_over(&self, sink: &Name, parcels: &[HandedOver], now: Timestamp) -> Result<()>;

    /// These are not due before their time.
    async fn put_off(&self, sink: &Name, executions: &[PutOff]) -> Result<()>;

    /// What each sink has not heard, by its name; sinks that have heard everything are not in it.
    async fn backlogs(&self) -> Result<Vec<SinkBacklog>>;
}

#[derive(Debug, Clone, Copy)]
pub struct Limit {
    pub executions: usize,
    /// Of each.
    pub entries: usize,
}

/// What a sink is to hear of one execution.
#[derive(Debug, Clone)]
pub struct Parcel {
    pub execution: ExecutionKey,
    pub heard: Heard,
    /// There is nothing beyond this one yet.
    pub upto: i64,
    /// How often it was put off since the sink heard something of it.
    pub attempts: u32,
    /// Empty when they are gone.
    pub entries: Vec<FeedEntry>,
}

/// How far a sink is with an execution. An entry may tell of thousands of things, of which some were heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// Everything up to this position.
    pub position: i64,
    /// And so many things of the entry after it.
    pub part: u32,
}

#[derive(Debug, Clone)]
pub struct HandedOver {
    pub execution: ExecutionKey,
    /// Where the sink was.
    pub from: Heard,
    /// Where it is.
    pub to: Heard,
    /// How many whole entries that were.
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
    /// Nothing that it has not heard is older.
    pub oldest: Timestamp,
}
