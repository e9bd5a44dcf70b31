//! An assignment as the API shows it.

use millstream_api::work_assignments::{AssignmentStatus, WorkAssignment};
use millstream_model::raw::RawJson;
use millstream_people::assignment::{self, ItemAssignment};

pub(in crate::http) fn assignment_view(one: ItemAssignment) -> WorkAssignment<RawJson> {
    WorkAssignment {
        assignment_id: one.id.to_string(),
        item_id: one.item.to_string(),
        person: one.person.to_string(),
        queue: one.queue.to_string(),
        status: assignment_status(one.status),
        deadline: one.deadline,
        attempts: one.attempts,
        attempt: one.attempt,
        answer: one.answer.unwrap_or_else(RawJson::null),
        skip_reason: one.skip_reason,
        refers_to: one.refers_to.map(|id| id.to_string()),
        created_at: one.created_at,
        started_at: one.started_at,
        heartbeat_at: one.heartbeat_at,
        completed_at: one.completed_at,
        expired_at: one.expired_at,
        skipped_at: one.skipped_at,
        revoked_at: one.revoked_at,
    }
}

fn assignment_status(status: assignment::AssignmentStatus) -> AssignmentStatus {
    use assignment::AssignmentStatus as Stored;
    match status {
        Stored::Pending => AssignmentStatus::Pending,
        Stored::InProgress => AssignmentStatus::InProgress,
        Stored::Completed => AssignmentStatus::Completed,
        Stored::Expired => AssignmentStatus::Expired,
        Stored::Skipped => AssignmentStatus::Skipped,
    }
}
