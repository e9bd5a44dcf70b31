//! Registered executors: who can perform nodes.

use std::collections::BTreeSet;

use millstream_model::id::{Name, TenantId};
use millstream_model::time::Timestamp;

use crate::StoreResult;

#[async_trait::async_trait]
pub trait ExecutorStore: Send + Sync {
    /// Registers executors, or refreshes them (a heartbeat); the last report counts, by tenant and name.
    async fn record_executor_heartbeats(
        &self,
        executors: &[RegisteredExecutor],
        now: Timestamp,
    ) -> StoreResult<()>;

    /// Removes executors; unknown ones are ignored.
    async fn retire_executors(&self, executors: &[(TenantId, Name)]) -> StoreResult<()>;

    /// Executors with a heartbeat at or after `since`, of all tenants, ordered by tenant and name.
    async fn list_executors(&self, since: Timestamp) -> StoreResult<Vec<(RegisteredExecutor, Timestamp)>>;

    /// Executors of one tenant with a heartbeat at or after `since`, ordered by name.
    async fn list_executors_of(
        &self,
        tenant: &TenantId,
        since: Timestamp,
    ) -> StoreResult<Vec<(RegisteredExecutor, Timestamp)>>;

    /// Removes executors without a heartbeat since `before`; returns how many.
    async fn forget_executors(&self, before: Timestamp) -> StoreResult<usize>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisteredExecutor {
    pub tenant: TenantId,
    pub name: Name,
    /// `http://host:port`.
    pub address: String,
    /// Empty: any role.
    pub roles: BTreeSet<String>,
    pub labels: BTreeSet<Name>,
    /// How many nodes it performs at once.
    pub capacity: u32,
    /// How many it performs now, as it reports.
    pub load: u32,
}
