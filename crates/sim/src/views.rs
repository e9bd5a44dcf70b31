//! The rest of the store as seen by one process: reads, heartbeats, cleanup.

use std::time::Duration;

use millstream_core::id::{AcceptNo, EventId, ExecutionKey, Name, Seq, TenantId, WorkerId};
use millstream_core::time::Timestamp;
use millstream_store::Result;
use millstream_store::definition_store::{DefinitionStore, NewDefinition, PutDefinition, StoredDefinition};
use millstream_store::housekeeping::{Housekeeping, Outlived};
use millstream_store::intervention::{Burial, Decision, Interventions, Pausing, RecordedDecision, Retried};
use millstream_store::views::{
    ActionPlace, ActionView, Backlog, EventFilter, EventView, EventViews, ExecutionFilter, ExecutionView,
    ExecutionViews, HistoryPage, TimerPlace, TimerView,
};
use millstream_store::worker_store::{WorkerBeat, WorkerStore, WorkerView};

use crate::stores::{Scheduled, listed};

#[async_trait::async_trait]
impl ExecutionViews for Scheduled {
    async fn executions(&self, keys: &[ExecutionKey]) -> Result<Vec<Option<ExecutionView>>> {
        self.role.call("executions", || listed(keys), self.truth.execution_views.executions(keys)).await
    }

    async fn list_executions(
        &self,
        tenant: &TenantId,
        filter: &ExecutionFilter,
        after: Option<AcceptNo>,
        limit: usize,
    ) -> Result<Vec<ExecutionView>> {
        let effect = self.truth.execution_views.list_executions(tenant, filter, after, limit);
        self.role.call("list_executions", String::new, effect).await
    }

    async fn history(&self, execution: &ExecutionKey, after: Seq, limit: usize) -> Result<HistoryPage> {
        let effect = self.truth.execution_views.history(execution, after, limit);
        self.role.call("history", || listed([execution]), effect).await
    }

    async fn actions(
        &self,
        execution: &ExecutionKey,
        after: Option<ActionPlace>,
        limit: usize,
    ) -> Result<Vec<ActionView>> {
        let effect = self.truth.execution_views.actions(execution, after, limit);
        self.role.call("actions", || listed([execution]), effect).await
    }

    async fn timers(
        &self,
        execution: &ExecutionKey,
        after: Option<TimerPlace>,
        limit: usize,
    ) -> Result<Vec<TimerView>> {
        let effect = self.truth.execution_views.timers(execution, after, limit);
        self.role.call("timers", || listed([execution]), effect).await
    }
}

#[async_trait::async_trait]
impl EventViews for Scheduled {
    async fn events(&self, keys: &[(TenantId, EventId)]) -> Result<Vec<Option<EventView>>> {
        self.role.call("events", String::new, self.truth.event_views.events(keys)).await
    }

    async fn list_events(
        &self,
        tenant: &TenantId,
        filter: &EventFilter,
        after: Option<AcceptNo>,
        limit: usize,
    ) -> Result<Vec<EventView>> {
        let effect = self.truth.event_views.list_events(tenant, filter, after, limit);
        self.role.call("list_events", String::new, effect).await
    }

    async fn backlog(&self) -> Result<Backlog> {
        self.role.call("backlog", String::new, self.truth.event_views.backlog()).await
    }
}

#[async_trait::async_trait]
impl DefinitionStore for Scheduled {
    async fn put(
        &self,
        tenant: &TenantId,
        definition: &NewDefinition,
        now: Timestamp,
    ) -> Result<PutDefinition> {
        let effect = self.truth.definitions.put(tenant, definition, now);
        self.role.call("put_definition", String::new, effect).await
    }

    async fn get(
        &self,
        tenant: &TenantId,
        name: &Name,
        version: Option<i32>,
    ) -> Result<Option<StoredDefinition>> {
        let effect = self.truth.definitions.get(tenant, name, version);
        self.role.call("definition", || name.to_string(), effect).await
    }

    async fn list(
        &self,
        tenant: &TenantId,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<StoredDefinition>> {
        let effect = self.truth.definitions.list(tenant, after, limit);
        self.role.call("definitions", String::new, effect).await
    }
}

#[async_trait::async_trait]
impl Interventions for Scheduled {
    async fn bury(&self, burials: &[Burial], now: Timestamp) -> Result<()> {
        let about = || listed(burials.iter().map(|burial| &burial.execution));
        let (interventions, owned) = (self.truth.interventions.clone(), burials.to_vec());
        self.role.send("bury", about, async move { interventions.bury(&owned, now).await }).await
    }

    async fn pause(&self, pauses: &[Pausing], now: Timestamp) -> Result<()> {
        let about = || listed(pauses.iter().map(|pause| &pause.execution));
        self.role.call("pause", about, self.truth.interventions.pause(pauses, now)).await
    }

    async fn retry(
        &self,
        tenant: &TenantId,
        event: EventId,
        by: &Decision,
        now: Timestamp,
    ) -> Result<Retried> {
        let effect = self.truth.interventions.retry(tenant, event, by, now);
        self.role.call("retry", || event.to_string(), effect).await
    }

    async fn decisions(&self, execution: &ExecutionKey) -> Result<Vec<RecordedDecision>> {
        let effect = self.truth.interventions.decisions(execution);
        self.role.call("decisions", || listed([execution]), effect).await
    }
}

#[async_trait::async_trait]
impl WorkerStore for Scheduled {
    async fn beat(&self, worker: &WorkerBeat, now: Timestamp) -> Result<()> {
        self.role.call("beat", String::new, self.truth.workers.beat(worker, now)).await
    }

    async fn leave(&self, worker: &WorkerId) -> Result<()> {
        self.role.call("leave", String::new, self.truth.workers.leave(worker)).await
    }

    async fn workers(&self, since: Timestamp) -> Result<Vec<WorkerView>> {
        self.role.call("workers", String::new, self.truth.workers.workers(since)).await
    }

    async fn take_duty(
        &self,
        duty: &str,
        worker: &WorkerId,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<Option<Timestamp>> {
        let effect = self.truth.workers.take_duty(duty, worker, ttl, now);
        self.role.call("take_duty", || duty.to_owned(), effect).await
    }

    async fn finish_duty(&self, duty: &str, worker: &WorkerId, done_at: Timestamp) -> Result<()> {
        let effect = self.truth.workers.finish_duty(duty, worker, done_at);
        self.role.call("finish_duty", || duty.to_owned(), effect).await
    }
}

#[async_trait::async_trait]
impl Housekeeping for Scheduled {
    async fn ping(&self) -> Result<Timestamp> {
        self.role.call("ping", String::new, self.truth.housekeeping.ping()).await
    }

    async fn purge_executions(&self, outlived: Outlived, limit: usize) -> Result<u64> {
        let effect = self.truth.housekeeping.purge_executions(outlived, limit);
        self.role.call("purge_executions", String::new, effect).await
    }

    async fn purge_keys(&self, before: Timestamp, limit: usize) -> Result<u64> {
        self.role.call("purge_keys", String::new, self.truth.housekeeping.purge_keys(before, limit)).await
    }

    async fn purge_runs(&self, outlived: Outlived, limit: usize) -> Result<u64> {
        let effect = self.truth.housekeeping.purge_runs(outlived, limit);
        self.role.call("purge_runs", String::new, effect).await
    }

    async fn purge_workers(&self, before: Timestamp) -> Result<u64> {
        self.role.call("purge_workers", String::new, self.truth.housekeeping.purge_workers(before)).await
    }
}
