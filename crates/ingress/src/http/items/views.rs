//! JSON view of an item.

use std::collections::BTreeSet;

use millstream_model::id::{ExecutionId, ItemId, Name};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_people::assignment::agreement::AnswerAgreement;
use millstream_people::assignment::{ItemAggregate, ItemStatus, QueueItem};
use serde::Serialize;

use crate::http::assignments::views::AssignmentOut;

#[derive(Debug, Serialize)]
pub(in crate::http) struct ItemOut {
    item_id: ItemId,
    queue: Name,
    status: ItemStatus,
    /// Why the item failed, was withdrawn or was escalated.
    reason: Option<String>,
    priority: i32,
    skills: BTreeSet<Name>,
    overlap: u32,
    due_at: Option<Timestamp>,
    created_at: Timestamp,
    ended_at: Option<Timestamp>,
    agreement: Option<AnswerAgreement>,
    /// The queues that the item was escalated from.
    escalated_from: Vec<Name>,
    /// The execution that waits for the item.
    execution_id: Option<ExecutionId>,
}

impl From<QueueItem> for ItemOut {
    fn from(item: QueueItem) -> Self {
        Self {
            item_id: item.id,
            queue: item.queue,
            status: item.status,
            reason: item.reason,
            priority: item.priority,
            skills: item.skills,
            overlap: item.overlap,
            due_at: item.due_at,
            created_at: item.created_at,
            ended_at: item.ended_at,
            agreement: item.agreement,
            escalated_from: item.escalated_from,
            execution_id: item.waiter.map(|waiter| waiter.action.execution.execution),
        }
    }
}

/// The item with its payload and all its assignments.
#[derive(Debug, Serialize)]
pub(super) struct ItemDetailOut {
    #[serde(flatten)]
    item: ItemOut,
    /// Number of open slots without an assignment.
    openings: usize,
    payload: RawJson,
    /// In the order of assignment.
    assignments: Vec<AssignmentOut>,
}

impl From<ItemAggregate> for ItemDetailOut {
    fn from(work: ItemAggregate) -> Self {
        let openings = work.opening_count();
        let ItemAggregate { item, payload, assignments } = work;
        let mut given: Vec<_> = assignments.into_values().collect();
        given.sort_by_key(|one| (one.created_at, one.id));
        let assignments = given.into_iter().map(AssignmentOut::from).collect();
        Self { item: item.into(), openings, payload, assignments }
    }
}
