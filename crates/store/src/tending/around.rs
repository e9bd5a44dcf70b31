//! Environment of the item service: what the caller's process provides.

pub use millstream_core::assignment::Told;
use millstream_core::assignment::{LogEntry, QueueConfig, Waiter};
use millstream_core::id::{AssignmentId, ItemKey, PersonId, TenantId, WorkerId};
use millstream_core::problem::Problem;
use millstream_core::raw::RawJson;
use millstream_core::time::Timestamp;

use crate::action_store::{SettleVerdict, Settlement};
use crate::{Result, Stores};

#[async_trait::async_trait]
pub trait Around: Send + Sync {
    fn stores(&self) -> &Stores;
    fn now(&self) -> Timestamp;
    /// An id for an assignment that a command may create.
    fn fresh(&self) -> AssignmentId;
    /// The worker id that settlements record.
    fn settler(&self) -> &WorkerId;
    /// All problems of an answer; an answer without problems is valid. `None` where validation takes long:
    /// other callers wait for this batch, so the answer comes back as
    /// [`Tended::Unjudged`](super::Tended::Unjudged).
    async fn judge(&self, _answered: Answered<'_>) -> Option<Vec<Problem>> {
        Some(vec![Problem::new("", "answers are not accepted here")])
    }
    /// The settlement of the waiting action. `None` where the action does not exist any more.
    async fn settlement(&self, waiter: &Waiter, told: Told) -> Result<Option<Settlement>>;
    /// Called after a commit: notifies waiters.
    async fn written(&self, written: Written);
}

/// A submitted answer, with the rules to validate it by.
#[derive(Debug, Clone, Copy)]
pub struct Answered<'a> {
    pub tenant: &'a TenantId,
    pub queue: &'a QueueConfig,
    pub payload: &'a RawJson,
    pub person: &'a PersonId,
    pub answer: &'a RawJson,
}

/// Effects of a commit that are worth notifying.
#[derive(Debug, Default)]
pub struct Written {
    /// New log entries of each changed item.
    pub items: Vec<(ItemKey, Vec<LogEntry>)>,
    pub settled: Vec<(Settlement, SettleVerdict)>,
}
