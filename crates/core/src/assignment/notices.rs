//! Notices of an item, sent to the outbound sinks: failed or escalated.

use serde::Serialize;

use super::logbook::{LogEntry, What};
use super::step::Change;
use crate::id::{ExecutionId, ItemId, Name};
use crate::notice::{Kind, Notice};
use crate::raw::RawJson;
use crate::time::Timestamp;

#[derive(Serialize)]
struct Data<'a> {
    #[serde(rename = "type")]
    what: Kind,
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
pub fn notices(change: &Change) -> Vec<Notice> {
    change.log.iter().filter_map(|entry| notice(change, entry)).collect()
}

fn notice(change: &Change, entry: &LogEntry) -> Option<Notice> {
    let item = &change.work.item;
    // One step moves an item at most once.
    let from = item.escalated_from.last().unwrap_or(&entry.queue);
    let event = change.told.as_ref().and_then(|told| told.event.as_ref());
    let (what, queue, to_queue, event) = match entry.what {
        What::Failed => (Kind::ItemFailed, &entry.queue, None, None),
        What::Moved => (Kind::ItemEscalated, from, Some(&entry.queue), None),
        What::Escalated => (Kind::ItemEscalated, &entry.queue, None, event),
        What::Imported
        | What::Assigned
        | What::Reserved
        | What::Reassigned
        | What::Correction
        | What::Started
        | What::Extended
        | What::Submitted
        | What::Skipped
        | What::Expired
        | What::Revoked
        | What::CutOff
        | What::Reopened
        | What::Done
        | What::Withdrawn => return None,
    };
    let data = Data {
        what,
        item_id: &item.id,
        at: entry.at,
        queue,
        reason: entry.reason.as_deref(),
        to_queue,
        event,
        execution_id: item.waiter.as_ref().map(|waiter| &waiter.action.execution.execution),
    };
    Some(Notice { kind: what, subject: item.id.as_str().to_owned(), at: entry.at, data: RawJson::of(&data) })
}
