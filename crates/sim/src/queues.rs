//! The store of a simulation, continued: people's work.

use std::ops::RangeInclusive;

use millstream_model::id::{AssignmentId, ItemKey, Name, PersonId, TenantId, WorkerId};
use millstream_model::time::Timestamp;
use millstream_people::assignment::select::PersonProfile;
use millstream_people::assignment::stats::AssignmentTotals;
use millstream_people::assignment::{ItemAssignment, ItemLogEntry, NewQueueItem, QueueConfig, QueueState};
use millstream_store::StoreResult;
use millstream_store::assignments::{
    AssignmentCaller, AssignmentFilter, AssignmentViews, Assignments, ItemFilter, ItemView, NextAssignment,
    OverdueItem, TotalsFilter,
};
use millstream_store::item_store::{
    ImportVerdict, ItemCommit, ItemCommitVerdict, ItemRef, ItemStore, LoadedItem,
};
use millstream_store::queue_store::{PeopleStore, PutQueue, QueueStore, QueueView};

use crate::stores::ScheduledStores;

#[async_trait::async_trait]
impl QueueStore for ScheduledStores {
    async fn put_queue(
        &self,
        tenant: &TenantId,
        queue: &QueueConfig,
        now: Timestamp,
    ) -> StoreResult<PutQueue> {
        let effect = self.truth.queues.put_queue(tenant, queue, now);
        self.role.call("put_queue", || queue.name.to_string(), effect).await
    }

    async fn set_queue_state(
        &self,
        tenant: &TenantId,
        queue: &Name,
        state: QueueState,
        now: Timestamp,
    ) -> StoreResult<bool> {
        let effect = self.truth.queues.set_queue_state(tenant, queue, state, now);
        self.role.call("set_queue_state", || queue.to_string(), effect).await
    }

    async fn find_queues(&self, keys: &[(TenantId, Name)]) -> StoreResult<Vec<Option<QueueView>>> {
        self.role.call("queues", String::new, self.truth.queues.find_queues(keys)).await
    }

    async fn list_queues(
        &self,
        tenant: &TenantId,
        after: Option<&Name>,
        limit: usize,
    ) -> StoreResult<Vec<QueueView>> {
        let effect = self.truth.queues.list_queues(tenant, after, limit);
        self.role.call("list_queues", String::new, effect).await
    }
}

#[async_trait::async_trait]
impl PeopleStore for ScheduledStores {
    async fn put_people(
        &self,
        tenant: &TenantId,
        people: &[PersonProfile],
        now: Timestamp,
    ) -> StoreResult<()> {
        self.role.call("put_people", String::new, self.truth.people.put_people(tenant, people, now)).await
    }

    async fn find_people(&self, keys: &[(TenantId, PersonId)]) -> StoreResult<Vec<Option<PersonProfile>>> {
        self.role.call("people", String::new, self.truth.people.find_people(keys)).await
    }

    async fn list_people(
        &self,
        tenant: &TenantId,
        after: Option<&PersonId>,
        limit: usize,
    ) -> StoreResult<Vec<PersonProfile>> {
        let effect = self.truth.people.list_people(tenant, after, limit);
        self.role.call("list_people", String::new, effect).await
    }
}

#[async_trait::async_trait]
impl ItemStore for ScheduledStores {
    async fn import_items(
        &self,
        tenant: &TenantId,
        queue: &Name,
        items: &[NewQueueItem],
        now: Timestamp,
    ) -> StoreResult<Vec<ImportVerdict>> {
        let (me, tenant, name, items) = (self.clone(), tenant.clone(), queue.clone(), items.to_vec());
        let effect = async move { me.truth.items.import_items(&tenant, &name, &items, now).await };
        self.role.send("import", || queue.to_string(), effect).await
    }

    async fn load_items(&self, wanted: &[ItemRef]) -> StoreResult<Vec<Option<LoadedItem>>> {
        self.role.call("load_items", String::new, self.truth.items.load_items(wanted)).await
    }

    async fn commit_items(
        &self,
        worker: &WorkerId,
        batch: &[ItemCommit],
        now: Timestamp,
    ) -> StoreResult<Vec<ItemCommitVerdict>> {
        let about = || batch.iter().map(|one| one.key.item.as_str()).collect::<Vec<_>>().join(",");
        let (me, worker, owned) = (self.clone(), worker.clone(), batch.to_vec());
        let effect = async move { me.truth.items.commit_items(&worker, &owned, now).await };
        self.role.send("commit_items", about, effect).await
    }

    async fn purge_items(&self, before: Timestamp, limit: usize) -> StoreResult<u64> {
        self.role.call("purge_items", String::new, self.truth.items.purge_items(before, limit)).await
    }
}

#[async_trait::async_trait]
impl Assignments for ScheduledStores {
    async fn assign_next(
        &self,
        callers: &[AssignmentCaller],
        now: Timestamp,
    ) -> StoreResult<Vec<NextAssignment>> {
        let about = || callers.iter().map(|one| one.person.as_str()).collect::<Vec<_>>().join(",");
        let (me, owned) = (self.clone(), callers.to_vec());
        let effect = async move { me.truth.assignments.assign_next(&owned, now).await };
        self.role.send("next", about, effect).await
    }

    async fn list_overdue(&self, now: Timestamp, limit: usize) -> StoreResult<Vec<OverdueItem>> {
        self.role.call("due_assignments", String::new, self.truth.assignments.list_overdue(now, limit)).await
    }
}

#[async_trait::async_trait]
impl AssignmentViews for ScheduledStores {
    async fn list_assignments(
        &self,
        tenant: &TenantId,
        filter: &AssignmentFilter,
        after: Option<AssignmentId>,
        limit: usize,
    ) -> StoreResult<Vec<ItemAssignment>> {
        let effect = self.truth.assignment_views.list_assignments(tenant, filter, after, limit);
        self.role.call("list_assignments", String::new, effect).await
    }

    async fn list_items(
        &self,
        tenant: &TenantId,
        filter: &ItemFilter,
        after: Option<i64>,
        limit: usize,
    ) -> StoreResult<Vec<ItemView>> {
        let effect = self.truth.assignment_views.list_items(tenant, filter, after, limit);
        self.role.call("list_items", String::new, effect).await
    }

    async fn item_log(&self, item: &ItemKey, after: u32, limit: usize) -> StoreResult<Vec<ItemLogEntry>> {
        let effect = self.truth.assignment_views.item_log(item, after, limit);
        self.role.call("item_log", || item.to_string(), effect).await
    }

    async fn sum_totals(
        &self,
        tenant: &TenantId,
        filter: &TotalsFilter,
    ) -> StoreResult<Vec<(Name, Option<PersonId>, AssignmentTotals)>> {
        let effect = self.truth.assignment_views.sum_totals(tenant, filter);
        self.role.call("totals", String::new, effect).await
    }

    async fn totals_by_queue(
        &self,
        days: RangeInclusive<i64>,
    ) -> StoreResult<Vec<(TenantId, Name, AssignmentTotals)>> {
        let effect = self.truth.assignment_views.totals_by_queue(days);
        self.role.call("totals_by_queue", String::new, effect).await
    }
}
