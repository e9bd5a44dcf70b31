//! Environment of the item service: what the caller's process provides.

use millstream_model::id::{AssignmentId, ItemKey, PersonId, TenantId, WorkerId};
use millstream_model::problem::ValidationProblem;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
pub use millstream_people::assignment::ItemOutcome;
use millstream_people::assignment::{ItemLogEntry, ItemWaiter, QueueConfig};

use crate::action_store::{SettleVerdict, Settlement};
use crate::{StoreResult, Stores};

#[async_trait::async_trait]
pub trait ItemEnvironment: Send + Sync {
    fn stores(&self) -> &Stores;
    fn now(&self) -> Timestamp;
    /// An id for an assignment that a command may create.
    fn new_assignment_id(&self) -> AssignmentId;
    /// The worker id that settlements record.
    fn settling_worker(&self) -> &WorkerId;
    /// All problems of an answer; an answer without problems is valid. `None` where validation takes long:
    /// other callers wait for this batch, so the answer comes back as
    /// [`Tended::Unjudged`](super::ItemReply::Unjudged).
    async fn validate_answer(&self, _answered: SubmittedAnswer<'_>) -> Option<Vec<ValidationProblem>> {
        Some(vec![ValidationProblem::new("", "answers are not accepted here")])
    }
    /// The settlement of the waiting action. `None` where the action does not exist any more.
    async fn build_settlement(
        &self,
        waiter: &ItemWaiter,
        told: ItemOutcome,
    ) -> StoreResult<Option<Settlement>>;
    /// Called after a commit: notifies waiters.
    async fn publish_changes(&self, written: WrittenItems);
}

/// A submitted answer, with the rules to validate it by.
#[derive(Debug, Clone, Copy)]
pub struct SubmittedAnswer<'a> {
    pub tenant: &'a TenantId,
    pub queue: &'a QueueConfig,
    pub payload: &'a RawJson,
    pub person: &'a PersonId,
    pub answer: &'a RawJson,
}

/// Effects of a commit that are worth notifying.
#[derive(Debug, Default)]
pub struct WrittenItems {
    /// New log entries of each changed item.
    pub items: Vec<(ItemKey, Vec<ItemLogEntry>)>,
    pub settled: Vec<(Settlement, SettleVerdict)>,
}
