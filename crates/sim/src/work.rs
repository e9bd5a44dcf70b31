//! The store of a simulation, continued: work for others, incidents, relations.

use millstream_model::action_queue::ActionQueue;
use millstream_model::id::{
    ActionKey, DefinitionRef, EventId, ExecutionKey, IncidentId, Name, TenantId, WorkerId,
};
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::action_store::LeasedAction;
use millstream_store::execution_store::LeaseGrant;
use millstream_store::incidents::{
    IncidentDecision, IncidentFilter, IncidentGroupView, IncidentView, Incidents, ResolveVerdict,
};
use millstream_store::intervention::DecisionRecord;
use millstream_store::relations::{Relations, SignalView};
use millstream_store::task_board::{ExternalWorkerReport, ExternalWorkerView, TaskBoard};
use millstream_store::views::ActionRecord;
use millstream_workflow::definition::ParentClose;
use tokio::time::Instant;

use crate::stores::{ScheduledStores, execution_list};

#[async_trait::async_trait]
impl TaskBoard for ScheduledStores {
    async fn open_queues(&self, prefix: &str) -> StoreResult<Vec<ActionQueue>> {
        self.role.call("open_queues", String::new, self.truth.tasks.open_queues(prefix)).await
    }

    async fn lease_overdue(
        &self,
        worker: &WorkerId,
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> StoreResult<Vec<LeasedAction>> {
        let asked = Instant::now();
        let (me, worker, grant) = (self.clone(), worker.clone(), grant.clone());
        let effect = async move {
            let leased = me.truth.tasks.lease_overdue(&worker, &grant, now).await?;
            me.record_leases(&leased, asked, &grant);
            Ok(leased)
        };
        self.role.send("overdue", String::new, effect).await
    }

    async fn find_actions(&self, keys: &[ActionKey]) -> StoreResult<Vec<Option<ActionRecord>>> {
        self.role.call("find", String::new, self.truth.tasks.find_actions(keys)).await
    }

    async fn record_presence(&self, workers: &[ExternalWorkerReport], now: Timestamp) -> StoreResult<()> {
        self.role.call("present", String::new, self.truth.tasks.record_presence(workers, now)).await
    }

    async fn list_connected(
        &self,
        tenant: &TenantId,
        since: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<ExternalWorkerView>> {
        self.role.call("connected", String::new, self.truth.tasks.list_connected(tenant, since, limit)).await
    }
}

#[async_trait::async_trait]
impl Incidents for ScheduledStores {
    async fn list_incidents(
        &self,
        tenant: &TenantId,
        filter: &IncidentFilter,
        after: Option<i64>,
        limit: usize,
    ) -> StoreResult<Vec<IncidentView>> {
        let effect = self.truth.incidents.list_incidents(tenant, filter, after, limit);
        self.role.call("list_incidents", String::new, effect).await
    }

    async fn incident_groups(&self, tenant: &TenantId, limit: usize) -> StoreResult<Vec<IncidentGroupView>> {
        let effect = self.truth.incidents.incident_groups(tenant, limit);
        self.role.call("incident_groups", String::new, effect).await
    }

    async fn find_incidents(
        &self,
        keys: &[(TenantId, IncidentId)],
    ) -> StoreResult<Vec<Option<IncidentView>>> {
        self.role.call("incidents", String::new, self.truth.incidents.find_incidents(keys)).await
    }

    async fn resolve_incidents(
        &self,
        tenant: &TenantId,
        batch: &[(IncidentId, IncidentDecision)],
        by: &DecisionRecord,
        now: Timestamp,
    ) -> StoreResult<Vec<ResolveVerdict>> {
        let (me, tenant, batch, by) = (self.clone(), tenant.clone(), batch.to_vec(), by.clone());
        let effect = async move { me.truth.incidents.resolve_incidents(&tenant, &batch, &by, now).await };
        self.role.send("resolve", String::new, effect).await
    }
}

#[async_trait::async_trait]
impl Relations for ScheduledStores {
    async fn list_children(
        &self,
        parent: &ExecutionKey,
        close: ParentClose,
        after: Option<&ExecutionKey>,
        limit: usize,
    ) -> StoreResult<Vec<ExecutionKey>> {
        let effect = self.truth.relations.list_children(parent, close, after, limit);
        self.role.call("children", || execution_list([parent]), effect).await
    }

    async fn find_correlated(
        &self,
        tenant: &TenantId,
        correlation: &str,
        definition: Option<&Name>,
        limit: usize,
    ) -> StoreResult<Vec<(ExecutionKey, DefinitionRef)>> {
        let effect = self.truth.relations.find_correlated(tenant, correlation, definition, limit);
        self.role.call("correlated", || correlation.to_owned(), effect).await
    }

    async fn find_signals(&self, keys: &[(TenantId, EventId)]) -> StoreResult<Vec<Option<SignalView>>> {
        self.role.call("signals", String::new, self.truth.relations.find_signals(keys)).await
    }
}
