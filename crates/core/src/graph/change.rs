//! What a transition does to a graph: the words that the log is written in.
//!
//! Like a [`Decision`](crate::log::Decision) it says what was decided. Folding it evaluates no condition and
//! draws no conclusion, so that replay gives every revision exactly.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use super::spec::{GraphSpec, NodeId, NodeSpec};
use super::status::NodeStatus;
use crate::raw::RawJson;

/// Folded in the order of the fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// At creation, and only then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<Arc<Created>>,
    /// Edits that were applied: one more revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<Patch>,
    /// Fan-outs whose list became known: one more revision each. Their instances are `PENDING` at first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expanded: Vec<Expansion>,
    /// What became of nodes, each at most once, in the order in which it was found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeChange>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Created {
    pub graph: GraphSpec,
    /// The name of the caller's key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creator: Option<String>,
}

/// What edits made of a graph.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Patch {
    /// After it.
    pub revision: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inserted: Vec<Arc<NodeSpec>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub updated: Vec<Updated>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deleted: Vec<Arc<NodeSpec>>,
    /// Results of nodes that have ended and that expressions mention only now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known: Vec<(NodeId, RawJson)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Updated {
    pub was: Arc<NodeSpec>,
    pub is: Arc<NodeSpec>,
}

/// A node in another status, or in the same one with another attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeChange {
    pub id: NodeId,
    pub status: NodeStatus,
    /// 0 before the first dispatch.
    pub attempt: u32,
    /// Why: which parents let it run, which condition closed the way, what went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The result, where a condition or a fan-out after it mentions it. All results are in the outcome's event.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub kept: Option<RawJson>,
    /// What the next attempt should avoid if it can: executors that died over this node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub avoid: Vec<String>,
}

/// A fan-out with its items: the instances are `NODE.0`, `NODE.1` and so on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expansion {
    pub id: NodeId,
    pub items: Vec<RawJson>,
    /// After it.
    pub revision: u32,
}

/// A result of null is a result: only what is not there at all is none.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RawJson>, D::Error> {
    RawJson::deserialize(deserializer).map(Some)
}
