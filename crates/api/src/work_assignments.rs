//! Assignments of items to people: the acts of its person, and the decisions of an operator.

use millstream_model::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::scalar;
use crate::words::api_words;

api_words! {
    /// Status of an assignment.
    AssignmentStatus {
        /// Assigned, not started.
        Pending = "pending",
        InProgress = "in_progress",
        /// Final: a correction is another assignment.
        Completed = "completed",
        /// Its deadline passed, or it was revoked.
        Expired = "expired",
        Skipped = "skipped",
    }
}

/// An item that is or was assigned to a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "GivenAssignment", deny_unknown_fields)]
pub struct WorkAssignment<J = Value> {
    #[schemars(with = "scalar::AssignmentId")]
    pub assignment_id: String,
    #[schemars(with = "scalar::ItemId")]
    pub item_id: String,
    #[schemars(with = "scalar::PersonId")]
    pub person: String,
    /// The queue at the time of the assignment; the item may have moved since.
    #[schemars(with = "scalar::Name")]
    pub queue: String,
    pub status: AssignmentStatus,
    /// Deadline: of the start while it is pending, of the answer after that.
    #[schemars(with = "Option<scalar::Time>")]
    pub deadline: Option<Timestamp>,
    /// How often the person has started this item, including this time.
    #[serde(default)]
    pub attempts: u32,
    /// How often the person was assigned this item, including this time.
    #[serde(default)]
    pub attempt: u32,
    /// Any JSON, stored as sent; null until it is submitted.
    pub answer: J,
    pub skip_reason: Option<String>,
    /// The completed assignment that this one corrects.
    #[schemars(with = "Option<scalar::AssignmentId>")]
    pub refers_to: Option<String>,
    #[schemars(with = "scalar::Time")]
    pub created_at: Timestamp,
    #[schemars(with = "Option<scalar::Time>")]
    pub started_at: Option<Timestamp>,
    #[schemars(with = "Option<scalar::Time>")]
    pub heartbeat_at: Option<Timestamp>,
    #[schemars(with = "Option<scalar::Time>")]
    pub completed_at: Option<Timestamp>,
    #[schemars(with = "Option<scalar::Time>")]
    pub expired_at: Option<Timestamp>,
    #[schemars(with = "Option<scalar::Time>")]
    pub skipped_at: Option<Timestamp>,
    /// When it was revoked from its person.
    #[schemars(with = "Option<scalar::Time>")]
    pub revoked_at: Option<Timestamp>,
}

/// An assignment, and the one that replaces or corrects it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AssignmentFollowed", deny_unknown_fields)]
pub struct FollowedAssignment<J = Value> {
    #[serde(flatten)]
    pub assignment: WorkAssignment<J>,
    /// Null while the slot is open to any person.
    pub next: Option<WorkAssignment<J>>,
}

/// An act of a person on their assignment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AssignmentAct", deny_unknown_fields)]
pub struct AssignmentActRequest {
    #[schemars(with = "scalar::PersonId")]
    pub person: String,
}

/// The answer of a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AssignmentSubmit", deny_unknown_fields)]
pub struct AnswerSubmission<J = Value> {
    #[schemars(with = "scalar::PersonId")]
    pub person: String,
    /// Any JSON that satisfies the queue's schema and rules, at most 64 KiB.
    pub answer: J,
}

/// A person's skip of their assignment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct AssignmentSkip {
    #[schemars(with = "scalar::PersonId")]
    pub person: String,
    /// Some queues require it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2000))]
    pub reason: Option<String>,
}

/// An operator's reassignment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct AssignmentReassign {
    /// The next person; if left out, the slot is open to any person.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::PersonId>")]
    pub to: Option<String>,
}

/// An operator's request for a correction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct AssignmentCorrect {
    /// Who corrects it; default: its person.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::PersonId>")]
    pub person: Option<String>,
}
