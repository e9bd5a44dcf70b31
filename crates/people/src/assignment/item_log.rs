//! The log of an item: append-only, in order, never pruned before the item; replaying it gives the state of
//! the rows.

use std::collections::BTreeMap;

use millstream_model::id::{AssignmentId, ItemId, Name, PersonId};
use millstream_model::time::Timestamp;
use millstream_model::words;
use serde::{Deserialize, Serialize};

use super::item::{ItemAggregate, QueueItem};
use super::item_assignment::{ItemAssignment, SlotState};
use super::status::{AssignmentStatus, ItemStatus};

words! {
    /// The kind of a log entry. The words are stored and never change.
    ItemLogKind {
        Imported = "imported",
        /// An opening was assigned to a person who asked for work.
        Assigned = "assigned",
        /// The slot stays reserved for the same person, as a new assignment.
        Reserved = "reserved",
        /// The slot was assigned to a person chosen by an operator.
        Reassigned = "reassigned",
        /// A new assignment that corrects a completed one.
        Correction = "correction",
        Started = "started",
        Extended = "extended",
        Submitted = "submitted",
        Skipped = "skipped",
        Expired = "expired",
        Revoked = "revoked",
        /// The assignment ended because its item ended or moved to another queue.
        CutOff = "cut_off",
        /// The slot of the assignment is an opening again.
        Reopened = "reopened",
        /// The item moved to another queue.
        Moved = "moved",
        Done = "done",
        Failed = "failed",
        Withdrawn = "withdrawn",
        Escalated = "escalated",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemLogEntry {
    /// 1, 2, 3 … without gaps within the item.
    pub no: u32,
    pub at: Timestamp,
    pub what: ItemLogKind,
    /// The queue of the item after this entry.
    pub queue: Name,
    pub item: ItemStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignment: Option<AssignmentId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<PersonId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// The assignment whose slot was taken over, or the one that is corrected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<AssignmentId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The operator who did it; `None` if the person did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl ItemLogEntry {
    /// The first entry of every item.
    pub fn of_import(item: &QueueItem) -> Self {
        Self {
            no: 1,
            at: item.created_at,
            what: ItemLogKind::Imported,
            queue: item.queue.clone(),
            item: item.status,
            assignment: None,
            person: None,
            deadline: item.due_at,
            about: None,
            reason: None,
            by: None,
        }
    }
}

/// The state that a log describes: everything except the answers and reasons that people wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemOutline {
    pub queue: Name,
    pub status: ItemStatus,
    pub entries: u32,
    pub assignments: BTreeMap<AssignmentId, ItemAssignment>,
}

impl ItemOutline {
    /// The outline of the stored rows.
    pub fn from_rows(work: &ItemAggregate) -> Self {
        let mut assignments = work.assignments.clone();
        for one in assignments.values_mut() {
            one.answer = None;
            one.skip_reason = None;
        }
        let QueueItem { queue, status, entries, .. } = work.item.clone();
        Self { queue, status, entries, assignments }
    }

    /// The outline of the log; `None` if the log lacks its first entry or has a gap.
    pub fn replay_log(item: &ItemId, log: &[ItemLogEntry]) -> Option<Self> {
        let first = log.first()?;
        let mut outline =
            Self { queue: first.queue.clone(), status: first.item, entries: 0, assignments: BTreeMap::new() };
        for entry in log {
            if entry.no != outline.entries + 1 {
                return None;
            }
            outline.entries = entry.no;
            outline.status = entry.item;
            outline.queue = entry.queue.clone();
            outline.apply_entry(item, entry);
        }
        Some(outline)
    }

    fn apply_entry(&mut self, item: &ItemId, entry: &ItemLogEntry) {
        match entry.what {
            ItemLogKind::Assigned
            | ItemLogKind::Reserved
            | ItemLogKind::Reassigned
            | ItemLogKind::Correction => self.add_assignment(item, entry),
            ItemLogKind::Started => self.change_assignment(entry, |one, at| {
                one.status = AssignmentStatus::InProgress;
                one.started_at = Some(at);
                one.attempts += 1;
            }),
            ItemLogKind::Extended => self.change_assignment(entry, |one, at| one.heartbeat_at = Some(at)),
            ItemLogKind::Submitted => self.change_assignment(entry, |one, at| {
                one.status = AssignmentStatus::Completed;
                one.completed_at = Some(at);
            }),
            ItemLogKind::Skipped => self.change_assignment(entry, |one, at| {
                one.status = AssignmentStatus::Skipped;
                one.skipped_at = Some(at);
            }),
            ItemLogKind::Expired => self.change_assignment(entry, mark_expired),
            ItemLogKind::Revoked => self.change_assignment(entry, |one, at| {
                mark_expired(one, at);
                one.revoked_at = Some(at);
            }),
            ItemLogKind::CutOff => self.change_assignment(entry, |one, at| {
                mark_expired(one, at);
                one.place = SlotState::GivenOn;
            }),
            ItemLogKind::Reopened => self.change_assignment(entry, |one, _| one.place = SlotState::GivenOn),
            ItemLogKind::Imported
            | ItemLogKind::Moved
            | ItemLogKind::Done
            | ItemLogKind::Failed
            | ItemLogKind::Withdrawn
            | ItemLogKind::Escalated => {}
        }
    }

    fn add_assignment(&mut self, item: &ItemId, entry: &ItemLogEntry) {
        let (Some(id), Some(person)) = (entry.assignment, entry.person.clone()) else { return };
        let refers_to = entry.about.filter(|_| entry.what == ItemLogKind::Correction);
        if let Some(before) = entry.about.filter(|_| refers_to.is_none())
            && let Some(before) = self.assignments.get_mut(&before)
        {
            before.place = SlotState::GivenOn;
        }
        let theirs = || self.assignments.values().filter(|one| one.person == person);
        let here = theirs().filter(|one| one.refers_to.is_none() && one.queue == entry.queue);
        let one = ItemAssignment {
            id,
            item: item.clone(),
            queue: entry.queue.clone(),
            status: AssignmentStatus::Pending,
            deadline: entry.deadline,
            attempts: theirs().map(|one| one.attempts).max().unwrap_or(0),
            attempt: u32::try_from(here.count()).unwrap_or(u32::MAX).saturating_add(1),
            answer: None,
            skip_reason: None,
            refers_to,
            created_at: entry.at,
            started_at: None,
            heartbeat_at: None,
            completed_at: None,
            expired_at: None,
            skipped_at: None,
            place: SlotState::Here,
            revoked_at: None,
            person,
        };
        self.assignments.insert(id, one);
    }

    fn change_assignment(
        &mut self,
        entry: &ItemLogEntry,
        change: impl FnOnce(&mut ItemAssignment, Timestamp),
    ) {
        let one = entry.assignment.and_then(|id| self.assignments.get_mut(&id));
        let Some(one) = one else { return };
        change(one, entry.at);
        one.deadline = entry.deadline;
    }
}

fn mark_expired(one: &mut ItemAssignment, at: Timestamp) {
    one.status = AssignmentStatus::Expired;
    one.expired_at = Some(at);
}
