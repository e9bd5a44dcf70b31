//! The rest of the store as seen by one process: reads, heartbeats, cleanup.

use std::time::Duration;

use millstream_model::id::{AcceptNo, EventId, ExecutionKey, Name, Seq, TenantId, WorkerId};
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::definition_store::{DefinitionStore, NewDefinition, PutDefinition, StoredDefinition};
use millstream_store::housekeeping::{Housekeeping, RetentionCutoffs};
use millstream_store::intervention::{
    DecisionRecord, EventBurial, ExecutionPause, Interventions, RecordedDecision, RetryVerdict,
};
use millstream_store::views::{
    ActionPlace, ActionRecord, EventBacklog, EventFilter, EventView, EventViews, ExecutionFilter,
    ExecutionView, ExecutionViews, HistoryPage, TimerPlace, TimerView,
};
use millstream_store::worker_store::{WorkerHeartbeat, WorkerRecord, WorkerStore};

use crate::stores::{ScheduledStores, execution_list};

#[async_trait::async_trait]
impl ExecutionViews for ScheduledStores {
    async fn find_executions(&self, keys: &[ExecutionKey]) -> StoreResult<Vec<Option<ExecutionView>>> {
        self.role
            .call("executions", || execution_list(keys), self.truth.execution_views.find_executions(keys))
            .await
    }

    async fn list_executions(
        &self,
        tenant: &TenantId,
        filter: &ExecutionFilter,
        after: Option<AcceptNo>,
        limit: usize,
    ) -> StoreResult<Vec<ExecutionView>> {
        let effect = self.truth.execution_views.list_executions(tenant, filter, after, limit);
        self.role.call("list_executions", String::new, effect).await
    }

    async fn read_history(
        &self,
        execution: &ExecutionKey,
        after: Seq,
        limit: usize,
    ) -> StoreResult<HistoryPage> {
        let effect = self.truth.execution_views.read_history(execution, after, limit);
        self.role.call("history", || execution_list([execution]), effect).await
    }

    async fn list_actions(
        &self,
        execution: &ExecutionKey,
        after: Option<ActionPlace>,
        limit: usize,
    ) -> StoreResult<Vec<ActionRecord>> {
        let effect = self.truth.execution_views.list_actions(execution, after, limit);
        self.role.call("actions", || execution_list([execution]), effect).await
    }

    async fn list_timers(
        &self,
        execution: &ExecutionKey,
        after: Option<TimerPlace>,
        limit: usize,
    ) -> StoreResult<Vec<TimerView>> {
        let effect = self.truth.execution_views.list_timers(execution, after, limit);
        self.role.call("timers", || execution_list([execution]), effect).await
    }
}

#[async_trait::async_trait]
impl EventViews for ScheduledStores {
    async fn find_events(&self, keys: &[(TenantId, EventId)]) -> StoreResult<Vec<Option<EventView>>> {
        self.role.call("events", String::new, self.truth.event_views.find_events(keys)).await
    }

    async fn list_events(
        &self,
        tenant: &TenantId,
        filter: &EventFilter,
        after: Option<AcceptNo>,
        limit: usize,
    ) -> StoreResult<Vec<EventView>> {
        let effect = self.truth.event_views.list_events(tenant, filter, after, limit);
        self.role.call("list_events", String::new, effect).await
    }

    async fn count_backlog(&self) -> StoreResult<EventBacklog> {
        self.role.call("backlog", String::new, self.truth.event_views.count_backlog()).await
    }
}

#[async_trait::async_trait]
impl DefinitionStore for ScheduledStores {
    async fn put_definition(
        &self,
        tenant: &TenantId,
        definition: &NewDefinition,
        now: Timestamp,
    ) -> StoreResult<PutDefinition> {
        let effect = self.truth.definitions.put_definition(tenant, definition, now);
        self.role.call("put_definition", String::new, effect).await
    }

    async fn get_definition(
        &self,
        tenant: &TenantId,
        name: &Name,
        version: Option<i32>,
    ) -> StoreResult<Option<StoredDefinition>> {
        let effect = self.truth.definitions.get_definition(tenant, name, version);
        self.role.call("definition", || name.to_string(), effect).await
    }

    async fn list_definitions(
        &self,
        tenant: &TenantId,
        after: Option<&Name>,
        limit: usize,
    ) -> StoreResult<Vec<StoredDefinition>> {
        let effect = self.truth.definitions.list_definitions(tenant, after, limit);
        self.role.call("definitions", String::new, effect).await
    }
}

#[async_trait::async_trait]
impl Interventions for ScheduledStores {
    async fn bury_events(&self, burials: &[EventBurial], now: Timestamp) -> StoreResult<()> {
        let about = || execution_list(burials.iter().map(|burial| &burial.execution));
        let (interventions, owned) = (self.truth.interventions.clone(), burials.to_vec());
        self.role.send("bury", about, async move { interventions.bury_events(&owned, now).await }).await
    }

    async fn pause_executions(&self, pauses: &[ExecutionPause], now: Timestamp) -> StoreResult<()> {
        let about = || execution_list(pauses.iter().map(|pause| &pause.execution));
        self.role.call("pause", about, self.truth.interventions.pause_executions(pauses, now)).await
    }

    async fn retry_event(
        &self,
        tenant: &TenantId,
        event: EventId,
        by: &DecisionRecord,
        now: Timestamp,
    ) -> StoreResult<RetryVerdict> {
        let effect = self.truth.interventions.retry_event(tenant, event, by, now);
        self.role.call("retry", || event.to_string(), effect).await
    }

    async fn list_decisions(&self, execution: &ExecutionKey) -> StoreResult<Vec<RecordedDecision>> {
        let effect = self.truth.interventions.list_decisions(execution);
        self.role.call("decisions", || execution_list([execution]), effect).await
    }
}

#[async_trait::async_trait]
impl WorkerStore for ScheduledStores {
    async fn record_worker_heartbeat(&self, worker: &WorkerHeartbeat, now: Timestamp) -> StoreResult<()> {
        self.role.call("beat", String::new, self.truth.workers.record_worker_heartbeat(worker, now)).await
    }

    async fn deregister_worker(&self, worker: &WorkerId) -> StoreResult<()> {
        self.role.call("leave", String::new, self.truth.workers.deregister_worker(worker)).await
    }

    async fn list_workers(&self, since: Timestamp) -> StoreResult<Vec<WorkerRecord>> {
        self.role.call("workers", String::new, self.truth.workers.list_workers(since)).await
    }

    async fn take_duty(
        &self,
        duty: &str,
        worker: &WorkerId,
        ttl: Duration,
        now: Timestamp,
    ) -> StoreResult<Option<Timestamp>> {
        let effect = self.truth.workers.take_duty(duty, worker, ttl, now);
        self.role.call("take_duty", || duty.to_owned(), effect).await
    }

    async fn finish_duty(&self, duty: &str, worker: &WorkerId, done_at: Timestamp) -> StoreResult<()> {
        let effect = self.truth.workers.finish_duty(duty, worker, done_at);
        self.role.call("finish_duty", || duty.to_owned(), effect).await
    }
}

#[async_trait::async_trait]
impl Housekeeping for ScheduledStores {
    async fn ping(&self) -> StoreResult<Timestamp> {
        self.role.call("ping", String::new, self.truth.housekeeping.ping()).await
    }

    async fn purge_executions(&self, outlived: RetentionCutoffs, limit: usize) -> StoreResult<u64> {
        let effect = self.truth.housekeeping.purge_executions(outlived, limit);
        self.role.call("purge_executions", String::new, effect).await
    }

    async fn purge_keys(&self, before: Timestamp, limit: usize) -> StoreResult<u64> {
        self.role.call("purge_keys", String::new, self.truth.housekeeping.purge_keys(before, limit)).await
    }

    async fn purge_runs(&self, outlived: RetentionCutoffs, limit: usize) -> StoreResult<u64> {
        let effect = self.truth.housekeeping.purge_runs(outlived, limit);
        self.role.call("purge_runs", String::new, effect).await
    }

    async fn purge_workers(&self, before: Timestamp) -> StoreResult<u64> {
        self.role.call("purge_workers", String::new, self.truth.housekeeping.purge_workers(before)).await
    }
}
