//! The events of a graph, as its watch sends them.

use millstream_model::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::graph_spec::GraphNodeSpec;
use crate::graph_words::NodeStatus;
use crate::scalar;
use crate::sse::SseData;

/// An event of a graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "GraphHappening")]
pub struct GraphEvent<S = Value> {
    /// Position for resuming after it: the id of the server-sent event.
    #[serde(skip)]
    pub position: String,
    #[schemars(with = "scalar::ExecutionId")]
    pub graph_id: String,
    #[schemars(with = "scalar::Time")]
    pub at: Timestamp,
    /// The seq in the log; null for node.dispatched, which is not in the log.
    pub seq: Option<i64>,
    #[serde(flatten)]
    pub what: GraphNotice<S>,
}

/// Kinds of graph events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
#[non_exhaustive]
pub enum GraphNotice<S = Value> {
    #[serde(rename = "workflow.created")]
    Created {
        name: String,
        /// The name of the key that created it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        creator: Option<String>,
        /// Number of its nodes.
        nodes: u32,
    },
    /// Edits were applied. Contains inserted nodes as submitted, and updated nodes before and after.
    #[serde(rename = "workflow.edited")]
    Edited {
        /// The revision after the edits.
        revision: u32,
        #[schemars(with = "Vec<GraphNodeSpec>")]
        inserted: Vec<S>,
        updated: Vec<NodeSpecChange<S>>,
        #[schemars(with = "Vec<scalar::Name>")]
        deleted: Vec<String>,
    },
    /// The list of a fan-out became known.
    #[serde(rename = "node.expanded")]
    Expanded {
        #[schemars(with = "scalar::Name")]
        node: String,
        /// Number of items in the list.
        instances: u32,
        /// The revision after the fan-out.
        revision: u32,
    },
    /// Its parents released it: its first attempt waits for an executor.
    #[serde(rename = "node.scheduled")]
    Scheduled {
        #[schemars(with = "scalar::Name")]
        node: String,
        attempt: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// An executor was chosen for an attempt.
    #[serde(rename = "node.dispatched")]
    Dispatched {
        #[schemars(with = "scalar::Name")]
        node: String,
        attempt: u32,
        executor: String,
        /// Why that executor was chosen.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// An attempt has failed and is retried.
    #[serde(rename = "node.retried")]
    Retried {
        #[schemars(with = "scalar::Name")]
        node: String,
        /// The number of the next attempt.
        attempt: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// The node has reached a final status, whether it ran or not.
    #[serde(rename = "node.completed")]
    NodeCompleted {
        #[schemars(with = "scalar::Name")]
        node: String,
        status: NodeStatus,
        attempt: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// The graph has passed.
    #[serde(rename = "workflow.completed")]
    Completed,
    #[serde(rename = "workflow.failed")]
    Failed {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    #[serde(rename = "workflow.cancelled")]
    Cancelled {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// An event unknown to this client.
    #[serde(other)]
    #[schemars(skip)]
    Unknown,
}

/// A node before and after an edit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NodeSpecChange")]
pub struct NodeSpecChange<S = Value> {
    #[schemars(with = "GraphNodeSpec")]
    pub was: S,
    #[schemars(with = "GraphNodeSpec")]
    pub is: S,
}

/// One server-sent event, as its fields.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[schemars(rename = "WatchMessage", deny_unknown_fields)]
pub struct GraphWatchMessage {
    /// The type.
    pub event: String,
    #[schemars(with = "scalar::WatchPlace")]
    pub id: String,
    #[schemars(with = "SseData<GraphEvent>")]
    pub data: String,
}

impl<S> GraphNotice<S> {
    /// The graph has ended.
    pub const fn is_end(&self) -> bool {
        matches!(self, Self::Completed | Self::Failed { .. } | Self::Cancelled { .. })
    }
}
