//! The actions of an execution.

use millstream_model::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::scalar;
use crate::words::api_words;

api_words! {
    /// Status of an action.
    ActionStatus from millstream_model::status::ActionStatus {
        /// An action that it needs is not settled.
        Waiting = "waiting",
        Ready = "ready",
        /// A worker performs it.
        Leased = "leased",
        /// Begun; another component reports its outcome (a child execution).
        Awaiting = "awaiting",
        /// Compensation for another action; not triggered so far.
        Standby = "standby",
        Succeeded = "succeeded",
        Failed = "failed",
        /// A required action failed.
        Skipped = "skipped",
        Cancelled = "cancelled",
    }
}

/// An action of a transition, with its status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Action", deny_unknown_fields)]
pub struct ActionView<J = Value> {
    /// The transition that started it.
    pub seq: i64,
    #[schemars(with = "scalar::Name")]
    pub action: String,
    /// Sent to the target as Idempotency-Key; the same on every attempt at the same input. After an edit it
    /// ends in `~` and the revision.
    pub key: String,
    #[schemars(with = "scalar::EventId")]
    pub event_id: String,
    /// The actions that must succeed before it.
    #[serde(default)]
    #[schemars(with = "Vec<scalar::Name>")]
    pub needs: Vec<String>,
    pub status: ActionStatus,
    pub attempts: i32,
    pub worker_id: Option<String>,
    #[schemars(with = "Option<scalar::Time>")]
    pub lease_until: Option<Timestamp>,
    #[schemars(with = "Option<scalar::Time>")]
    pub next_attempt_at: Option<Timestamp>,
    /// The rendered input, without secrets: any JSON. Null before it is rendered.
    pub input: Option<J>,
    /// The result of a successful attempt: any JSON.
    pub result: Option<J>,
    /// Of the last attempt: {class, message, status?}.
    pub error: Option<J>,
    #[schemars(with = "scalar::Time")]
    pub created_at: Timestamp,
    #[schemars(with = "Option<scalar::Time>")]
    pub settled_at: Option<Timestamp>,
    /// Number of times that a person edited the input.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub revision: i32,
    /// The latest progress of its attempts; any JSON.
    pub progress: Option<J>,
    /// Of a `call`: the function.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::Name>")]
    pub function: Option<String>,
    /// Of a `task`: the type that workers lease.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::Name>")]
    pub task_type: Option<String>,
    /// Of a `task`: labels that a worker must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<scalar::Name>>")]
    pub labels: Option<Vec<String>>,
}
