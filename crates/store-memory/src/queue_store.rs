//! Queues and people, in memory.

use std::ops::Bound;

use millstream_model::id::{Name, PersonId, TenantId};
use millstream_model::time::Timestamp;
use millstream_people::assignment::select::PersonProfile;
use millstream_people::assignment::{QueueConfig, QueueState};
use millstream_store::StoreResult;
use millstream_store::queue_store::{PeopleStore, PutQueue, QueueStore, QueueView};

use crate::MemoryStore;

#[async_trait::async_trait]
impl QueueStore for MemoryStore {
    async fn put_queue(
        &self,
        tenant: &TenantId,
        queue: &QueueConfig,
        now: Timestamp,
    ) -> StoreResult<PutQueue> {
        let mut tables = self.lock_tables();
        let key = (tenant.clone(), queue.name.clone());
        let Some(view) = tables.people.queues.get_mut(&key) else {
            let (config, state) = (queue.clone(), QueueState::Active);
            let view = QueueView { config, state, created_at: now, updated_at: now };
            tables.people.queues.insert(key, view);
            return Ok(PutQueue::Created);
        };
        if view.config == *queue {
            return Ok(PutQueue::Same);
        }
        view.config = queue.clone();
        view.updated_at = now;
        Ok(PutQueue::Changed)
    }

    async fn set_queue_state(
        &self,
        tenant: &TenantId,
        queue: &Name,
        state: QueueState,
        now: Timestamp,
    ) -> StoreResult<bool> {
        let mut tables = self.lock_tables();
        let Some(view) = tables.people.queues.get_mut(&(tenant.clone(), queue.clone())) else {
            return Ok(false);
        };
        view.state = state;
        view.updated_at = now;
        Ok(true)
    }

    async fn find_queues(&self, keys: &[(TenantId, Name)]) -> StoreResult<Vec<Option<QueueView>>> {
        let tables = self.lock_tables();
        Ok(keys.iter().map(|key| tables.people.queues.get(key).cloned()).collect())
    }

    async fn list_queues(
        &self,
        tenant: &TenantId,
        after: Option<&Name>,
        limit: usize,
    ) -> StoreResult<Vec<QueueView>> {
        let tables = self.lock_tables();
        let theirs = tables.people.queues.iter().filter(|((owner, _), _)| owner == tenant);
        let later = theirs.filter(|((_, name), _)| after.is_none_or(|after| name > after));
        Ok(later.take(limit).map(|(_, view)| view.clone()).collect())
    }
}

#[async_trait::async_trait]
impl PeopleStore for MemoryStore {
    async fn put_people(
        &self,
        tenant: &TenantId,
        people: &[PersonProfile],
        _now: Timestamp,
    ) -> StoreResult<()> {
        let mut tables = self.lock_tables();
        for profile in people {
            tables.people.people.insert((tenant.clone(), profile.person.clone()), profile.clone());
        }
        Ok(())
    }

    async fn find_people(&self, keys: &[(TenantId, PersonId)]) -> StoreResult<Vec<Option<PersonProfile>>> {
        let tables = self.lock_tables();
        Ok(keys.iter().map(|key| tables.people.people.get(key).cloned()).collect())
    }

    async fn list_people(
        &self,
        tenant: &TenantId,
        after: Option<&PersonId>,
        limit: usize,
    ) -> StoreResult<Vec<PersonProfile>> {
        let tables = self.lock_tables();
        let from = match after {
            Some(after) => Bound::Excluded((tenant.clone(), after.clone())),
            None => Bound::Unbounded,
        };
        let theirs =
            tables.people.people.range((from, Bound::Unbounded)).filter(|((owner, _), _)| owner == tenant);
        Ok(theirs.take(limit).map(|(_, profile)| profile.clone()).collect())
    }
}
