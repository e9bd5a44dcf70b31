//! Quotas, in memory.

use millstream_model::id::TenantId;
use millstream_model::quota::{CountedQuota, QuotaSet};
use millstream_model::raw::RawJson;
use millstream_model::status::ActionStatus;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::graph_store::NodeView;
use millstream_store::quota_store::{QuotaRevision, QuotaRows, QuotaStore, UsageQuestion};

use crate::MemoryStore;
use crate::graphs::GraphTable;
use crate::tables::{MemoryAction, MemoryTables};

#[async_trait::async_trait]
impl QuotaStore for MemoryStore {
    async fn put_quota(&self, tenant: &TenantId, quota: &QuotaSet, _: Timestamp) -> StoreResult<()> {
        let mut tables = self.lock_tables();
        tables.quota_revision += 1;
        tables.quotas.insert(tenant.clone(), quota.clone());
        Ok(())
    }

    async fn quota_of(&self, tenant: &TenantId) -> StoreResult<Option<QuotaSet>> {
        Ok(self.lock_tables().quotas.get(tenant).cloned())
    }

    async fn quotas_after(&self, known: QuotaRevision) -> StoreResult<Option<QuotaRows>> {
        let tables = self.lock_tables();
        let revision = QuotaRevision(tables.quota_revision + 1);
        let rows = || tables.quotas.iter().map(|(tenant, quota)| (tenant.clone(), quota.clone())).collect();
        Ok((revision != known).then(|| QuotaRows { revision, rows: rows() }))
    }

    async fn count_usage(&self, questions: &[UsageQuestion]) -> StoreResult<Vec<u64>> {
        let tables = self.lock_tables();
        Ok(questions.iter().map(|question| count_usage_of(&tables, question)).collect())
    }
}

fn count_usage_of(tables: &MemoryTables, UsageQuestion { tenant, counted, at_most }: &UsageQuestion) -> u64 {
    let rows = match counted {
        CountedQuota::OpenExecutions => {
            let of_tenant = tables.executions.iter().filter(|(key, _)| key.tenant == *tenant);
            of_tenant.filter(|(_, row)| !row.phase.is_ended()).count()
        }
        CountedQuota::Definitions => {
            let of_tenant = tables.definitions.iter().filter(|((owner, _), _)| owner == tenant);
            of_tenant.map(|(_, versions)| versions.len()).sum()
        }
        CountedQuota::Executors => tables.executors.keys().filter(|(owner, _)| owner == tenant).count(),
        CountedQuota::Devices => tables.devices.keys().filter(|key| key.tenant == *tenant).count(),
        CountedQuota::OpenRuns => {
            let of_tenant = tables.runs.iter().filter(|(key, _)| key.tenant == *tenant);
            of_tenant.filter(|(_, stored)| !stored.run.status().is_ended()).count()
        }
        CountedQuota::Keys => {
            tables.api_keys.iter().filter(|view| view.tenant.as_ref() == Some(tenant)).count()
        }
        CountedQuota::Queues => tables.people.queues.keys().filter(|(owner, _)| owner == tenant).count(),
        CountedQuota::People => tables.people.people.keys().filter(|(owner, _)| owner == tenant).count(),
        CountedQuota::QueueItems => {
            let of_tenant = tables.people.items.iter().filter(|(key, _)| key.tenant == *tenant);
            of_tenant.filter(|(_, row)| !row.work.item.status.is_ended()).count()
        }
        CountedQuota::TaskLeases => {
            let of_tenant = tables.executions.iter().filter(|(key, _)| key.tenant == *tenant);
            let actions = of_tenant.flat_map(|(_, row)| row.actions.values());
            actions.filter(|action| is_leased_externally(action)).count()
        }
        CountedQuota::StoredBytes => return stored_bytes(tables, tenant),
    };
    u64::try_from(rows).unwrap_or(u64::MAX).min(at_most.saturating_add(1))
}

/// Whether an external worker holds it.
fn is_leased_externally(action: &MemoryAction) -> bool {
    action.view.status == ActionStatus::Leased && action.terms.attempt.is_some()
}

fn stored_bytes(tables: &MemoryTables, tenant: &TenantId) -> u64 {
    let executions = tables.executions.iter().filter(|(key, _)| key.tenant == *tenant);
    let events = executions.flat_map(|(_, row)| row.events.values()).map(|event| event.view.payload.len());
    let items = tables.people.items.iter().filter(|(key, _)| key.tenant == *tenant);
    let items = items.map(|(_, row)| row.work.payload.len());
    let runs = tables.runs.iter().filter(|(key, _)| key.tenant == *tenant);
    let runs = runs.map(|(_, stored)| stored.run.input.len());
    let definitions = tables.definitions.iter().filter(|((owner, _), _)| owner == tenant);
    let definitions = definitions.flat_map(|(_, versions)| versions).map(|version| version.source.len());
    let queues = tables.people.queues.iter().filter(|((owner, _), _)| owner == tenant);
    let queues = queues.map(|(_, view)| view.config.to_json().len());
    let executions = tables.executions.iter().filter(|(key, _)| key.tenant == *tenant);
    let graphs = executions.filter_map(|(_, row)| row.graph.as_ref()).map(graph_bytes);
    let all = events.chain(items).chain(runs).chain(definitions).chain(queues).chain(graphs);
    u64::try_from(all.sum::<usize>()).unwrap_or(u64::MAX)
}

fn graph_bytes(graph: &GraphTable) -> usize {
    let texts = |node: &NodeView| {
        let item = node.instance.as_ref().map_or(0, |(_, item)| item.len());
        node.spec.len() + item + node.result.as_ref().map_or(0, RawJson::len)
    };
    graph.blob.len() + graph.nodes.values().map(texts).sum::<usize>()
}
