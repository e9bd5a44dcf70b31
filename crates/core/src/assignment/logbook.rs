//! The log of an item: append-only, in order, never pruned before the item; replaying it gives the state of
//! the rows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::given::{Assignment, Place};
use super::item::{Item, Work};
use super::status::{AssignmentStatus, ItemStatus};
use crate::id::{AssignmentId, ItemId, Name, PersonId};
use crate::status::words;
use crate::time::Timestamp;

words! {
    /// The kind of a log entry. The words are stored and never change.
    What {
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
pub struct LogEntry {
    /// 1, 2, 3 … without gaps within the item.
    pub no: u32,
    pub at: Timestamp,
    pub what: What,
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

impl LogEntry {
    /// The first entry of every item.
    pub fn imported(item: &Item) -> Self {
        Self {
            no: 1,
            at: item.created_at,
            what: What::Imported,
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
pub struct Outline {
    pub queue: Name,
    pub status: ItemStatus,
    pub entries: u32,
    pub assignments: BTreeMap<AssignmentId, Assignment>,
}

impl Outline {
    /// The outline of the stored rows.
    pub fn of(work: &Work) -> Self {
        let mut assignments = work.assignments.clone();
        for one in assignments.values_mut() {
            one.answer = None;
            one.skip_reason = None;
        }
        let Item { queue, status, entries, .. } = work.item.clone();
        Self { queue, status, entries, assignments }
    }

    /// The outline of the log; `None` if the log lacks its first entry or has a gap.
    pub fn replay(item: &ItemId, log: &[LogEntry]) -> Option<Self> {
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
            outline.apply(item, entry);
        }
        Some(outline)
    }

    fn apply(&mut self, item: &ItemId, entry: &LogEntry) {
        match entry.what {
            What::Assigned | What::Reserved | What::Reassigned | What::Correction => self.given(item, entry),
            What::Started => self.change(entry, |one, at| {
                one.status = AssignmentStatus::InProgress;
                one.started_at = Some(at);
                one.attempts += 1;
            }),
            What::Extended => self.change(entry, |one, at| one.heartbeat_at = Some(at)),
            What::Submitted => self.change(entry, |one, at| {
                one.status = AssignmentStatus::Completed;
                one.completed_at = Some(at);
            }),
            What::Skipped => self.change(entry, |one, at| {
                one.status = AssignmentStatus::Skipped;
                one.skipped_at = Some(at);
            }),
            What::Expired => self.change(entry, expired),
            What::Revoked => self.change(entry, |one, at| {
                expired(one, at);
                one.revoked_at = Some(at);
            }),
            What::CutOff => self.change(entry, |one, at| {
                expired(one, at);
                one.place = Place::GivenOn;
            }),
            What::Reopened => self.change(entry, |one, _| one.place = Place::GivenOn),
            What::Imported | What::Moved | What::Done | What::Failed | What::Withdrawn | What::Escalated => {}
        }
    }

    fn given(&mut self, item: &ItemId, entry: &LogEntry) {
        let (Some(id), Some(person)) = (entry.assignment, entry.person.clone()) else { return };
        let refers_to = entry.about.filter(|_| entry.what == What::Correction);
        if let Some(before) = entry.about.filter(|_| refers_to.is_none())
            && let Some(before) = self.assignments.get_mut(&before)
        {
            before.place = Place::GivenOn;
        }
        let theirs = || self.assignments.values().filter(|one| one.person == person);
        let here = theirs().filter(|one| one.refers_to.is_none() && one.queue == entry.queue);
        let one = Assignment {
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
            place: Place::Here,
            revoked_at: None,
            person,
        };
        self.assignments.insert(id, one);
    }

    fn change(&mut self, entry: &LogEntry, change: impl FnOnce(&mut Assignment, Timestamp)) {
        let one = entry.assignment.and_then(|id| self.assignments.get_mut(&id));
        let Some(one) = one else { return };
        change(one, entry.at);
        one.deadline = entry.deadline;
    }
}

fn expired(one: &mut Assignment, at: Timestamp) {
    one.status = AssignmentStatus::Expired;
    one.expired_at = Some(at);
}
