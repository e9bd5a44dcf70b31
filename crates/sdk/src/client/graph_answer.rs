//! What the server tells of graphs: plain structs, in the words of the API.
//!
//! As everywhere, what a newer server says beyond them is ignored, and a status that is not known is `Unknown`.

use std::collections::BTreeMap;

use millstream_core::graph::NodeSpec;
use millstream_core::time::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::answer::statuses;

statuses! {
    /// Where a graph stands.
    GraphStatus in "SCREAMING_SNAKE_CASE" {
        Running = "RUNNING",
        /// Every deciding node is `PASS` or `FILTERED`, and at least one is `PASS`.
        Passed = "PASSED",
        Failed = "FAILED",
        Cancelled = "CANCELLED",
        /// Something waits for a person.
        Paused = "PAUSED",
    }
}

impl GraphStatus {
    /// Nothing more will happen to it.
    pub const fn is_ended(self) -> bool {
        matches!(self, Self::Passed | Self::Failed | Self::Cancelled)
    }
}

statuses! {
    /// Where a node stands.
    NodeStatus in "SCREAMING_SNAKE_CASE" {
        /// It waits for its parents, or for room.
        Pending = "PENDING",
        /// An attempt is under way, or another one is waited for.
        Running = "RUNNING",
        Pass = "PASS",
        /// The task was done and the answer is no.
        Fail = "FAIL",
        /// The task could not be done.
        TaskError = "TASK_ERROR",
        /// The executor could not be reached.
        InfraError = "INFRA_ERROR",
        /// No answer within the node's timeout.
        Timeout = "TIMEOUT",
        /// The executor died over it.
        Crash = "CRASH",
        /// A node before it has failed.
        Skipped = "SKIPPED",
        /// Every way to it is closed by a condition.
        Filtered = "FILTERED",
    }
}

impl NodeStatus {
    /// Nothing more will happen to it.
    pub const fn is_ended(self) -> bool {
        !matches!(self, Self::Pending | Self::Running | Self::Unknown)
    }
}

/// A graph and how far it is, without its nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Graph {
    pub graph_id: String,
    pub name: String,
    #[serde(default)]
    pub description: String,
    /// The name of the key that created it.
    #[serde(default)]
    pub creator: Option<String>,
    pub status: GraphStatus,
    /// Of its shape: 1 at creation, one more for every patch and for every fan-out whose list became known.
    pub revision: u32,
    /// How many nodes are in which status.
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
    /// None until it has ended.
    #[serde(default)]
    pub ended_at: Option<Timestamp>,
}

/// A node and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GraphNode {
    /// Its id.
    pub node: String,
    pub status: NodeStatus,
    /// The attempt that runs or ran last; 0 before the first.
    #[serde(default)]
    pub attempt: u32,
    /// Why it stands where it stands: which parents let it run, which condition closed the way, what went wrong.
    #[serde(default)]
    pub why: Option<String>,
    /// The node as it was written: see [`GraphNode::spec`].
    #[serde(default)]
    pub spec: Value,
    #[serde(default)]
    pub children: Vec<String>,
    /// Of an instance of a fan-out: of which node, and its item.
    #[serde(default)]
    pub instance_of: Option<String>,
    #[serde(default)]
    pub item: Option<Value>,
    /// How large its result is, where there is one.
    #[serde(default)]
    pub result_bytes: Option<u64>,
    /// Not in lists: [`Client::node`](super::Client::node) has it.
    #[serde(default)]
    pub result: Option<Value>,
    /// Not in lists either: what the attempt under way told last.
    #[serde(default)]
    pub progress: Option<Value>,
    #[serde(default)]
    pub error: Option<String>,
    /// Who performs or performed it last, and why that one.
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
    /// The node as it was written, typed.
    pub fn spec(&self) -> Result<NodeSpec, serde_json::Error> {
        NodeSpec::deserialize(&self.spec)
    }

    /// The result as a type of yours; of a node without one that of null.
    pub fn result_as<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        T::deserialize(self.result.as_ref().unwrap_or(&Value::Null))
    }
}

/// Something that an executor wrote while it performed a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NodeLog {
    pub attempt: u32,
    pub text: String,
    /// The attempt wrote more than is kept; this is its last entry.
    #[serde(default)]
    pub truncated: bool,
    pub at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_server_is_understood_as_far_as_possible() {
        let told = serde_json::json!({
            "graph_id": "g", "name": "n", "status": "DREAMING", "revision": 1, "mood": 1,
            "nodes": { "PASS": 2, "DREAMING": 1 },
            "created_at": "2026-01-01T00:00:00.000Z", "updated_at": "2026-01-01T00:00:00.000Z"
        });
        let graph: Graph = serde_json::from_value(told).unwrap();
        assert_eq!((graph.status, graph.status.is_ended()), (GraphStatus::Unknown, false));
        assert_eq!(graph.nodes[&NodeStatus::Pass], 2);
        assert_eq!(graph.nodes[&NodeStatus::Unknown], 1);
    }

    #[test]
    fn every_status_of_the_engine_has_its_word_here() {
        for status in millstream_core::graph::NodeStatus::ALL {
            let told: NodeStatus = serde_json::from_str(&format!("\"{status}\"")).unwrap();
            assert_eq!(told.as_str(), status.as_str());
            assert_eq!(told.is_ended(), status.is_ended());
        }
    }

    #[test]
    fn a_node_keeps_what_was_written() {
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
