//! All key and channel names, defined in one place.
//!
//! The lane is the hash tag: on Redis Cluster, everything of a lane lives in one slot and a script may touch
//! several of its keys.

use millstream_model::id::ExecutionKey;
use millstream_model::lane::Lane;

/// The one consumer group of every lane.
pub(super) const GROUP: &str = "workers";

#[derive(Debug, Clone)]
pub(super) struct RedisKeys {
    prefix: String,
}

impl RedisKeys {
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    pub(super) fn bells_key(&self, lane: Lane) -> String {
        format!("{}:{{l{}}}:bells", self.prefix, lane.number())
    }

    /// Approximate number of unread doorbells per tenant in the lane's stream.
    pub(super) fn unread_counts_key(&self, lane: Lane) -> String {
        format!("{}:{{l{}}}:deep", self.prefix, lane.number())
    }

    /// The set of tenants with overflow.
    pub(super) fn overflow_tenants_key(&self, lane: Lane) -> String {
        format!("{}:{{l{}}}:overs", self.prefix, lane.number())
    }

    /// The overflow of a tenant is a list; the tenant's name is the suffix of its key.
    pub(super) fn overflow_prefix(&self, lane: Lane) -> String {
        format!("{}:{{l{}}}:over:", self.prefix, lane.number())
    }

    /// Present while workers move overflow up.
    pub(super) fn windowed_key(&self, lane: Lane) -> String {
        format!("{}:{{l{}}}:windowed", self.prefix, lane.number())
    }

    pub(super) fn lock_key(&self, execution: &ExecutionKey) -> String {
        format!("{}:{{l{}}}:lock:{execution}", self.prefix, Lane::of_tenant(&execution.tenant).number())
    }

    pub(super) fn generation_key(&self) -> String {
        format!("{}:generation", self.prefix)
    }

    pub(super) fn announcements_channel(&self) -> String {
        format!("{}:news", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use millstream_model::id::{ExecutionId, TenantId};

    use super::*;

    #[test]
    fn doorbells_and_locks_share_hash_tag() {
        let keys = RedisKeys::new("millstream");
        let tenant = TenantId::default_tenant();
        let lane = Lane::of_tenant(&tenant);
        let execution = ExecutionKey { tenant, execution: ExecutionId::parse("order:7").unwrap() };
        assert_eq!(keys.bells_key(lane), "millstream:{l14}:bells");
        assert_eq!(keys.lock_key(&execution), "millstream:{l14}:lock:default/order:7");
    }
}
