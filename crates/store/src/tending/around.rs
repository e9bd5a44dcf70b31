//! What a shell knows when something is done to an item.

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
    /// For an assignment that may come of something that is asked.
    fn fresh(&self) -> AssignmentId;
    /// Who settles.
    fn settler(&self) -> &WorkerId;
    /// Everything that is wrong with an answer; it is valid if that is nothing. `None` where finding out takes long:
    /// others wait for this batch, so the answer comes back as [`Tended::Unjudged`](super::Tended::Unjudged).
    async fn judge(&self, _answered: Answered<'_>) -> Option<Vec<Problem>> {
        Some(vec![Problem::new("", "no answers are taken here")])
    }
    /// What settles the action that waits. `None` where there is no such action any more.
    async fn settlement(&self, waiter: &Waiter, told: Told) -> Result<Option<Settlement>>;
    /// Something was written: those whom it concerns are told.
    async fn written(&self, written: Written);
}

/// An answer that is handed in, with what it is judged by.
#[derive(Debug, Clone, Copy)]
pub struct Answered<'a> {
    pub tenant: &'a TenantId,
    pub queue: &'a QueueConfig,
    pub payload: &'a RawJson,
    pub person: &'a PersonId,
    pub answer: &'a RawJson,
}

/// What is worth telling after a commit.
#[derive(Debug, Default)]
pub struct Written {
    /// What the log has now of each item that was changed.
    pub items: Vec<(ItemKey, Vec<LogEntry>)>,
    pub settled: Vec<(Settlement, SettleVerdict)>,
}
