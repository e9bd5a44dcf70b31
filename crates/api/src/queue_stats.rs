//! Statistics of queues and people.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::scalar;

/// Statistics: one line per queue, per person, or per person and queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct QueueStats {
    pub items: Vec<QueueStatsLine>,
}

/// Counts of assignments by their status, with rates and averages, and of items.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct QueueStatsLine {
    /// Null where the line is about a person in all queues.
    #[schemars(with = "Option<scalar::Name>")]
    pub queue: Option<String>,
    /// Null where the line is about the whole queue.
    #[schemars(with = "Option<scalar::PersonId>")]
    pub person: Option<String>,
    pub completed: i64,
    pub expired: i64,
    pub in_progress: i64,
    pub pending: i64,
    pub skipped: i64,
    /// All assignments.
    pub total: i64,
    /// Share of all assignments, 0 to 1; null without assignments.
    pub completion_rate: Option<f64>,
    /// Share of all assignments, 0 to 1; null without assignments.
    pub skip_rate: Option<f64>,
    /// Share of all assignments, 0 to 1; null without assignments.
    pub expiry_rate: Option<f64>,
    /// From the start of an assignment to its answer; null without completed assignments.
    pub average_seconds_to_complete: Option<f64>,
    /// Attempts of completed assignments; null without them.
    pub average_attempts: Option<f64>,
    pub items: ItemCounts,
}

/// Items by status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub struct ItemCounts {
    pub done: i64,
    pub escalated: i64,
    pub failed: i64,
    /// Only for whole queues and from their first day: open items are those that were imported and have not
    /// ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<i64>,
    pub withdrawn: i64,
}
