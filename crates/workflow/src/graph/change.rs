//! The change of a graph that a transition records: the vocabulary of its log.
//!
//! Like a [`Decision`](crate::log::TransitionDecision), it records what was decided. Folding it evaluates no condition
//! and decides nothing, so replay reproduces every revision exactly.

use std::sync::Arc;

use millstream_model::raw::RawJson;
use serde::{Deserialize, Deserializer, Serialize};

use super::spec::{GraphSpec, NodeId, NodeSpec};
use super::status::NodeStatus;

/// Folded in the order of the fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphChange {
    /// Present at creation only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<Arc<CreatedGraph>>,
    /// Applied edits: one new revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<GraphPatch>,
    /// Fan-outs that were expanded: one new revision each. Their instances start as `PENDING`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expanded: Vec<FanOutExpansion>,
    /// Status changes of nodes, each node at most once, in order of discovery.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeChange>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatedGraph {
    pub graph: GraphSpec,
    /// The name of the caller's API key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creator: Option<String>,
}

/// The effect of edits on a graph.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphPatch {
    /// The revision after the patch.
    pub revision: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inserted: Vec<Arc<NodeSpec>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub updated: Vec<NodeSpecUpdate>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deleted: Vec<Arc<NodeSpec>>,
    /// Results of ended nodes that expressions mention for the first time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known: Vec<(NodeId, RawJson)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSpecUpdate {
    pub was: Arc<NodeSpec>,
    pub is: Arc<NodeSpec>,
}

/// A node with a new status, or with a new attempt in the same status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeChange {
    pub id: NodeId,
    pub status: NodeStatus,
    /// 0 before the first dispatch.
    pub attempt: u32,
    /// The reason: which parents permit it to run, which condition is false, or the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The result, if a later condition or fan-out mentions it. The event of the outcome holds every result.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub kept: Option<RawJson>,
    /// Executors that the next attempt avoids if possible, because they crashed on this node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub avoid: Vec<String>,
}

/// A fan-out with its items: the instances are `NODE.0`, `NODE.1` and so on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FanOutExpansion {
    pub id: NodeId,
    pub items: Vec<RawJson>,
    /// The revision after the expansion.
    pub revision: u32,
}

/// Keeps a `null` result apart from an absent result.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RawJson>, D::Error> {
    RawJson::deserialize(deserializer).map(Some)
}
