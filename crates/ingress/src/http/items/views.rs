//! An item and its log as the API shows them.

use millstream_api::items::{
    ItemAgreement, ItemLogWord, ItemStatus, WorkItem, WorkItemDetail, WorkItemLogEntry,
};
use millstream_model::raw::RawJson;
use millstream_people::assignment::agreement::AnswerAgreement;
use millstream_people::assignment::{self, ItemAggregate, ItemLogEntry, ItemLogKind, QueueItem};

use crate::http::assignments::views::assignment_view;

pub(in crate::http) fn item_view(item: QueueItem) -> WorkItem<RawJson> {
    WorkItem {
        item_id: item.id.to_string(),
        queue: item.queue.to_string(),
        status: item_status(item.status),
        reason: item.reason,
        priority: item.priority,
        skills: item.skills.iter().map(ToString::to_string).collect(),
        overlap: item.overlap,
        due_at: item.due_at,
        created_at: item.created_at,
        ended_at: item.ended_at,
        agreement: item.agreement.map(item_agreement),
        escalated_from: item.escalated_from.iter().map(ToString::to_string).collect(),
        execution_id: item.waiter.map(|waiter| waiter.action.execution.execution.to_string()),
    }
}

fn item_agreement(found: AnswerAgreement) -> ItemAgreement<RawJson> {
    let AnswerAgreement { agreed, answers, largest, value } = found;
    ItemAgreement { agreed, answers, largest, value }
}

pub(super) fn item_detail(work: ItemAggregate) -> WorkItemDetail<RawJson> {
    let openings = u64::try_from(work.opening_count()).unwrap_or(u64::MAX);
    let ItemAggregate { item, payload, assignments } = work;
    let mut given: Vec<_> = assignments.into_values().collect();
    given.sort_by_key(|one| (one.created_at, one.id));
    let assignments = given.into_iter().map(assignment_view).collect();
    WorkItemDetail { item: item_view(item), openings, payload, assignments }
}

pub(super) fn item_log_entry(entry: ItemLogEntry) -> WorkItemLogEntry {
    WorkItemLogEntry {
        no: entry.no,
        at: entry.at,
        what: item_log_word(entry.what),
        queue: entry.queue.to_string(),
        item: item_status(entry.item),
        assignment: entry.assignment.map(|id| id.to_string()),
        person: entry.person.map(|person| person.to_string()),
        deadline: entry.deadline,
        about: entry.about.map(|id| id.to_string()),
        reason: entry.reason,
        by: entry.by,
    }
}

fn item_status(status: assignment::ItemStatus) -> ItemStatus {
    use assignment::ItemStatus as Stored;
    match status {
        Stored::Open => ItemStatus::Open,
        Stored::Done => ItemStatus::Done,
        Stored::Failed => ItemStatus::Failed,
        Stored::Withdrawn => ItemStatus::Withdrawn,
        Stored::Escalated => ItemStatus::Escalated,
    }
}

fn item_log_word(kind: ItemLogKind) -> ItemLogWord {
    match kind {
        ItemLogKind::Imported => ItemLogWord::Imported,
        ItemLogKind::Assigned => ItemLogWord::Assigned,
        ItemLogKind::Reserved => ItemLogWord::Reserved,
        ItemLogKind::Reassigned => ItemLogWord::Reassigned,
        ItemLogKind::Correction => ItemLogWord::Correction,
        ItemLogKind::Started => ItemLogWord::Started,
        ItemLogKind::Extended => ItemLogWord::Extended,
        ItemLogKind::Submitted => ItemLogWord::Submitted,
        ItemLogKind::Skipped => ItemLogWord::Skipped,
        ItemLogKind::Expired => ItemLogWord::Expired,
        ItemLogKind::Revoked => ItemLogWord::Revoked,
        ItemLogKind::CutOff => ItemLogWord::CutOff,
        ItemLogKind::Reopened => ItemLogWord::Reopened,
        ItemLogKind::Moved => ItemLogWord::Moved,
        ItemLogKind::Done => ItemLogWord::Done,
        ItemLogKind::Failed => ItemLogWord::Failed,
        ItemLogKind::Withdrawn => ItemLogWord::Withdrawn,
        ItemLogKind::Escalated => ItemLogWord::Escalated,
    }
}
