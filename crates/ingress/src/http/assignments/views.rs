//! JSON view of an assignment.

use millstream_model::id::{AssignmentId, ItemId, Name, PersonId};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_people::assignment::{AssignmentStatus, ItemAssignment};
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(in crate::http) struct AssignmentOut {
    assignment_id: AssignmentId,
    item_id: ItemId,
    person: PersonId,
    queue: Name,
    status: AssignmentStatus,
    /// The deadline: of the start while it is pending, of the answer afterwards.
    deadline: Option<Timestamp>,
    attempts: u32,
    attempt: u32,
    answer: Option<RawJson>,
    skip_reason: Option<String>,
    /// The completed assignment that this one corrects.
    refers_to: Option<AssignmentId>,
    created_at: Timestamp,
    started_at: Option<Timestamp>,
    heartbeat_at: Option<Timestamp>,
    completed_at: Option<Timestamp>,
    expired_at: Option<Timestamp>,
    skipped_at: Option<Timestamp>,
    /// The assignment was revoked from its person.
    revoked_at: Option<Timestamp>,
}

impl From<ItemAssignment> for AssignmentOut {
    fn from(one: ItemAssignment) -> Self {
        Self {
            assignment_id: one.id,
            item_id: one.item,
            person: one.person,
            queue: one.queue,
            status: one.status,
            deadline: one.deadline,
            attempts: one.attempts,
            attempt: one.attempt,
            answer: one.answer,
            skip_reason: one.skip_reason,
            refers_to: one.refers_to,
            created_at: one.created_at,
            started_at: one.started_at,
            heartbeat_at: one.heartbeat_at,
            completed_at: one.completed_at,
            expired_at: one.expired_at,
            skipped_at: one.skipped_at,
            revoked_at: one.revoked_at,
        }
    }
}
