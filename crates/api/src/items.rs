//! Items of work for people, and what happened to them.

use millstream_model::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::scalar;
use crate::words::api_words;
use crate::work_assignments::WorkAssignment;

api_words! {
    /// Status of an item.
    ItemStatus {
        Open = "open",
        /// As many people completed it as its overlap requires.
        Done = "done",
        /// Its attempts are used up, its deadline passed, or no eligible person is left.
        Failed = "failed",
        /// Withdrawn by an operator, or by the execution that waited for it.
        Withdrawn = "withdrawn",
        /// It would have failed; its queue escalates by an event instead.
        Escalated = "escalated",
    }
}

impl ItemStatus {
    /// Final: the status will not change again.
    pub const fn is_ended(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Withdrawn | Self::Escalated)
    }
}

/// An item of a queue, without its payload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Item", deny_unknown_fields)]
pub struct WorkItem<J = Value> {
    #[schemars(with = "scalar::ItemId")]
    pub item_id: String,
    #[schemars(with = "scalar::Name")]
    pub queue: String,
    pub status: ItemStatus,
    /// Why it failed, was withdrawn or was escalated.
    pub reason: Option<String>,
    /// The highest comes first.
    pub priority: i32,
    /// Skills that people must have.
    #[schemars(with = "Vec<scalar::Name>")]
    pub skills: Vec<String>,
    /// Number of different people who work on it.
    #[schemars(range(min = 1))]
    pub overlap: u32,
    #[schemars(with = "Option<scalar::Time>")]
    pub due_at: Option<Timestamp>,
    #[schemars(with = "scalar::Time")]
    pub created_at: Timestamp,
    #[schemars(with = "Option<scalar::Time>")]
    pub ended_at: Option<Timestamp>,
    /// Null until it is done.
    pub agreement: Option<ItemAgreement<J>>,
    /// The queues that it was escalated from.
    #[schemars(with = "Vec<scalar::Name>")]
    pub escalated_from: Vec<String>,
    /// The execution that waits for it.
    #[schemars(with = "Option<scalar::ExecutionId>")]
    pub execution_id: Option<String>,
}

/// Agreement of the answers of an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ItemAgreement", deny_unknown_fields)]
pub struct ItemAgreement<J = Value> {
    /// All answers are equal. A single answer agrees with itself.
    pub agreed: bool,
    pub answers: u32,
    /// Size of the largest group of equal answers.
    pub largest: u32,
    /// The compared value of the largest group; absent if two groups are equally large.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<J>,
}

/// An item with its payload and all its assignments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WholeItem", deny_unknown_fields)]
pub struct WorkItemDetail<J = Value> {
    #[serde(flatten)]
    pub item: WorkItem<J>,
    /// Number of open slots without an assignment.
    pub openings: u64,
    /// Any JSON, stored as sent.
    pub payload: J,
    /// In the order of assignment.
    pub assignments: Vec<WorkAssignment<J>>,
}

api_words! {
    /// What happened to an item.
    ItemLogWord {
        Imported = "imported",
        /// Assigned to a person who asked for work.
        Assigned = "assigned",
        /// Assigned to the same person again.
        Reserved = "reserved",
        /// Assigned to a person that an operator chose.
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
        /// The slot of the assignment is open again.
        Reopened = "reopened",
        /// The item moved to another queue.
        Moved = "moved",
        Done = "done",
        Failed = "failed",
        Withdrawn = "withdrawn",
        Escalated = "escalated",
    }
}

/// An entry of the log of an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ItemLogEntry", deny_unknown_fields)]
pub struct WorkItemLogEntry {
    /// 1, 2, 3 … without gaps within the item.
    #[schemars(range(min = 1))]
    pub no: u32,
    #[schemars(with = "scalar::Time")]
    pub at: Timestamp,
    pub what: ItemLogWord,
    /// The queue of the item after this entry.
    #[schemars(with = "scalar::Name")]
    pub queue: String,
    /// The status of the item after this entry.
    pub item: ItemStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::AssignmentId>")]
    pub assignment: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::PersonId>")]
    pub person: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::Time>")]
    pub deadline: Option<Timestamp>,
    /// The assignment whose slot was taken over, or the one that is corrected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::AssignmentId>")]
    pub about: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The operator who did it; absent if the person or the engine did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}
