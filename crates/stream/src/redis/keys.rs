//! All key and channel names, defined in one place.
//!
//! The lane is the hash tag: on Redis Cluster, everything of a lane lives in one slot and a script may touch
//! several of its keys.

use millstream_core::id::ExecutionKey;
use millstream_core::lane::Lane;

/// The one consumer group of every lane.
pub(super) const GROUP: &str = "workers";

#[derive(Debug, Clone)]
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    pub(super) fn bells(&self, lane: Lane) -> String {
        format!("{}:{{l{}}}:bells", self.prefix, lane.number())
    }

    /// Approximate number of unread doorbells per tenant in the lane's stream.
    pub(super) fn deep(&self, lane: Lane) -> String {
        format!("{}:{{l{}}}:deep", self.prefix, lane.number())
    }

    /// The set of tenants with overflow.
    pub(super) fn overs(&self, lane: Lane) -> String {
        format!("{}:{{l{}}}:overs", self.prefix, lane.number())
    }

    /// The overflow of a tenant is a list; the tenant's name is the suffix of its key.
    pub(super) fn overflow_prefix(&self, lane: Lane) -> String {
        format!("{}:{{l{}}}:over:", self.prefix, lane.number())
    }

    /// Present while workers move overflow up.
    pub(super) fn windowed(&self, lane: Lane) -> String {
        format!("{}:{{l{}}}:windowed", self.prefix, lane.number())
    }

    pub(super) fn lock(&self, execution: &ExecutionKey) -> String {
        format!("{}:{{l{}}}:lock:{execution}", self.prefix, Lane::of(&execution.tenant).number())
    }

    pub(super) fn generation(&self) -> String {
        format!("{}:generation", self.prefix)
    }

    pub(super) fn news(&self) -> String {
        format!("{}:news", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use millstream_core::id::{ExecutionId, TenantId};

    use super::*;

    #[test]
    fn bells_and_locks_of_a_tenant_share_a_hash_tag() {
        let keys = Keys::new("millstream");
        let tenant = TenantId::default_tenant();
        let lane = Lane::of(&tenant);
        let execution = ExecutionKey { tenant, execution: ExecutionId::parse("order:7").unwrap() };
        assert_eq!(keys.bells(lane), "millstream:{l14}:bells");
        assert_eq!(keys.lock(&execution), "millstream:{l14}:lock:default/order:7");
    }
}
