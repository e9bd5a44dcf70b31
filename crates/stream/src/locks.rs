//! Locks on executions: they save duplicate work; they do not protect data.
//!
//! A lock can be granted twice (a failover, a pause longer than its TTL); the fence is the expected `seq` of
//! the commit. Therefore a lost lock is a return value here and never an error.

use std::time::Duration;

use millstream_model::id::ExecutionKey;

use crate::StreamResult;

/// `SET key token NX PX`, release and extend by compare, all in batches of one round trip.
#[async_trait::async_trait]
pub trait ExecutionLocks: Send + Sync {
    /// For each key, in order: whether `token` holds it now.
    async fn acquire_locks(
        &self,
        keys: &[ExecutionKey],
        token: &LockToken,
        ttl: Duration,
    ) -> StreamResult<Vec<bool>>;

    /// Extends the locks that `token` still holds.
    async fn extend_locks(
        &self,
        keys: &[ExecutionKey],
        token: &LockToken,
        ttl: Duration,
    ) -> StreamResult<Vec<bool>>;

    /// Releases the locks that `token` still holds; others are left alone.
    async fn release_locks(&self, keys: &[ExecutionKey], token: &LockToken) -> StreamResult<()>;
}

/// The holder of a lock: unique per holder and visit, never a tenant or a host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LockToken(pub String);
