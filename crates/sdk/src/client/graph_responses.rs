//! Responses about graphs: plain structs, with the names of the API.
//!
//! Unknown fields of a newer server are ignored, and an unknown status is `Unknown`.

use std::collections::BTreeMap;

use millstream_model::time::Timestamp;
use millstream_workflow::graph::NodeSpec;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::responses::statuses;

statuses! {
    /// Status of a graph.
    GraphStatus in "SCREAMING_SNAKE_CASE" {
        Running = "RUNNING",
        /// Every deciding node is `PASS` or `FILTERED`, and at least one is `PASS`.
        Passed = "PASSED",
        Failed = "FAILED",
        Cancelled = "CANCELLED",
        /// Waits for a decision of an operator.
        Paused = "PAUSED",
    }
}

impl GraphStatus {
    /// Final: the status will not change again.
    pub const fn is_ended(self) -> bool {
        matches!(self, Self::Passed | Self::Failed | Self::Cancelled)
    }
}

statuses! {
    /// Status of a node.
    NodeStatus in "SCREAMING_SNAKE_CASE" {
        /// Waits for its parents, or for capacity.
        Pending = "PENDING",
        /// An attempt is under way, or a retry is pending.
        Running = "RUNNING",
        Pass = "PASS",
        /// The task was done, with a negative result.
        Fail = "FAIL",
        /// The task could not be done.
        TaskError = "TASK_ERROR",
        /// The executor was unreachable.
        InfraError = "INFRA_ERROR",
        /// No answer within the node's timeout.
        Timeout = "TIMEOUT",
        /// The executor died while performing it.
        Crash = "CRASH",
        /// An earlier node has failed.
        Skipped = "SKIPPED",
        /// All paths to it are closed by conditions.
        Filtered = "FILTERED",
    }
}

impl NodeStatus {
    /// Final: the status will not change again.
    pub const fn is_ended(self) -> bool {
        !matches!(self, Self::Pending | Self::Running | Self::Unknown)
    }
}

/// A graph with its progress, without its nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GraphSummary {
    pub graph_id: String,
    pub name: String,
    #[serde(default)]
    pub description: String,
    /// The name of the API key that created it.
    #[serde(default)]
    pub creator: Option<String>,
    pub status: GraphStatus,
    /// Revision of its shape: 1 at creation, incremented by every patch and every fan-out whose list became
    /// known.
    pub revision: u32,
    /// Number of nodes by status.
    #[serde(default)]
    pub nodes: BTreeMap<NodeStatus, u32>,
    #[serde(default)]
    pub input: Value,
    #[serde(default)]
    pub options: Value,
    /// Why it failed, was cancelled or is paused.
    #[serde(default)]
    pub reason: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Absent until it has ended.
    #[serde(default)]
    pub ended_at: Option<Timestamp>,
}

/// A node with its outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GraphNode {
    /// Its id.
    pub node: String,
    pub status: NodeStatus,
    /// The current or last attempt; 0 before the first.
    #[serde(default)]
    pub attempt: u32,
    /// The reason for its status: the parents that released it, the condition that closed the path, or the
    /// error.
    #[serde(default)]
    pub why: Option<String>,
    /// The node as submitted: see [`GraphNode::spec`].
    #[serde(default)]
    pub spec: Value,
    #[serde(default)]
    pub children: Vec<String>,
    /// For an instance of a fan-out: the fan-out's node, and its item.
    #[serde(default)]
    pub instance_of: Option<String>,
    #[serde(default)]
    pub item: Option<Value>,
    /// Size of its result, if there is one.
    #[serde(default)]
    pub result_bytes: Option<u64>,
    /// Only for single nodes, not in lists: see [`Client::node`](super::Client::node).
    #[serde(default)]
    pub result: Option<Value>,
    /// Not in lists either: the last progress of the current attempt.
    #[serde(default)]
    pub progress: Option<Value>,
    #[serde(default)]
    pub error: Option<String>,
    /// The executor that performs or last performed it, and the reason for the choice.
    #[serde(default)]
    pub executor: Option<String>,
    #[serde(default)]
    pub executor_reason: Option<String>,
    #[serde(default)]
    pub started_at: Option<Timestamp>,
    #[serde(default)]
    pub dispatched_at: Option<Timestamp>,
    #[serde(default)]
    pub ended_at: Option<Timestamp>,
}

impl GraphNode {
    /// The node as submitted, typed.
    pub fn spec(&self) -> Result<NodeSpec, serde_json::Error> {
        NodeSpec::deserialize(&self.spec)
    }

    /// The result, deserialised; for a node without one, from null.
    pub fn result_as<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        T::deserialize(self.result.as_ref().unwrap_or(&Value::Null))
    }
}

/// A log entry of an executor about a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NodeLogEntry {
    pub attempt: u32,
    pub text: String,
    /// The attempt's log exceeded its limit; this is the last stored entry.
    #[serde(default)]
    pub truncated: bool,
    pub at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graph_of_newer_server_is_read() {
        let told = serde_json::json!({
            "graph_id": "g", "name": "n", "status": "DREAMING", "revision": 1, "mood": 1,
            "nodes": { "PASS": 2, "DREAMING": 1 },
            "created_at": "2026-01-01T00:00:00.000Z", "updated_at": "2026-01-01T00:00:00.000Z"
        });
        let graph: GraphSummary = serde_json::from_value(told).unwrap();
        assert_eq!((graph.status, graph.status.is_ended()), (GraphStatus::Unknown, false));
        assert_eq!(graph.nodes[&NodeStatus::Pass], 2);
        assert_eq!(graph.nodes[&NodeStatus::Unknown], 1);
    }

    #[test]
    fn client_knows_every_node_status() {
        for status in millstream_workflow::graph::NodeStatus::ALL {
            let told: NodeStatus = serde_json::from_str(&format!("\"{status}\"")).unwrap();
            assert_eq!(told.as_str(), status.as_str());
            assert_eq!(told.is_ended(), status.is_ended());
        }
    }

    #[test]
    fn graph_node_keeps_its_spec() {
        let told = serde_json::json!({
            "node": "a", "status": "PASS", "result": [1, 2],
            "spec": { "id": "a", "parents": [{ "node": "b", "if": "input.x" }], "execution": { "definition": "d", "input": { "n": 1 } } }
        });
        let node: GraphNode = serde_json::from_value(told).unwrap();
        assert_eq!(node.result_as::<Vec<u8>>().unwrap(), [1, 2]);
        let spec = node.spec().unwrap();
        assert_eq!(spec.parents[0].condition.as_deref(), Some("input.x"));
        assert_eq!(spec.execution.unwrap().input.as_str(), r#"{"n":1}"#);
    }
}
