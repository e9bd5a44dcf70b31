//! The task board, in memory.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use millstream_model::action_queue::ActionQueue;
use millstream_model::id::{ActionKey, TenantId, WorkerId};
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::action_store::LeasedAction;
use millstream_store::execution_store::LeaseGrant;
use millstream_store::task_board::{ExternalWorkerReport, ExternalWorkerView, TASK_WORKERS_KEPT, TaskBoard};
use millstream_store::views::ActionRecord;

use crate::{MemoryStore, leasing};

#[async_trait::async_trait]
impl TaskBoard for MemoryStore {
    async fn open_queues(&self, prefix: &str) -> StoreResult<Vec<ActionQueue>> {
        let tables = self.lock_tables();
        let actions = tables.executions.values().flat_map(|row| row.actions.values());
        let queues: BTreeSet<ActionQueue> = actions
            .filter(|action| action.due_at().is_some() && action.terms.queue.as_str().starts_with(prefix))
            .map(|action| action.terms.queue.clone())
            .collect();
        Ok(queues.into_iter().collect())
    }

    async fn lease_overdue(
        &self,
        worker: &WorkerId,
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> StoreResult<Vec<LeasedAction>> {
        let mut tables = self.lock_tables();
        let due = tables.due_actions(now, |action| action.expires_at());
        let lease =
            |(key, action)| leasing::hand_over(tables.executions.get_mut(&key)?, &action, worker, grant, now);
        Ok(due.into_iter().take(grant.slots).filter_map(lease).collect())
    }

    async fn find_actions(&self, keys: &[ActionKey]) -> StoreResult<Vec<Option<ActionRecord>>> {
        let tables = self.lock_tables();
        let view = |key: &ActionKey| {
            let row = tables.executions.get(&key.execution)?;
            row.actions.get(&(key.seq, key.action.clone())).map(|action| action.view.clone())
        };
        Ok(keys.iter().map(view).collect())
    }

    async fn record_presence(&self, workers: &[ExternalWorkerReport], now: Timestamp) -> StoreResult<()> {
        let mut tables = self.lock_tables();
        for presence in workers {
            let key = (presence.tenant.clone(), presence.name.clone());
            tables.external.insert(key, ExternalWorkerView { presence: presence.clone(), seen_at: now });
        }
        let tenants: BTreeSet<&TenantId> = workers.iter().map(|presence| &presence.tenant).collect();
        for tenant in tenants {
            let of_tenant = tables.external.iter().filter(|((owner, _), _)| owner == tenant);
            let mut oldest_last: Vec<_> =
                of_tenant.map(|(key, found)| (Reverse(found.seen_at), key.clone())).collect();
            oldest_last.sort();
            for (_, key) in oldest_last.into_iter().skip(TASK_WORKERS_KEPT) {
                tables.external.remove(&key);
            }
        }
        Ok(())
    }

    async fn list_connected(
        &self,
        tenant: &TenantId,
        since: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<ExternalWorkerView>> {
        let tables = self.lock_tables();
        let connected = tables.external.values();
        let is_there =
            |found: &&ExternalWorkerView| found.presence.tenant == *tenant && found.seen_at >= since;
        Ok(connected.filter(is_there).take(limit).cloned().collect())
    }
}
