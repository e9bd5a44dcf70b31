//! Executors, in memory.

use millstream_model::id::{Name, TenantId};
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::executor_store::{ExecutorStore, RegisteredExecutor};

use crate::MemoryStore;

#[async_trait::async_trait]
impl ExecutorStore for MemoryStore {
    async fn record_executor_heartbeats(
        &self,
        executors: &[RegisteredExecutor],
        now: Timestamp,
    ) -> StoreResult<()> {
        let mut tables = self.lock_tables();
        for executor in executors {
            let key = (executor.tenant.clone(), executor.name.clone());
            tables.executors.insert(key, (executor.clone(), now));
        }
        Ok(())
    }

    async fn retire_executors(&self, executors: &[(TenantId, Name)]) -> StoreResult<()> {
        self.lock_tables().executors.retain(|key, _| !executors.contains(key));
        Ok(())
    }

    async fn list_executors(&self, since: Timestamp) -> StoreResult<Vec<(RegisteredExecutor, Timestamp)>> {
        let tables = self.lock_tables();
        Ok(tables.executors.values().filter(|(_, seen_at)| *seen_at >= since).cloned().collect())
    }

    async fn list_executors_of(
        &self,
        tenant: &TenantId,
        since: Timestamp,
    ) -> StoreResult<Vec<(RegisteredExecutor, Timestamp)>> {
        let tables = self.lock_tables();
        let of_tenant = tables.executors.values().filter(|(executor, _)| executor.tenant == *tenant);
        Ok(of_tenant.filter(|(_, seen_at)| *seen_at >= since).cloned().collect())
    }

    async fn forget_executors(&self, before: Timestamp) -> StoreResult<usize> {
        let mut tables = self.lock_tables();
        let known = tables.executors.len();
        tables.executors.retain(|_, (_, seen_at)| *seen_at >= before);
        Ok(known - tables.executors.len())
    }
}
