//! The specification of a graph and its nodes, as their author writes it.
//!
//! These types describe the language for the document. The engine and the SDK have types of their own, which can
//! validate it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use millstream_model::duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::graph_words::NodeOutcome;
use crate::scalar;
use crate::words::api_words;

/// A graph to create.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NewGraph", deny_unknown_fields, extend("examples" = [{
    "name": "review",
    "input": { "pull_request": 7 },
    "nodes": [
        { "id": "plan", "task": { "goal": "plan the review" } },
        {
            "id": "read",
            "parents": ["plan"],
            "fan_out": { "over": "results.plan.files" },
            "task": { "goal": "read one file" }
        },
        {
            "id": "verdict",
            "parents": ["read"],
            "task": { "goal": "sum it up", "dependencies": { "notes": "read" } },
            "is_final": true
        }
    ]
}]))]
pub struct NewGraphBody<G = GraphBody> {
    /// Chosen by the caller; generated if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "scalar::ExecutionId")]
    pub graph_id: Option<String>,
    #[serde(flatten)]
    pub graph: G,
}

/// A graph as its author writes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GraphBody {
    #[schemars(length(min = 1, max = 200))]
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The `input` of conditions; executors get it with every node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub options: GraphSettings,
    #[schemars(length(min = 1, max = 20_000))]
    pub nodes: Vec<GraphNodeSpec>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Options of a graph.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "GraphOptions", deny_unknown_fields)]
pub struct GraphSettings {
    /// The graph fails if it has not ended by then.
    #[serde(default, with = "duration::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "scalar::Duration")]
    pub timeout: Option<Duration>,
    /// Maximum number of nodes that run at once; default 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(min = 1, max = 4_294_967_295_u32))]
    pub max_parallel: Option<u32>,
    /// Default for nodes that set none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub node: NodeSettings,
}

/// Options of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NodeOptions", deny_unknown_fields)]
pub struct NodeSettings {
    /// Of one attempt; default 5m.
    #[serde(default, with = "duration::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "scalar::Duration")]
    pub timeout: Option<Duration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "NodeRetrySettings")]
    pub retry: Option<NodeRetrySettings>,
}

/// When and how often a node is retried.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NodeRetry", deny_unknown_fields)]
pub struct NodeRetrySettings {
    /// Total number of attempts, including the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(min = 1, max = 1000), extend("default" = 3))]
    pub attempts: Option<u32>,
    /// Wait before the second attempt; doubles with each further attempt. Default 1s.
    #[serde(default, with = "duration::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "scalar::Duration")]
    pub backoff: Option<Duration>,
    /// The longest wait. Default 60s.
    #[serde(default, with = "duration::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "scalar::Duration")]
    pub max: Option<Duration>,
    /// Retry only after these; default INFRA_ERROR, TIMEOUT and CRASH.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "BTreeSet<NodeOutcome>")]
    pub on: Option<BTreeSet<NodeOutcome>>,
}

/// The specification of a node, at most 64 KiB. Parents must exist, cycles are not allowed and expressions must
/// compile; a graph that violates only these rules is rejected with 422.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NodeSpec", deny_unknown_fields)]
pub struct GraphNodeSpec {
    #[schemars(with = "scalar::Name")]
    pub id: String,
    /// Nodes of the same graph that must end before this one is considered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20_000))]
    pub parents: Vec<NodeParent>,
    /// The placement: an executor with the role and all of the labels.
    #[serde(default, skip_serializing_if = "is_default")]
    pub agent: NodePlacement,
    #[serde(default, skip_serializing_if = "is_default")]
    pub task: NodeWork,
    #[serde(default, skip_serializing_if = "is_default")]
    pub options: NodeSettings,
    /// The reaction of this node to a failed parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ParentFailureReaction")]
    pub on_failure: Option<ParentFailureReaction>,
    /// Whether this node decides the success of the graph.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_final: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "NodeFanOut")]
    pub fan_out: Option<NodeFanOut>,
    /// Instead of an executor: a nested graph, as in `NewGraph` without the id. At most four levels deep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Map<String, Value>")]
    pub graph: Option<Map<String, Value>>,
    /// Instead of an executor: an execution of a definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "NodeExecution")]
    pub execution: Option<NodeExecution>,
}

api_words! {
    /// The reaction of a node to a failed parent.
    ParentFailureReaction {
        Skip = "skip",
        /// It runs nevertheless.
        Continue = "continue",
    }
}

/// A parent of a node, by its id or with a condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum NodeParent {
    Id(#[schemars(with = "scalar::Name")] String),
    Edge(NodeEdge),
}

/// An edge of a graph, with its condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct NodeEdge {
    #[schemars(with = "scalar::Name")]
    pub node: String,
    /// A CEL expression over `input` and `results.PARENT`: if it is false, the edge is closed.
    #[serde(rename = "if", default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub condition: Option<String>,
}

/// The executors that may perform a node: those with the role and all of the labels. `type` and `model` are passed
/// on to them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct NodePlacement {
    #[serde(rename = "type", default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 200))]
    pub role: String,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    #[schemars(with = "BTreeSet<scalar::Name>")]
    pub labels: BTreeSet<String>,
}

/// The task of an executor.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct NodeWork {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub goal: String,
    /// Results of parents that the task receives, by names of its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, scalar::Name>")]
    pub dependencies: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subtasks: Vec<String>,
}

/// The node is performed once for each item of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct NodeFanOut {
    /// A CEL expression that evaluates to a list: the node is performed once for each item (fan-out).
    pub over: String,
}

/// An execution of a definition that performs a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct NodeExecution {
    #[schemars(with = "scalar::Name")]
    pub definition: String,
    /// The newest version if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "scalar::Version")]
    pub version: Option<i32>,
    /// Any JSON; the node's dependencies are added by name.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
}

/// One edit of a graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NodeEdit")]
#[serde(rename_all = "snake_case")]
pub enum GraphNodeEdit {
    Insert(Box<GraphNodeSpec>),
    /// The complete new specification, while the node is PENDING.
    Update(Box<GraphNodeSpec>),
    /// The id of a node, while it is PENDING and no remaining node depends on it.
    Delete(#[schemars(with = "scalar::Name")] String),
}

/// Edits of a running graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "GraphEdits", deny_unknown_fields)]
pub struct GraphEditRequest<E = GraphNodeEdit> {
    /// The revision that the edits are based on.
    #[schemars(range(min = 0, max = 4_294_967_295_u32))]
    pub expected_revision: u32,
    /// All edits are applied, or none.
    #[schemars(length(min = 1, max = 1000))]
    pub edits: Vec<E>,
}
