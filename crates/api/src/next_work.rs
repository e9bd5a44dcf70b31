//! The next assignment of a person, with its item.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::items::WorkItem;
use crate::scalar;
use crate::words::api_words;
use crate::work_assignments::WorkAssignment;

/// A request for the next assignment of a person.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NextWanted", deny_unknown_fields)]
pub struct NextWorkRequest {
    #[schemars(with = "scalar::PersonId")]
    pub person: String,
    /// The queues to look in; default: all queues of the person.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<scalar::Name>>", length(min = 1, max = 100))]
    pub queues: Option<Vec<String>>,
    /// Whether to start the assignment at once; default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<bool>,
}

/// The next assignment of a person, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "NextGiven")]
pub enum NextWorkAnswer<J = Value> {
    Given(Box<WorkForPerson<J>>),
    Nothing(NoWorkForPerson),
}

/// An assignment with its item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub struct WorkForPerson<J = Value> {
    pub assignment: WorkAssignment<J>,
    pub item: WorkItem<J>,
    /// Content of the item: any JSON, stored as sent.
    pub payload: J,
    /// Whether the person held the assignment before this request.
    #[serde(default)]
    pub already_assigned: bool,
}

/// No assignment for a person, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub struct NoWorkForPerson {
    pub assignment: (),
    pub idle: WorkIdleReason,
}

api_words! {
    /// Why a person gets no assignment; the most specific reason.
    WorkIdleReason {
        /// No matching item is open.
        NothingOpen = "nothing_open",
        /// The person has as many open assignments as the queue permits.
        OpenLimit = "open_limit",
        /// The person has had as many assignments as the queue permits.
        TotalLimit = "total_limit",
        /// The person lacks a skill that the queue requires.
        Skills = "skills",
        /// The queue does not list the person.
        NotEligible = "not_eligible",
        QueuePaused = "queue_paused",
        PersonPaused = "person_paused",
        /// There is no such queue.
        NoQueue = "no_queue",
    }
}
