//! Nodes of graphs: their views, and the reports of executors about them.

use millstream_model::time::Timestamp;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::graph_spec::{GraphNodeEdit, GraphNodeSpec};
use crate::graph_words::{NodeOutcome, NodeStatus};
use crate::scalar;

/// A node without its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Node", deny_unknown_fields)]
pub struct GraphNode<J = Value> {
    /// Its id.
    #[schemars(with = "scalar::Name")]
    pub node: String,
    pub status: NodeStatus,
    /// The number of the current or last attempt; 0 before the first.
    pub attempt: u32,
    /// Why the node has this status: the parents that released it, the condition that closed the path, or the
    /// error.
    pub why: Option<String>,
    pub error: Option<String>,
    #[schemars(with = "Vec<scalar::Name>")]
    pub children: Vec<String>,
    /// The node of the fan-out, for an instance of it.
    #[schemars(with = "Option<scalar::Name>")]
    pub instance_of: Option<String>,
    /// The item of the fan-out, for an instance of it: any JSON.
    pub item: Option<J>,
    /// The executor that performs or last performed it.
    pub executor: Option<String>,
    /// Why that executor was chosen.
    pub executor_reason: Option<String>,
    #[schemars(with = "Option<scalar::Time>")]
    pub started_at: Option<Timestamp>,
    #[schemars(with = "Option<scalar::Time>")]
    pub dispatched_at: Option<Timestamp>,
    #[schemars(with = "Option<scalar::Time>")]
    pub ended_at: Option<Timestamp>,
    /// The size of the result, if there is one.
    pub result_bytes: Option<u64>,
    /// The node as its author wrote it.
    #[schemars(with = "GraphNodeSpec")]
    pub spec: J,
}

/// A node with its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NodeDetail", deny_unknown_fields)]
pub struct GraphNodeDetail<J = Value, E = GraphNodeEdit> {
    #[serde(flatten)]
    pub view: GraphNode<J>,
    /// The result: any JSON, or null.
    pub result: Option<J>,
    /// The edits that the result requested.
    pub edits: Vec<E>,
    /// The latest progress of the current attempt: any JSON.
    pub progress: Option<J>,
}

/// A log entry of an executor about a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NodeLog", deny_unknown_fields)]
pub struct NodeLogEntry {
    pub attempt: u32,
    pub text: String,
    /// The attempt wrote more than the 64 KiB that are kept.
    pub truncated: bool,
    #[schemars(with = "scalar::Time")]
    pub at: Timestamp,
}

/// The result of an attempt at a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NodeResult", deny_unknown_fields)]
pub struct NodeAttemptResult<J = Value, E = GraphNodeEdit> {
    /// As received with the request to perform the node.
    pub token: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(min = 1, max = 4_294_967_295_u32))]
    pub attempt: Option<u32>,
    /// As received with the request; locates the attempt directly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub idempotency_key: Option<String>,
    pub status: NodeOutcome,
    /// Any JSON of at most 1 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<J>,
    /// The error message; its first 4,096 characters are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub error: Option<String>,
    /// Edits that are applied together with a result that passes.
    #[serde(default = "Vec::<E>::new", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub edits: Vec<E>,
    /// Log text; 64 KiB are kept per attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub logs: Option<String>,
}

/// The progress of an attempt at a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NodeProgress", deny_unknown_fields)]
pub struct NodeAttemptProgress<J = Value> {
    /// As received with the request to perform the node.
    pub token: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(min = 1, max = 4_294_967_295_u32))]
    pub attempt: Option<u32>,
    /// As received with the request; locates the attempt directly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub idempotency_key: Option<String>,
    /// Any JSON of at most 16 KiB; `{"subtasks_done": [0, 2]}` names the subtasks that are done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<J>,
    /// Log text that is appended to the node's log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub logs: Option<String>,
}

/// The answer to progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct NodeHeld {
    /// The result is no longer wanted: stop when convenient.
    pub cancelled: bool,
}

impl GraphNode {
    /// The node as its author wrote it, as a type of the caller.
    pub fn spec_as<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        T::deserialize(&self.spec)
    }
}

impl GraphNodeDetail {
    /// The result, deserialised; for a node without one, from null.
    pub fn result_as<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        T::deserialize(self.result.as_ref().unwrap_or(&Value::Null))
    }
}
