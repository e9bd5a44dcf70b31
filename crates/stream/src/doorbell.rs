//! The doorbell: publish ids, read them in a group, acknowledge, take over from the dead.
//!
//! Delivery is at least once and in no promised order. A delivery that is not acknowledged stays
//! pending with its consumer until it is acknowledged or taken over by [`Doorbells::reclaim`] after
//! it has been idle for long enough. A live consumer keeps its deliveries fresh.

use std::time::Duration;

use millstream_core::id::{ExecutionKey, WorkerId};
use millstream_core::lane::Lane;

use crate::Result;

/// Ringing and answering.
#[async_trait::async_trait]
pub trait Doorbells: Send + Sync {
    /// Ring, in one round trip. Best effort: a failure loses nothing but time.
    async fn publish(&self, bells: &[Bell]) -> Result<()>;

    /// Join the group as `consumer` (unique per process start). The reader owns a connection of its
    /// own for blocking reads.
    async fn reader(&self, consumer: &WorkerId, lanes: &[Lane]) -> Result<Box<dyn BellReader>>;

    /// Acknowledge and remove entries, in one round trip. Repeating it is harmless.
    async fn ack(&self, entries: &[EntryId]) -> Result<()>;

    /// Take over deliveries of any consumer that have been idle for at least `min_idle`, at most
    /// `max` of them. They come back with `redelivered` set.
    async fn reclaim(&self, consumer: &WorkerId, min_idle: Duration, max: usize) -> Result<Vec<Delivery>>;

    /// Keep entries that this consumer still works on from being reclaimed.
    async fn refresh(&self, consumer: &WorkerId, entries: &[EntryId]) -> Result<()>;
}

/// Reads deliveries for one consumer.
#[async_trait::async_trait]
pub trait BellReader: Send {
    /// Wait up to `block` for new deliveries, at most `per_lane` from each lane.
    ///
    /// Never drop this future: the server may have handed an entry to it. After an error the next
    /// call first returns what this consumer was given and never saw. `Amnesia` means that the group
    /// had to be made anew.
    async fn read(&mut self, per_lane: usize, block: Duration) -> Result<Vec<Delivery>>;
}

/// What operators and duties need to know of the stream.
#[async_trait::async_trait]
pub trait StreamCare: Send + Sync {
    /// Create groups where they are missing and say which generation of the stream this is: a value
    /// that is lost with the stream's memory and made anew, so that a loss is noticed.
    async fn generation(&self) -> Result<String>;

    /// One row per lane.
    async fn stats(&self) -> Result<Vec<LaneStats>>;

    /// Remove consumers that have nothing pending and have been idle for at least `min_idle`, and
    /// `gone` at once if it has nothing pending. Never one with pending entries.
    async fn remove_consumers(&self, gone: Option<&WorkerId>, min_idle: Duration) -> Result<usize>;

    /// Check that the server can be used for this: reachable, and a policy that does not evict.
    /// `Unusable` when it must be refused; texts are warnings.
    async fn check(&self) -> Result<Vec<String>>;
}

/// Which bell it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bell {
    /// The execution has undecided events.
    Mailbox(ExecutionKey),
    /// Somewhere actions of this execution are ready and unleased.
    Actions(ExecutionKey),
}

impl Bell {
    pub fn execution(&self) -> &ExecutionKey {
        match self {
            Self::Mailbox(execution) | Self::Actions(execution) => execution,
        }
    }

    pub fn lane(&self) -> Lane {
        Lane::of(&self.execution().tenant)
    }
}

/// Names one entry of the stream.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId {
    pub lane: Lane,
    pub id: String,
}

/// One entry as handed to one consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    pub entry: EntryId,
    pub bell: Bell,
    pub redelivered: Redelivered,
}

/// Whether somebody was given this entry before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redelivered {
    First,
    Again,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneStats {
    pub lane: Lane,
    /// Entries in the stream.
    pub length: u64,
    /// Delivered and not acknowledged.
    pub pending: u64,
    /// Not yet delivered, as far as the server knows.
    pub lag: u64,
}
