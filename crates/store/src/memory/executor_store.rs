//! Executors, in memory.

use millstream_core::id::{Name, TenantId};
use millstream_core::time::Timestamp;

use super::Memory;
use crate::Result;
use crate::executor_store::{Executor, ExecutorStore};

#[async_trait::async_trait]
impl ExecutorStore for Memory {
    async fn beat_executors(&self, executors: &[Executor], now: Timestamp) -> Result<()> {
        let mut tables = self.tables();
        for executor in executors {
            let key = (executor.tenant.clone(), executor.name.clone());
            tables.executors.insert(key, (executor.clone(), now));
        }
        Ok(())
    }

    async fn retire_executors(&self, executors: &[(TenantId, Name)]) -> Result<()> {
        self.tables().executors.retain(|key, _| !executors.contains(key));
        Ok(())
    }

    async fn executors(&self, since: Timestamp) -> Result<Vec<(Executor, Timestamp)>> {
        let tables = self.tables();
        Ok(tables.executors.values().filter(|(_, seen_at)| *seen_at >= since).cloned().collect())
    }

    async fn executors_of(&self, tenant: &TenantId, since: Timestamp) -> Result<Vec<(Executor, Timestamp)>> {
        let tables = self.tables();
        let of_tenant = tables.executors.values().filter(|(executor, _)| executor.tenant == *tenant);
        Ok(of_tenant.filter(|(_, seen_at)| *seen_at >= since).cloned().collect())
    }

    async fn forget_executors(&self, before: Timestamp) -> Result<usize> {
        let mut tables = self.tables();
        let known = tables.executors.len();
        tables.executors.retain(|_, (_, seen_at)| *seen_at >= before);
        Ok(known - tables.executors.len())
    }
}
