//! The payloads of the built-in events of graphs.

use millstream_model::attempt::ActionFailure;
use millstream_model::raw::RawJson;
use serde::{Deserialize, Serialize};

use super::spec::{NodeEdit, NodeId};
use super::status::NodeStatus;

/// The payload of `millstream.node`, emitted when a dispatch is settled (see [`crate::action`]).
#[derive(Debug, Clone, Deserialize)]
pub struct NodeOutcome {
    /// The node.
    pub action: NodeId,
    /// Exactly one of `result` and `error` is present.
    #[serde(default)]
    pub result: Option<ExecutorAnswer>,
    #[serde(default)]
    pub error: Option<ActionFailure>,
}

/// The answer of an executor, or of a child execution: the result of the dispatch action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutorAnswer {
    /// Never `PENDING` or `RUNNING`.
    pub status: NodeStatus,
    /// The attempt that was answered.
    pub attempt: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<RawJson>,
    /// The error, unless the node passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<NodeEdit>,
    /// Results of ended nodes that the edits' expressions mention.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known: Vec<(NodeId, RawJson)>,
    /// The executor that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor: Option<String>,
}

/// The payload of `millstream.edit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphEdit {
    pub expected_revision: u32,
    pub edits: Vec<NodeEdit>,
    /// Results of ended nodes that the edits' expressions mention.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known: Vec<(NodeId, RawJson)>,
}
