//! What users write: a graph and its nodes.
//!
//! This is the JSON of the HTTP twin and of the command line; the protos say the same in their own words.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::status::NodeStatus;
use crate::duration;
use crate::id::Name;
use crate::raw::RawJson;

/// The name of a node, unique in its graph. It is a [`Name`], so that a node's dispatch is an action by the
/// same name.
pub type NodeId = Name;

/// A whole graph, before it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphSpec {
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What conditions see as `input` and executors get with every node. An object, or null.
    #[serde(default = "RawJson::null", skip_serializing_if = "is_null")]
    pub input: RawJson,
    #[serde(default, skip_serializing_if = "GraphOptions::is_default")]
    pub options: GraphOptions,
    pub nodes: Vec<NodeSpec>,
}

fn is_null(value: &RawJson) -> bool {
    value.as_str() == "null"
}

/// How a graph as a whole is run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GraphOptions {
    /// The graph fails when it has not ended by then.
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// How many nodes may run at once; 1,000 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
    /// For nodes that say nothing themselves.
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
    /// Of one attempt; five minutes unless said.
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

/// How often and after which failures a node is tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NodeRetry {
    /// Attempts in all, the first included. At least 1.
    pub attempts: u32,
    /// The wait before the second attempt; doubles with each one.
    #[serde(with = "duration::text")]
    pub backoff: Duration,
    #[serde(with = "duration::text")]
    pub max: Duration,
    /// Only these statuses are tried again.
    pub on: BTreeSet<NodeStatus>,
}

impl Default for NodeRetry {
    /// What may be nobody's fault is tried three times; what the task itself says is final.
    fn default() -> Self {
        Self {
            attempts: 3,
            backoff: Duration::from_secs(1),
            max: Duration::from_secs(60),
            on: BTreeSet::from([NodeStatus::InfraError, NodeStatus::Timeout, NodeStatus::Crash]),
        }
    }
}

/// One node, as it is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeSpec {
    pub id: NodeId,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parents: Vec<Edge>,
    #[serde(default, skip_serializing_if = "Agent::is_default")]
    pub agent: Agent,
    #[serde(default, skip_serializing_if = "Task::is_default")]
    pub task: Task,
    #[serde(default, skip_serializing_if = "NodeOptions::is_default")]
    pub options: NodeOptions,
    /// What this node does when a node before it has failed.
    #[serde(default, skip_serializing_if = "OnFailure::is_default")]
    pub on_failure: OnFailure,
    /// Whether the success of the graph is the success of this node. Where no node says so, those without
    /// children decide.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_final: bool,
    /// The node is performed once for each item of a list; it passes when all of them have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fan_out: Option<FanOut>,
    /// Instead of an executor: a graph of its own. Not together with `execution`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<Arc<GraphSpec>>,
    /// Instead of an executor: an execution of a definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<SubExecution>,
}

/// The way from a parent, written as its id or as `{node: ID, if: CONDITION}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "EdgeForm", into = "EdgeForm")]
pub struct Edge {
    pub from: NodeId,
    /// An expression over `input` and `results.PARENT` of the node's parents: where it is false the way is
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

impl From<EdgeForm> for Edge {
    fn from(form: EdgeForm) -> Self {
        match form {
            EdgeForm::Plain(from) => Self { from, condition: None },
            EdgeForm::Full(FullEdge { node, condition }) => Self { from: node, condition },
        }
    }
}

impl From<Edge> for EdgeForm {
    fn from(edge: Edge) -> Self {
        match edge.condition {
            None => Self::Plain(edge.from),
            condition @ Some(_) => Self::Full(FullEdge { node: edge.from, condition }),
        }
    }
}

/// Who should do it: an executor is chosen by role and labels.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Agent {
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

impl Agent {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What is to be done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Task {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub goal: String,
    /// Results of parents that the task is handed, each by a name of its own.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub dependencies: BTreeMap<String, NodeId>,
    /// A checklist within the node, reported as progress.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subtasks: Vec<String>,
}

impl Task {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// It is skipped, and so is what comes after it.
    #[default]
    Skip,
    /// It runs all the same, once all its parents have ended.
    Continue,
}

impl OnFailure {
    fn is_default(&self) -> bool {
        *self == Self::Skip
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FanOut {
    /// An expression over `input` and `results.PARENT` that gives a list.
    pub over: String,
}

/// An execution of a definition as a node. Its input is `input` with the node's dependencies added by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubExecution {
    pub definition: Name,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i32>,
    #[serde(default = "RawJson::null", skip_serializing_if = "is_null")]
    pub input: RawJson,
}

/// One edit of a graph. A patch is a list of them, taken together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeEdit {
    Insert(Arc<NodeSpec>),
    /// The whole node anew; only while it is `PENDING`.
    Update(Arc<NodeSpec>),
    Delete(NodeId),
}
