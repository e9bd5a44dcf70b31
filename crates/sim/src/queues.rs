//! The store of a simulation, continued: people's work.

use std::ops::RangeInclusive;

use millstream_core::assignment::next::Profile;
use millstream_core::assignment::stats::Totals;
use millstream_core::assignment::{Assignment, LogEntry, NewItem, QueueConfig, QueueState};
use millstream_core::id::{AssignmentId, ItemKey, Name, PersonId, TenantId, WorkerId};
use millstream_core::time::Timestamp;
use millstream_store::Result;
use millstream_store::assignments::{
    AssignmentFilter, AssignmentViews, Assignments, Caller, Due, Given, ItemFilter, ItemView, TotalsFilter,
};
use millstream_store::item_store::{Imported, ItemCommit, ItemCommitted, ItemRef, ItemStore, LoadedItem};
use millstream_store::queue_store::{PeopleStore, PutQueue, QueueStore, QueueView};

use crate::stores::Scheduled;

#[async_trait::async_trait]
impl QueueStore for Scheduled {
    async fn put_queue(&self, tenant: &TenantId, queue: &QueueConfig, now: Timestamp) -> Result<PutQueue> {
        let effect = self.truth.queues.put_queue(tenant, queue, now);
        self.role.call("put_queue", || queue.name.to_string(), effect).await
    }

    async fn set_queue_state(
        &self,
        tenant: &TenantId,
        queue: &Name,
        state: QueueState,
        now: Timestamp,
    ) -> Result<bool> {
        let effect = self.truth.queues.set_queue_state(tenant, queue, state, now);
        self.role.call("set_queue_state", || queue.to_string(), effect).await
    }

    async fn queues(&self, keys: &[(TenantId, Name)]) -> Result<Vec<Option<QueueView>>> {
        self.role.call("queues", String::new, self.truth.queues.queues(keys)).await
    }

    async fn list_queues(
        &self,
        tenant: &TenantId,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<QueueView>> {
        let effect = self.truth.queues.list_queues(tenant, after, limit);
        self.role.call("list_queues", String::new, effect).await
    }
}

#[async_trait::async_trait]
impl PeopleStore for Scheduled {
    async fn put_people(&self, tenant: &TenantId, people: &[Profile], now: Timestamp) -> Result<()> {
        self.role.call("put_people", String::new, self.truth.people.put_people(tenant, people, now)).await
    }

    async fn people(&self, keys: &[(TenantId, PersonId)]) -> Result<Vec<Option<Profile>>> {
        self.role.call("people", String::new, self.truth.people.people(keys)).await
    }

    async fn list_people(
        &self,
        tenant: &TenantId,
        after: Option<&PersonId>,
        limit: usize,
    ) -> Result<Vec<Profile>> {
        let effect = self.truth.people.list_people(tenant, after, limit);
        self.role.call("list_people", String::new, effect).await
    }
}

#[async_trait::async_trait]
impl ItemStore for Scheduled {
    async fn import(
        &self,
        tenant: &TenantId,
        queue: &Name,
        items: &[NewItem],
        now: Timestamp,
    ) -> Result<Vec<Imported>> {
        let (me, tenant, name, items) = (self.clone(), tenant.clone(), queue.clone(), items.to_vec());
        let effect = async move { me.truth.items.import(&tenant, &name, &items, now).await };
        self.role.send("import", || queue.to_string(), effect).await
    }

    async fn load_items(&self, wanted: &[ItemRef]) -> Result<Vec<Option<LoadedItem>>> {
        self.role.call("load_items", String::new, self.truth.items.load_items(wanted)).await
    }

    async fn commit_items(
        &self,
        worker: &WorkerId,
        batch: &[ItemCommit],
        now: Timestamp,
    ) -> Result<Vec<ItemCommitted>> {
        let about = || batch.iter().map(|one| one.key.item.as_str()).collect::<Vec<_>>().join(",");
        let (me, worker, owned) = (self.clone(), worker.clone(), batch.to_vec());
        let effect = async move { me.truth.items.commit_items(&worker, &owned, now).await };
        self.role.send("commit_items", about, effect).await
    }

    async fn purge_items(&self, before: Timestamp, limit: usize) -> Result<u64> {
        self.role.call("purge_items", String::new, self.truth.items.purge_items(before, limit)).await
    }
}

#[async_trait::async_trait]
impl Assignments for Scheduled {
    async fn next(&self, callers: &[Caller], now: Timestamp) -> Result<Vec<Given>> {
        let about = || callers.iter().map(|one| one.person.as_str()).collect::<Vec<_>>().join(",");
        let (me, owned) = (self.clone(), callers.to_vec());
        let effect = async move { me.truth.assignments.next(&owned, now).await };
        self.role.send("next", about, effect).await
    }

    async fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<Due>> {
        self.role.call("due_assignments", String::new, self.truth.assignments.due(now, limit)).await
    }
}

#[async_trait::async_trait]
impl AssignmentViews for Scheduled {
    async fn list_assignments(
        &self,
        tenant: &TenantId,
        filter: &AssignmentFilter,
        after: Option<AssignmentId>,
        limit: usize,
    ) -> Result<Vec<Assignment>> {
        let effect = self.truth.assignment_views.list_assignments(tenant, filter, after, limit);
        self.role.call("list_assignments", String::new, effect).await
    }

    async fn list_items(
        &self,
        tenant: &TenantId,
        filter: &ItemFilter,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Vec<ItemView>> {
        let effect = self.truth.assignment_views.list_items(tenant, filter, after, limit);
        self.role.call("list_items", String::new, effect).await
    }

    async fn item_log(&self, item: &ItemKey, after: u32, limit: usize) -> Result<Vec<LogEntry>> {
        let effect = self.truth.assignment_views.item_log(item, after, limit);
        self.role.call("item_log", || item.to_string(), effect).await
    }

    async fn totals(
        &self,
        tenant: &TenantId,
        filter: &TotalsFilter,
    ) -> Result<Vec<(Name, Option<PersonId>, Totals)>> {
        let effect = self.truth.assignment_views.totals(tenant, filter);
        self.role.call("totals", String::new, effect).await
    }

    async fn totals_by_queue(&self, days: RangeInclusive<i64>) -> Result<Vec<(TenantId, Name, Totals)>> {
        let effect = self.truth.assignment_views.totals_by_queue(days);
        self.role.call("totals_by_queue", String::new, effect).await
    }
}
