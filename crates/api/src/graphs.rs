//! Views of graphs.

use std::collections::BTreeMap;

use millstream_model::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::graph_spec::GraphSettings;
use crate::graph_words::{GraphStatus, NodeStatus};
use crate::scalar;

/// A graph with its progress, without its nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Graph", deny_unknown_fields)]
pub struct GraphSummary<J = Value, O = GraphSettings> {
    #[schemars(with = "scalar::ExecutionId")]
    pub graph_id: String,
    pub name: String,
    pub description: String,
    /// The name of the key that created it.
    pub creator: Option<String>,
    pub status: GraphStatus,
    /// The revision of its shape: 1 at creation; increases with every list of edits, and with every fan-out whose
    /// list becomes known.
    pub revision: u32,
    /// As given. Not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<J>,
    pub options: O,
    /// Number of nodes per status.
    pub nodes: BTreeMap<NodeStatus, u32>,
    /// Why it has ended, or is paused.
    pub reason: Option<String>,
    #[schemars(with = "scalar::Time")]
    pub created_at: Timestamp,
    #[schemars(with = "scalar::Time")]
    pub updated_at: Timestamp,
    /// Null until the graph has ended.
    #[schemars(with = "Option<scalar::Time>")]
    pub ended_at: Option<Timestamp>,
}

/// Applied edits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "GraphEdited", deny_unknown_fields)]
pub struct AppliedEdit {
    #[schemars(with = "scalar::ExecutionId")]
    pub graph_id: String,
    /// The revision after the edits.
    pub revision: u32,
}

/// Edits that are durable and not decided yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct GraphEditAccepted {
    #[schemars(with = "scalar::ExecutionId")]
    pub graph_id: String,
    /// The event that carries the edits: its outcome is that of the edits.
    #[schemars(with = "scalar::EventId")]
    pub event_id: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graph_of_newer_server_is_read() {
        let told = serde_json::json!({
            "graph_id": "g", "name": "n", "description": "", "status": "DREAMING", "revision": 1, "mood": 1,
            "options": { "timeout": "90s", "node": { "retry": { "attempts": 2, "on": ["FAIL"] } } },
            "nodes": { "PASS": 2, "DREAMING": 1 },
            "created_at": "2026-01-01T00:00:00.000Z", "updated_at": "2026-01-01T00:00:00.000Z"
        });
        let graph: GraphSummary = serde_json::from_value(told).unwrap();
        assert_eq!((graph.status, graph.status.is_ended()), (GraphStatus::Unknown, false));
        assert_eq!(graph.nodes[&NodeStatus::Pass], 2);
        assert_eq!(graph.nodes[&NodeStatus::Unknown], 1);
        assert_eq!(graph.options.timeout.map(|timeout| timeout.as_secs()), Some(90));
        assert_eq!(graph.options.node.retry.and_then(|retry| retry.attempts), Some(2));
    }
}
