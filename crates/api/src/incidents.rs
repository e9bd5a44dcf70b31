//! Incidents: failures that need a decision by a person, singly and by group.

use millstream_model::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::actions::ActionStatus;
use crate::scalar;
use crate::words::api_words;

api_words! {
    /// Whether an incident still needs a decision.
    IncidentStatus {
        Open = "open",
        Resolved = "resolved",
    }
}

api_words! {
    /// How an incident was resolved. ended: its execution ended by other means.
    IncidentResolution from millstream_model::status::IncidentResolution {
        /// Retried with the same input and the same key.
        Retry = "retry",
        /// Retried with an edited input under a new key.
        RetryWithInput = "retry_with_input",
        /// Treated as succeeded with a given result.
        Skip = "skip",
        /// The execution is failed.
        Fail = "fail",
        /// The execution is cancelled.
        Cancel = "cancel",
        /// The execution ended by other means.
        Ended = "ended",
    }
}

/// A failure that an operator has to resolve. An execution with an open incident is paused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Incident {
    #[schemars(with = "scalar::IncidentId")]
    pub incident_id: String,
    pub status: IncidentStatus,
    #[schemars(with = "scalar::ExecutionId")]
    pub execution_id: String,
    #[schemars(with = "scalar::Name")]
    pub definition: String,
    /// The version of the definition.
    pub version: i32,
    #[schemars(with = "scalar::EventId")]
    pub event_id: String,
    /// Null: the event itself could not be decided.
    #[schemars(with = "Option<scalar::Name>")]
    pub action: Option<String>,
    /// The transition of the action.
    pub seq: Option<i64>,
    /// The class of the error: one of the engine (network, timeout, status, …) or one of your own code.
    #[schemars(with = "scalar::Name")]
    pub class: String,
    #[schemars(with = "scalar::Fingerprint")]
    pub fingerprint: String,
    pub reason: String,
    #[schemars(with = "scalar::Time")]
    pub opened_at: Timestamp,
    /// Null while it is open.
    pub resolved: Option<IncidentVerdict>,
}

impl Incident {
    pub const fn is_open(&self) -> bool {
        self.resolved.is_none()
    }
}

/// The decision about an incident, its author and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct IncidentVerdict {
    pub resolution: IncidentResolution,
    pub actor: Option<String>,
    pub reason: Option<String>,
    #[schemars(with = "scalar::Time")]
    pub at: Timestamp,
}

/// An incident with the current status of its action; those fields are null for an event that could not be
/// decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "IncidentDetail", deny_unknown_fields)]
pub struct IncidentDetail<J = Value> {
    #[serde(flatten)]
    pub incident: Incident,
    /// The idempotency key of its attempts.
    pub key: Option<String>,
    /// Number of times that a person edited the input.
    pub revision: Option<i32>,
    pub action_status: Option<ActionStatus>,
    pub attempts: Option<i32>,
    /// The action's stored input, without secrets: it can be edited for a retry. Null if no input could be
    /// rendered.
    pub input: Option<J>,
    /// Of the last attempt: {class, message, status?}.
    pub error: Option<J>,
    /// The latest progress of its attempts; any JSON.
    pub progress: Option<J>,
}

/// Open incidents of the same cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct IncidentGroup {
    #[schemars(with = "scalar::Fingerprint")]
    pub fingerprint: String,
    #[schemars(with = "scalar::Name")]
    pub definition: String,
    /// Null: events that could not be decided.
    #[schemars(with = "Option<scalar::Name>")]
    pub action: Option<String>,
    #[schemars(with = "scalar::Name")]
    pub class: String,
    #[schemars(range(min = 1))]
    pub count: u64,
    #[schemars(with = "scalar::Time")]
    pub first_seen: Timestamp,
    #[schemars(with = "scalar::Time")]
    pub last_seen: Timestamp,
    /// The newest incident of the group.
    pub sample: Incident,
}

/// A recorded decision about an incident.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ResolvedIncident", deny_unknown_fields)]
pub struct IncidentResolved {
    #[schemars(with = "scalar::IncidentId")]
    pub incident_id: String,
    #[schemars(with = "scalar::ExecutionId")]
    pub execution_id: String,
    pub resolution: IncidentResolution,
    /// Of a retry: the key of the next attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// The effect of a decision about a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ResolvedGroup", deny_unknown_fields)]
pub struct GroupResolved {
    /// Number of incidents resolved by this call.
    pub resolved: u64,
    /// Number of incidents open now, including those that failed again meanwhile.
    pub remaining: u64,
}

/// A decision without further data.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "IncidentDecision", deny_unknown_fields)]
pub struct IncidentEnding {
    /// The reason; recorded with the actor.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4000))]
    pub reason: Option<String>,
}

/// A retry, under the same key or with an edited input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "IncidentRetry", deny_unknown_fields)]
#[schemars(extend("examples" = [
    {
        "reason": "the account was moved",
        "input": { "http": { "method": "POST", "url": "https://bank.example/charge/17", "body": { "amount": 30 } } },
    },
    { "reason": "the bank is back" },
]))]
pub struct IncidentRetry<J = Value> {
    /// The whole edited input, of the same kind as the stored one. It is performed under a new key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Map<String, Value>>")]
    pub input: Option<J>,
    /// The reason; recorded with the actor.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4000))]
    pub reason: Option<String>,
}

/// A result in place of the action's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "IncidentSkip", deny_unknown_fields)]
#[schemars(extend("examples" = [{ "reason": "paid by hand", "result": { "receipt": "r-17" } }]))]
pub struct IncidentSkip<J = Value> {
    /// The result that the action would have returned, null included. Required, except for an event that could
    /// not be decided, which has no result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<J>,
    /// The reason; recorded with the actor.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4000))]
    pub reason: Option<String>,
}

/// A decision about all incidents of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct GroupDecision {
    /// The reason; recorded with the actor.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4000))]
    pub reason: Option<String>,
    /// At most this many, the newest first; default 10,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub limit: Option<u32>,
}
