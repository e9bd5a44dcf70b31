//! The store of a simulation, continued: work for others, incidents, relations.

use millstream_core::definition::ParentClose;
use millstream_core::id::{
    ActionKey, DefinitionRef, EventId, ExecutionKey, IncidentId, Name, TenantId, WorkerId,
};
use millstream_core::placement::Queue;
use millstream_core::time::Timestamp;
use millstream_store::Result;
use millstream_store::action_store::LeasedAction;
use millstream_store::execution_store::LeaseGrant;
use millstream_store::incidents::{
    IncidentFilter, IncidentGroup, IncidentView, Incidents, Resolved, Resolving,
};
use millstream_store::intervention::Decision;
use millstream_store::relations::{Relations, SignalView};
use millstream_store::task_board::{Connected, Presence, TaskBoard};
use millstream_store::views::ActionView;
use tokio::time::Instant;

use crate::stores::{Scheduled, listed};

#[async_trait::async_trait]
impl TaskBoard for Scheduled {
    async fn open_queues(&self, prefix: &str) -> Result<Vec<Queue>> {
        self.role.call("open_queues", String::new, self.truth.tasks.open_queues(prefix)).await
    }

    async fn overdue(
        &self,
        worker: &WorkerId,
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> Result<Vec<LeasedAction>> {
        let asked = Instant::now();
        let (me, worker, grant) = (self.clone(), worker.clone(), grant.clone());
        let effect = async move {
            let leased = me.truth.tasks.overdue(&worker, &grant, now).await?;
            me.leased(&leased, asked, &grant);
            Ok(leased)
        };
        self.role.send("overdue", String::new, effect).await
    }

    async fn find(&self, keys: &[ActionKey]) -> Result<Vec<Option<ActionView>>> {
        self.role.call("find", String::new, self.truth.tasks.find(keys)).await
    }

    async fn present(&self, workers: &[Presence], now: Timestamp) -> Result<()> {
        self.role.call("present", String::new, self.truth.tasks.present(workers, now)).await
    }

    async fn connected(&self, tenant: &TenantId, since: Timestamp, limit: usize) -> Result<Vec<Connected>> {
        self.role.call("connected", String::new, self.truth.tasks.connected(tenant, since, limit)).await
    }
}

#[async_trait::async_trait]
impl Incidents for Scheduled {
    async fn list_incidents(
        &self,
        tenant: &TenantId,
        filter: &IncidentFilter,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Vec<IncidentView>> {
        let effect = self.truth.incidents.list_incidents(tenant, filter, after, limit);
        self.role.call("list_incidents", String::new, effect).await
    }

    async fn incident_groups(&self, tenant: &TenantId, limit: usize) -> Result<Vec<IncidentGroup>> {
        let effect = self.truth.incidents.incident_groups(tenant, limit);
        self.role.call("incident_groups", String::new, effect).await
    }

    async fn incidents(&self, keys: &[(TenantId, IncidentId)]) -> Result<Vec<Option<IncidentView>>> {
        self.role.call("incidents", String::new, self.truth.incidents.incidents(keys)).await
    }

    async fn resolve(
        &self,
        tenant: &TenantId,
        batch: &[(IncidentId, Resolving)],
        by: &Decision,
        now: Timestamp,
    ) -> Result<Vec<Resolved>> {
        let (me, tenant, batch, by) = (self.clone(), tenant.clone(), batch.to_vec(), by.clone());
        let effect = async move { me.truth.incidents.resolve(&tenant, &batch, &by, now).await };
        self.role.send("resolve", String::new, effect).await
    }
}

#[async_trait::async_trait]
impl Relations for Scheduled {
    async fn children(
        &self,
        parent: &ExecutionKey,
        close: ParentClose,
        after: Option<&ExecutionKey>,
        limit: usize,
    ) -> Result<Vec<ExecutionKey>> {
        let effect = self.truth.relations.children(parent, close, after, limit);
        self.role.call("children", || listed([parent]), effect).await
    }

    async fn correlated(
        &self,
        tenant: &TenantId,
        correlation: &str,
        definition: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<(ExecutionKey, DefinitionRef)>> {
        let effect = self.truth.relations.correlated(tenant, correlation, definition, limit);
        self.role.call("correlated", || correlation.to_owned(), effect).await
    }

    async fn signals(&self, keys: &[(TenantId, EventId)]) -> Result<Vec<Option<SignalView>>> {
        self.role.call("signals", String::new, self.truth.relations.signals(keys)).await
    }
}
