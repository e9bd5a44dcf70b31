//! Queues of people's work, and the people.

use millstream_model::id::{Name, PersonId, TenantId};
use millstream_model::time::Timestamp;
use millstream_people::assignment::select::PersonProfile;
use millstream_people::assignment::{QueueConfig, QueueState};

use crate::StoreResult;

#[async_trait::async_trait]
pub trait QueueStore: Send + Sync {
    /// Creates a queue, which is active, or replaces the configuration of an existing one: its pause and its
    /// items stay as they are. The new configuration applies to them from now on.
    async fn put_queue(
        &self,
        tenant: &TenantId,
        queue: &QueueConfig,
        now: Timestamp,
    ) -> StoreResult<PutQueue>;

    /// Pause or resume. `false` when there is no such queue.
    async fn set_queue_state(
        &self,
        tenant: &TenantId,
        queue: &Name,
        state: QueueState,
        now: Timestamp,
    ) -> StoreResult<bool>;

    /// In the order asked; `None` where there is none.
    async fn find_queues(&self, keys: &[(TenantId, Name)]) -> StoreResult<Vec<Option<QueueView>>>;

    /// By name, after `after`.
    async fn list_queues(
        &self,
        tenant: &TenantId,
        after: Option<&Name>,
        limit: usize,
    ) -> StoreResult<Vec<QueueView>>;
}

#[async_trait::async_trait]
pub trait PeopleStore: Send + Sync {
    /// Replaces the profiles of people. A queue without required skills needs no profile.
    async fn put_people(
        &self,
        tenant: &TenantId,
        people: &[PersonProfile],
        now: Timestamp,
    ) -> StoreResult<()>;

    /// In the order asked; `None` for a person without a profile.
    async fn find_people(&self, keys: &[(TenantId, PersonId)]) -> StoreResult<Vec<Option<PersonProfile>>>;

    /// By name, after `after`.
    async fn list_people(
        &self,
        tenant: &TenantId,
        after: Option<&PersonId>,
        limit: usize,
    ) -> StoreResult<Vec<PersonProfile>>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutQueue {
    Created,
    Changed,
    /// Unchanged.
    Same,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueView {
    pub config: QueueConfig,
    pub state: QueueState,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}
