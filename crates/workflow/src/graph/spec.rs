//! The specification that users write: a graph and its nodes.
//!
//! This is the JSON of the HTTP API and of the command line; the protos mirror it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use millstream_model::duration;
use millstream_model::id::Name;
use millstream_model::raw::RawJson;
use serde::{Deserialize, Serialize};

use super::status::NodeStatus;

/// The id of a node, unique in its graph. It is a [`Name`], so that the dispatch of a node is an action with
/// the same name.
pub type NodeId = Name;

/// A whole graph, as submitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphSpec {
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The `input` of conditions, also sent to executors with every node. An object, or null.
    #[serde(default = "RawJson::null", skip_serializing_if = "is_null")]
    pub input: RawJson,
    #[serde(default, skip_serializing_if = "GraphOptions::is_default")]
    pub options: GraphOptions,
    pub nodes: Vec<NodeSpec>,
}

fn is_null(value: &RawJson) -> bool {
    value.as_str() == "null"
}

/// Options of a whole graph.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GraphOptions {
    /// The graph fails if it has not ended within this time.
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Maximum number of concurrent nodes; 1,000 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
    /// Defaults for nodes without their own options.
    #[serde(skip_serializing_if = "NodeOptions::is_default")]
    pub node: NodeOptions,
}

impl GraphOptions {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// `ExecutionOptions` of the protos.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NodeOptions {
    /// Time limit of one attempt; five minutes by default.
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<NodeRetry>,
}

impl NodeOptions {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The retry policy of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NodeRetry {
    /// Maximum number of attempts, the first included. At least 1.
    pub attempts: u32,
    /// The backoff before the second attempt; doubles with each further one.
    #[serde(with = "duration::text")]
    pub backoff: Duration,
    #[serde(with = "duration::text")]
    pub max: Duration,
    /// The statuses that are retried.
    pub on: BTreeSet<NodeStatus>,
}

impl Default for NodeRetry {
    /// Failures that may be transient have three attempts; a verdict of the task itself is final.
    fn default() -> Self {
        Self {
            attempts: 3,
            backoff: Duration::from_secs(1),
            max: Duration::from_secs(60),
            on: BTreeSet::from([NodeStatus::InfraError, NodeStatus::Timeout, NodeStatus::Crash]),
        }
    }
}

/// One node, as submitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeSpec {
    pub id: NodeId,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parents: Vec<GraphEdge>,
    #[serde(default, skip_serializing_if = "NodeAgent::is_default")]
    pub agent: NodeAgent,
    #[serde(default, skip_serializing_if = "NodeTask::is_default")]
    pub task: NodeTask,
    #[serde(default, skip_serializing_if = "NodeOptions::is_default")]
    pub options: NodeOptions,
    /// The reaction of this node to the failure of a parent.
    #[serde(default, skip_serializing_if = "NodeOnFailure::is_default")]
    pub on_failure: NodeOnFailure,
    /// Whether this node decides the success of the graph. If no node is marked, the nodes without children
    /// decide.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_final: bool,
    /// The node is performed once per item of a list; it passes when all instances have passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fan_out: Option<FanOut>,
    /// Replaces the executor: a nested graph. Not together with `execution`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<Arc<GraphSpec>>,
    /// Replaces the executor: an execution of a definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<SubExecution>,
}

/// An edge from a parent, written as its id or as `{node: ID, if: CONDITION}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "EdgeForm", into = "EdgeForm")]
pub struct GraphEdge {
    pub from: NodeId,
    /// An expression over `input` and `results.PARENT` of the node's parents: if it is false the edge is
    /// closed.
    pub condition: Option<String>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged, expecting = "must be the id of a node, or {\"node\": ID, \"if\": CONDITION}")]
enum EdgeForm {
    Plain(NodeId),
    Full(FullEdge),
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FullEdge {
    node: NodeId,
    #[serde(rename = "if", default, skip_serializing_if = "Option::is_none")]
    condition: Option<String>,
}

impl From<EdgeForm> for GraphEdge {
    fn from(form: EdgeForm) -> Self {
        match form {
            EdgeForm::Plain(from) => Self { from, condition: None },
            EdgeForm::Full(FullEdge { node, condition }) => Self { from: node, condition },
        }
    }
}

impl From<GraphEdge> for EdgeForm {
    fn from(edge: GraphEdge) -> Self {
        match edge.condition {
            None => Self::Plain(edge.from),
            condition @ Some(_) => Self::Full(FullEdge { node: edge.from, condition }),
        }
    }
}

/// The executor to select: by role and labels.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NodeAgent {
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// Empty: any executor will do.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub role: String,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<Name>,
}

impl NodeAgent {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The work to perform.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NodeTask {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub goal: String,
    /// Results of parents passed to the task, each under its own name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub dependencies: BTreeMap<String, NodeId>,
    /// A checklist within the node, reported as progress.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subtasks: Vec<String>,
}

impl NodeTask {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeOnFailure {
    /// The node is skipped, and so are its descendants.
    #[default]
    Skip,
    /// The node runs in any case, once all its parents have ended.
    Continue,
}

impl NodeOnFailure {
    fn is_default(&self) -> bool {
        *self == Self::Skip
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FanOut {
    /// An expression over `input` and `results.PARENT` that evaluates to a list.
    pub over: String,
}

/// An execution of a definition as a node. Its input is `input` merged with the node's dependencies by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubExecution {
    pub definition: Name,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i32>,
    #[serde(default = "RawJson::null", skip_serializing_if = "is_null")]
    pub input: RawJson,
}

/// One edit of a graph. A patch is a list of edits, applied atomically.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeEdit {
    Insert(Arc<NodeSpec>),
    /// Replaces the whole node; only while it is `PENDING`.
    Update(Arc<NodeSpec>),
    Delete(NodeId),
}
