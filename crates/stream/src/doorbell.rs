//! Doorbells: publish execution ids, read them in a consumer group, acknowledge, reclaim from dead consumers.
//!
//! Delivery is at least once and in no promised order. An unacknowledged delivery stays pending with its
//! consumer until it is acknowledged, or taken over by [`Doorbells::reclaim_idle`] after it has been idle for long
//! enough. A live consumer keeps its deliveries fresh.
//!
//! Fair between tenants: the backlog of one tenant does not delay the others in its lane. A lane offers a
//! bounded number of unread doorbells per tenant ([`TENANT_WINDOW`]); further ones, the tenant's *overflow*,
//! move up as these are read.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millstream_model::id::{ExecutionKey, TenantId, WorkerId};
use millstream_model::lane::Lane;

use crate::StreamResult;

/// Approximate number of unread doorbells of one tenant that a lane offers at a time.
pub const TENANT_WINDOW: usize = 256;

/// Publishing, acknowledging and reclaiming doorbells.
#[async_trait::async_trait]
pub trait Doorbells: Send + Sync {
    /// Publishes doorbells in one round trip. Best effort: a failure costs latency only.
    async fn publish_bells(&self, bells: &[Doorbell]) -> StreamResult<()>;

    /// Joins the group as `consumer` (unique per process start). The reader owns a separate connection for
    /// blocking reads.
    async fn open_reader(&self, consumer: &WorkerId, lanes: &[Lane])
    -> StreamResult<Box<dyn DoorbellReader>>;

    /// Acknowledges and removes entries, in one round trip. Idempotent.
    async fn ack_entries(&self, entries: &[StreamEntryId]) -> StreamResult<()>;

    /// Takes over deliveries of any consumer that have been idle for at least `min_idle`, at most `max` of
    /// them. They are returned with `redelivered` set.
    async fn reclaim_idle(
        &self,
        consumer: &WorkerId,
        min_idle: Duration,
        max: usize,
    ) -> StreamResult<Vec<DoorbellDelivery>>;

    /// Protects entries that this consumer still works on from being reclaimed.
    async fn refresh_entries(&self, consumer: &WorkerId, entries: &[StreamEntryId]) -> StreamResult<()>;

    /// Ends the backpressure for these tenants ([`FullTenants`]): the consumer has capacity for their
    /// doorbells, and their overflow moves into the lanes. Best effort.
    async fn replenish_tenants(&self, tenants: &[TenantId]) -> StreamResult<()>;
}

/// Reads deliveries for one consumer.
#[async_trait::async_trait]
pub trait DoorbellReader: Send {
    /// Waits up to `block` for new deliveries, at most `per_lane` from each lane.
    ///
    /// Never drop this future: the server may have handed an entry to it. After an error, the next call first
    /// returns deliveries that were handed to this consumer and never returned. `Amnesia` means that the
    /// consumer group was missing and has been created again.
    async fn read_deliveries(
        &mut self,
        per_lane: usize,
        block: Duration,
    ) -> StreamResult<Vec<DoorbellDelivery>>;

    /// Backpressure: this reader leaves the overflow of these tenants in place from now on. Doorbells that a
    /// lane already offers are still delivered.
    fn skip_full_tenants(&mut self, full: &FullTenants);
}

/// Backpressure: the tenants of which a consumer holds enough doorbells. Clones share the set.
#[derive(Debug, Clone, Default)]
pub struct FullTenants(Arc<Mutex<BTreeSet<TenantId>>>);

impl FullTenants {
    /// Returns the tenants that were in the set and no longer are.
    pub fn replace_all(&self, full: BTreeSet<TenantId>) -> Vec<TenantId> {
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

/// Maintenance of the stream, for duties and operators.
#[async_trait::async_trait]
pub trait StreamMaintenance: Send + Sync {
    /// Creates missing groups and returns the generation of the stream: a random value that is lost with the
    /// stream's memory and then drawn again, so that a loss is noticed.
    async fn ensure_generation(&self) -> StreamResult<String>;

    /// Corrects the per-tenant counts of doorbells, and moves up overflow that was left behind.
    async fn recount_tenants(&self) -> StreamResult<()>;

    /// One row per lane.
    async fn lane_stats(&self) -> StreamResult<Vec<LaneStats>>;

    /// Removes consumers that have nothing pending and have been idle for at least `min_idle`, and `gone` at
    /// once if it has nothing pending. Never removes a consumer with pending entries.
    async fn remove_consumers(&self, gone: Option<&WorkerId>, min_idle: Duration) -> StreamResult<usize>;

    /// Checks that the server is usable: reachable, and with a policy that does not evict. `Unusable` if it
    /// must be refused; the texts are warnings.
    async fn check_server(&self) -> StreamResult<Vec<String>>;
}

/// The kind of doorbell, with its execution.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Doorbell {
    /// The execution has undecided events.
    Mailbox(ExecutionKey),
    /// Actions of this execution are ready and not leased.
    Actions(ExecutionKey),
}

impl Doorbell {
    pub fn execution(&self) -> &ExecutionKey {
        match self {
            Self::Mailbox(execution) | Self::Actions(execution) => execution,
        }
    }

    pub fn lane(&self) -> Lane {
        Lane::of_tenant(&self.execution().tenant)
    }
}

/// The id of a stream entry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamEntryId {
    pub lane: Lane,
    pub id: String,
}

/// One entry as delivered to one consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoorbellDelivery {
    pub entry: StreamEntryId,
    pub bell: Doorbell,
    pub redelivered: RedeliveryMark,
}

/// Whether this entry was delivered before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedeliveryMark {
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
