//! Notices of an item, sent to the outbound sinks: failed or escalated.

use millstream_model::id::{ExecutionId, ItemId, Name};
use millstream_model::notice::{Notice, NoticeKind};
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use serde::Serialize;

use super::item_log::{ItemLogEntry, ItemLogKind};
use super::step::ItemChange;

#[derive(Serialize)]
struct ItemNoticePayload<'a> {
    #[serde(rename = "type")]
    what: NoticeKind,
    item_id: &'a ItemId,
    at: Timestamp,
    /// The queue in which it happened.
    queue: &'a Name,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    /// The queue to which it was escalated.
    #[serde(skip_serializing_if = "Option::is_none")]
    to_queue: Option<&'a Name>,
    /// The event that the queue's `escalate` names.
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<&'a Name>,
    /// The execution that waits for it; the execution receives the outcome independently of this notice.
    #[serde(skip_serializing_if = "Option::is_none")]
    execution_id: Option<&'a ExecutionId>,
}

/// In order of occurrence: an item may be escalated and fail at once in the target queue.
pub fn item_notices(change: &ItemChange) -> Vec<Notice> {
    change.log.iter().filter_map(|entry| notice_of_entry(change, entry)).collect()
}

fn notice_of_entry(change: &ItemChange, entry: &ItemLogEntry) -> Option<Notice> {
    let item = &change.work.item;
    // One step moves an item at most once.
    let from = item.escalated_from.last().unwrap_or(&entry.queue);
    let event = change.told.as_ref().and_then(|told| told.event.as_ref());
    let (what, queue, to_queue, event) = match entry.what {
        ItemLogKind::Failed => (NoticeKind::ItemFailed, &entry.queue, None, None),
        ItemLogKind::Moved => (NoticeKind::ItemEscalated, from, Some(&entry.queue), None),
        ItemLogKind::Escalated => (NoticeKind::ItemEscalated, &entry.queue, None, event),
        ItemLogKind::Imported
        | ItemLogKind::Assigned
        | ItemLogKind::Reserved
        | ItemLogKind::Reassigned
        | ItemLogKind::Correction
        | ItemLogKind::Started
        | ItemLogKind::Extended
        | ItemLogKind::Submitted
        | ItemLogKind::Skipped
        | ItemLogKind::Expired
        | ItemLogKind::Revoked
        | ItemLogKind::CutOff
        | ItemLogKind::Reopened
        | ItemLogKind::Done
        | ItemLogKind::Withdrawn => return None,
    };
    let data = ItemNoticePayload {
        what,
        item_id: &item.id,
        at: entry.at,
        queue,
        reason: entry.reason.as_deref(),
        to_queue,
        event,
        execution_id: item.waiter.as_ref().map(|waiter| &waiter.action.execution.execution),
    };
    Some(Notice {
        kind: what,
        subject: item.id.as_str().to_owned(),
        at: entry.at,
        data: RawJson::from_value(&data),
    })
}
