//! Who can perform nodes: executors that registered themselves.

use std::collections::BTreeSet;

use millstream_core::id::{Name, TenantId};
use millstream_core::time::Timestamp;

use crate::Result;

#[async_trait::async_trait]
pub trait ExecutorStore: Send + Sync {
    /// Registers executors, or hears from them again; the last word counts, by tenant and name.
    async fn beat_executors(&self, executors: &[Executor], now: Timestamp) -> Result<()>;

    /// Takes executors off the list; unknown ones are passed over.
    async fn retire_executors(&self, executors: &[(TenantId, Name)]) -> Result<()>;

    /// Those that were heard from since `since`, of all tenants, in the order of tenant and name.
    async fn executors(&self, since: Timestamp) -> Result<Vec<(Executor, Timestamp)>>;

    /// Those of one tenant that were heard from since `since`, in the order of their names.
    async fn executors_of(&self, tenant: &TenantId, since: Timestamp) -> Result<Vec<(Executor, Timestamp)>>;

    /// Forgets those that were not heard from since `before`; how many.
    async fn forget_executors(&self, before: Timestamp) -> Result<usize>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executor {
    pub tenant: TenantId,
    pub name: Name,
    /// `http://host:port`.
    pub address: String,
    /// Empty: any role.
    pub roles: BTreeSet<String>,
    pub labels: BTreeSet<Name>,
    /// How many nodes it performs at once.
    pub capacity: u32,
    /// How many it performs now, as it says.
    pub load: u32,
}
