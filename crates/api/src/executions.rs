//! Executions: started, singly or as an array, and read.

use millstream_model::time::Timestamp;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::events::EventToPost;
use crate::scalar;
use crate::verdicts::Verdicts;
use crate::words::api_words;

api_words! {
    /// Status of an execution.
    ExecutionStatus from millstream_model::status::ExecutionStatus {
        Active = "active",
        /// A failure that no handler covers: an operator decides.
        Paused = "paused",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

impl ExecutionStatus {
    /// Final: the status will not change again.
    pub const fn is_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// One run of a definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Execution", deny_unknown_fields)]
pub struct Execution<J = Value> {
    #[schemars(with = "scalar::ExecutionId")]
    pub execution_id: String,
    #[schemars(with = "scalar::Name")]
    pub definition: String,
    /// The version of the definition.
    pub version: i32,
    #[schemars(with = "scalar::Name")]
    pub state: String,
    pub status: ExecutionStatus,
    /// Its data, which transitions change.
    #[schemars(with = "Map<String, Value>")]
    pub context: J,
    /// The number of its last transition.
    pub seq: i64,
    #[schemars(with = "scalar::Time")]
    pub created_at: Timestamp,
    #[schemars(with = "scalar::Time")]
    pub updated_at: Timestamp,
    /// Why it ended, if no final state says it; or why it is paused; or that its state cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Of a child execution: the action that started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<ParentAction>,
    /// The name by which signals find it; absent while it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation: Option<String>,
}

impl Execution {
    /// The context, deserialised.
    pub fn context_as<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        T::deserialize(&self.context)
    }
}

/// The action that started a child execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ParentAction {
    #[schemars(with = "scalar::ExecutionId")]
    pub execution_id: String,
    /// The transition of the action.
    pub seq: i64,
    #[schemars(with = "scalar::Name")]
    pub action: String,
}

/// An execution to start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Start", deny_unknown_fields)]
#[schemars(extend("examples" = [
    { "definition": "order", "input": { "total": 5 }, "events": [{ "name": "pay", "payload": { "amount": 7 } }] },
]))]
pub struct ExecutionToStart<J = Value> {
    #[schemars(with = "scalar::Name")]
    pub definition: String,
    /// Default: the latest version.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::Version>")]
    pub version: Option<i32>,
    /// The same start with the same id is one execution. Default: derived from the idempotency key, or random.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<scalar::ExecutionId>")]
    pub execution_id: Option<String>,
    /// Merged over the context of the definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Map<String, Value>>")]
    pub input: Option<J>,
    /// Its first events, accepted in the same commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1000))]
    pub events: Option<Vec<EventToPost<J>>>,
}

/// One start, or an array of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "StartRequest")]
pub enum ExecutionsToStart<J = Value> {
    One(ExecutionToStart<J>),
    Many(#[schemars(length(max = 1000))] Vec<ExecutionToStart<J>>),
}

/// The execution, or, for an array of starts, one verdict per item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "ExecutionOrVerdicts")]
pub enum StartedExecutions<J = Value> {
    One(Execution<J>),
    Many(Verdicts<Execution<J>>),
}
