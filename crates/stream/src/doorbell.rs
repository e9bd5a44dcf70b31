//! The doorbell: publish ids, read them in a group, acknowledge, take over from the dead.
//!
//! Delivery is at least once and in no promised order. A delivery that is not acknowledged stays
//! pending with its consumer until it is acknowledged or taken over by [`Doorbells::reclaim`] after
//! it has been idle for long enough. A live consumer keeps its deliveries fresh.
//!
//! Tenants that share a lane do not wait for each other's backlog: a lane offers a bounded number of unread doorbells
//! of each tenant ([`TENANT_WINDOW`]), and what a tenant has beyond it, its *overflow*, moves up as these are read.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millstream_core::id::{ExecutionKey, TenantId, WorkerId};
use millstream_core::lane::Lane;

use crate::Result;

/// How many unread doorbells of one tenant a lane offers at a time, about.
pub const TENANT_WINDOW: usize = 256;

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

    /// A consumer wants doorbells of these tenants again, whom it had too many of ([`FullTenants`]): overflow of
    /// theirs moves into their lanes. Best effort.
    async fn replenish(&self, tenants: &[TenantId]) -> Result<()>;
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

    /// From now on, leave the overflow of these tenants alone, as far as this reader is concerned. Doorbells of
    /// theirs that a lane offers already are still delivered.
    fn heed(&mut self, full: &FullTenants);
}

/// The tenants of which a consumer holds enough doorbells. Clones share the set.
#[derive(Debug, Clone, Default)]
pub struct FullTenants(Arc<Mutex<BTreeSet<TenantId>>>);

impl FullTenants {
    /// Returns those that were in the set and no longer are.
    pub fn replace(&self, full: BTreeSet<TenantId>) -> Vec<TenantId> {
        let mut there = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if *there == full {
            return Vec::new();
        }
        let before = std::mem::replace(&mut *there, full);
        before.into_iter().filter(|tenant| !there.contains(tenant)).collect()
    }

    pub fn contains(&self, tenant: &TenantId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(tenant)
    }

    pub fn list(&self) -> Vec<TenantId> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

/// What operators and duties need to know of the stream.
#[async_trait::async_trait]
pub trait StreamCare: Send + Sync {
    /// Create groups where they are missing and say which generation of the stream this is: a value
    /// that is lost with the stream's memory and made anew, so that a loss is noticed.
    async fn generation(&self) -> Result<String>;

    /// Bring right what the stream counts of tenants' doorbells, and move up overflow that was left behind.
    async fn recount(&self) -> Result<()>;

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
    /// Entries in the lane and in its tenants' overflow.
    pub length: u64,
    /// Delivered and not acknowledged.
    pub pending: u64,
    /// Not yet delivered, as far as the server knows, overflow included.
    pub lag: u64,
    /// The part of `lag` that is overflow.
    pub overflow: u64,
}
