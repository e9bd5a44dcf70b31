//! An item with its assignments: the aggregate that one step decides about.

use std::collections::{BTreeMap, BTreeSet};

use millstream_model::id::{ActionKey, AssignmentId, DefinitionRef, Epoch, EventId, ItemId, Name, PersonId};
use millstream_model::problem::ValidationProblem;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::agreement::AnswerAgreement;
use super::item_assignment::ItemAssignment;
use super::limits::{MAX_PAYLOAD_BYTES, MAX_SKILLS};
use super::queue::{EligiblePersons, QueueConfig};
use super::select::OpeningClass;
use super::status::{AssignmentStatus, ItemStatus};

/// The format that this build writes into the blobs of items.
pub const FORMAT: u8 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueItem {
    pub format: u8,
    pub id: ItemId,
    pub queue: Name,
    pub status: ItemStatus,
    /// The reason of failure, withdrawal or escalation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The values set by the item's author; the queue's configuration supplies the rest.
    #[serde(default)]
    pub own: ItemOverrides,
    pub priority: i32,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub skills: BTreeSet<Name>,
    pub overlap: u32,
    pub class: OpeningClass,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Timestamp>,
    pub created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreement: Option<AnswerAgreement>,
    /// Queues from which it was escalated. An item never returns to one of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub escalated_from: Vec<Name>,
    /// Number of entries in its log.
    pub entries: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiter: Option<ItemWaiter>,
}

/// Values that an item sets itself, overriding those of its queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemOverrides {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub skills: BTreeSet<Name>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<u32>,
}

/// The action of an execution that waits for an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemWaiter {
    pub action: ActionKey,
    pub epoch: Epoch,
    pub event_id: EventId,
    pub definition: DefinitionRef,
    pub attempt: i32,
    pub revision: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

/// An item to be imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewQueueItem {
    pub id: ItemId,
    pub payload: RawJson,
    pub own: ItemOverrides,
    /// Overrides the queue's `due`.
    pub due_at: Option<Timestamp>,
    pub waiter: Option<ItemWaiter>,
}

impl NewQueueItem {
    pub fn with_defaults(id: ItemId, payload: RawJson) -> Self {
        Self { id, payload, own: ItemOverrides::default(), due_at: None, waiter: None }
    }

    /// Every reason why the queue cannot accept it; paths refer to the author's document.
    pub fn find_problems(&self, queue: &QueueConfig) -> Vec<ValidationProblem> {
        let mut problems = Vec::new();
        if self.payload.len() > MAX_PAYLOAD_BYTES {
            let message = format!("is larger than {} KiB", MAX_PAYLOAD_BYTES / 1024);
            problems.push(ValidationProblem::new("payload", message));
        }
        if self.own.skills.len() + queue.skills.len() > MAX_SKILLS {
            let message = format!("together with those of the queue there are more than {MAX_SKILLS}");
            problems.push(ValidationProblem::new("skills", message));
        }
        let overlap = self.own.overlap.unwrap_or(queue.overlap);
        if overlap == 0 || overlap > queue.max_attempts_total {
            let most = queue.max_attempts_total;
            problems.push(ValidationProblem::new(
                "overlap",
                format!("must be from 1 to {most}, the queue's max_attempts_total"),
            ));
        }
        if let EligiblePersons::Listed(people) = &queue.people
            && u32::try_from(people.len()).is_ok_and(|count| count < overlap)
        {
            let message = format!("{overlap} different people are needed, the queue has {}", people.len());
            problems.push(ValidationProblem::new("overlap", message));
        }
        problems
    }
}

/// An item and its assignments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemAggregate {
    pub item: QueueItem,
    pub payload: RawJson,
    pub assignments: BTreeMap<AssignmentId, ItemAssignment>,
}

impl QueueItem {
    /// The state of an item at import.
    pub fn from_import(new: &NewQueueItem, queue: &QueueConfig, now: Timestamp) -> Self {
        let mut item = Self {
            format: FORMAT,
            id: new.id.clone(),
            queue: queue.name.clone(),
            status: ItemStatus::Open,
            reason: None,
            own: new.own.clone(),
            priority: 0,
            skills: BTreeSet::new(),
            overlap: 1,
            class: OpeningClass::Fresh,
            due_at: None,
            created_at: now,
            ended_at: None,
            agreement: None,
            escalated_from: Vec::new(),
            entries: 1,
            waiter: new.waiter.clone(),
        };
        item.enter(queue, now);
        item.due_at = new.due_at.or(item.due_at);
        item
    }

    /// Puts the item into this queue, with the queue's defaults.
    pub(super) fn enter(&mut self, queue: &QueueConfig, now: Timestamp) {
        self.queue = queue.name.clone();
        self.priority = self.own.priority.unwrap_or(queue.priority);
        self.skills = self.own.skills.union(&queue.skills).cloned().collect();
        self.overlap = self.own.overlap.unwrap_or(queue.overlap);
        self.due_at = queue.due.map(|due| now.plus(due));
    }
}

impl ItemAggregate {
    pub fn new(item: QueueItem, payload: RawJson) -> Self {
        Self { item, payload, assignments: BTreeMap::new() }
    }

    fn occupied_slots(&self) -> impl Iterator<Item = &ItemAssignment> {
        self.assignments.values().filter(|one| one.has_slot())
    }

    /// Number of filled slots.
    pub fn completed_count(&self) -> usize {
        self.occupied_slots().filter(|one| one.status == AssignmentStatus::Completed).count()
    }

    /// Number of slots with an open assignment.
    pub fn open_count(&self) -> usize {
        self.occupied_slots().filter(|one| one.status.is_open()).count()
    }

    /// Number of openings: free slots that are still to be filled.
    pub fn opening_count(&self) -> usize {
        if self.item.status.is_ended() {
            return 0;
        }
        let overlap = usize::try_from(self.item.overlap).unwrap_or(usize::MAX);
        overlap.saturating_sub(self.occupied_slots().count())
    }

    /// Number of assignments of this item in its current queue, by all persons.
    pub fn attempt_count(&self) -> usize {
        let here = |one: &&ItemAssignment| one.refers_to.is_none() && one.queue == self.item.queue;
        self.assignments.values().filter(here).count()
    }

    /// Number of assignments of this item to the person in its current queue.
    pub fn attempts_of(&self, person: &PersonId) -> u32 {
        let theirs = self
            .assignments
            .values()
            .filter(|one| one.refers_to.is_none() && one.queue == self.item.queue && one.person == *person);
        u32::try_from(theirs.count()).unwrap_or(u32::MAX)
    }

    /// Persons who cannot be assigned this item: they hold it, are through with it, or reached their attempts
    /// limit.
    pub fn barred_persons(&self, queue: &QueueConfig) -> BTreeSet<PersonId> {
        let people: BTreeSet<&PersonId> = self.assignments.values().map(|one| &one.person).collect();
        people.into_iter().filter(|person| self.is_barred(person, queue)).cloned().collect()
    }

    pub fn is_barred(&self, person: &PersonId, queue: &QueueConfig) -> bool {
        self.attempts_of(person) >= queue.max_attempts_per_person
            || self.is_finished_by(person)
            || self.is_assigned_to(person)
    }

    /// Whether the person has an open assignment of it.
    pub fn is_assigned_to(&self, person: &PersonId) -> bool {
        self.assignments.values().any(|one| one.person == *person && one.status.is_open())
    }

    /// Whether the person completed it, skipped it, or had it revoked.
    pub fn is_finished_by(&self, person: &PersonId) -> bool {
        self.assignments.values().filter(|one| one.person == *person).any(|one| match one.status {
            AssignmentStatus::Completed | AssignmentStatus::Skipped => true,
            AssignmentStatus::Expired => one.revoked_at.is_some(),
            AssignmentStatus::Pending | AssignmentStatus::InProgress => false,
        })
    }
}
