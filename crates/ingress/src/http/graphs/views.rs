//! JSON views of graphs and their nodes.
//!
//! `spec` is the author's text, byte for byte as stored; the other fields are computed from the state.

use std::collections::BTreeMap;

use millstream_api::graph_nodes::{GraphNode, GraphNodeDetail, NodeLogEntry};
use millstream_api::graph_words::{GraphStatus, NodeStatus as ApiNodeStatus};
use millstream_api::graphs::GraphSummary;
use millstream_model::raw::RawJson;
use millstream_model::status::ExecutionStatus;
use millstream_rpc::blob;
use millstream_rpc::unreadable::StoredFormError;
use millstream_store::graph_store::{LogView, NodeView};
use millstream_workflow::graph::{GraphOptions, NodeEdit, NodeStatus};
use serde::Deserialize;

use crate::graphs::find::FoundGraph;
use crate::graphs::nodes::NodeDetails;

/// A graph with the engine's own options, which are serialised as in the API.
pub(super) type GraphSummaryView = GraphSummary<RawJson, GraphOptions>;

pub(super) const fn graph_status(status: ExecutionStatus) -> GraphStatus {
    match status {
        ExecutionStatus::Active => GraphStatus::Running,
        ExecutionStatus::Completed => GraphStatus::Passed,
        ExecutionStatus::Failed => GraphStatus::Failed,
        ExecutionStatus::Cancelled => GraphStatus::Cancelled,
        ExecutionStatus::Paused => GraphStatus::Paused,
    }
}

pub(in crate::http) const fn node_status(status: NodeStatus) -> ApiNodeStatus {
    match status {
        NodeStatus::Pending => ApiNodeStatus::Pending,
        NodeStatus::Running => ApiNodeStatus::Running,
        NodeStatus::Pass => ApiNodeStatus::Pass,
        NodeStatus::Fail => ApiNodeStatus::Fail,
        NodeStatus::TaskError => ApiNodeStatus::TaskError,
        NodeStatus::InfraError => ApiNodeStatus::InfraError,
        NodeStatus::Timeout => ApiNodeStatus::Timeout,
        NodeStatus::Crash => ApiNodeStatus::Crash,
        NodeStatus::Skipped => ApiNodeStatus::Skipped,
        NodeStatus::Filtered => ApiNodeStatus::Filtered,
    }
}

/// The immutable metadata in the store.
#[derive(Deserialize)]
struct StoredGraphMetadata {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    creator: Option<String>,
}

pub(super) fn graph_summary(found: FoundGraph) -> Result<GraphSummaryView, StoredFormError> {
    let FoundGraph { graph, execution } = found;
    let head = blob::decode_head(&graph.blob)?;
    let metadata: StoredGraphMetadata = graph
        .metadata
        .decode()
        .map_err(|error| StoredFormError { what: "the stored metadata", why: error.to_string() })?;
    let StoredGraphMetadata { name, description, creator } = metadata;
    let nodes = graph.nodes.into_iter().filter(|(_, count)| *count > 0);
    let nodes: BTreeMap<_, _> = nodes.map(|(status, count)| (node_status(status), count)).collect();
    Ok(GraphSummary {
        graph_id: graph.execution.execution.to_string(),
        name,
        description,
        creator,
        status: graph_status(execution.status),
        revision: graph.revision,
        input: Some(head.input),
        options: head.options,
        nodes,
        // A graph that has ended gets no further transitions.
        ended_at: execution.state.phase.is_ended().then_some(execution.state.at),
        reason: execution.state.reason.or(execution.paused_reason),
        created_at: execution.created_at,
        updated_at: execution.updated_at,
    })
}

/// Without the input, which may be a megabyte large.
pub(super) fn graph_in_list(found: FoundGraph) -> Result<GraphSummaryView, StoredFormError> {
    Ok(GraphSummary { input: None, ..graph_summary(found)? })
}

pub(super) fn graph_node(view: NodeView) -> GraphNode<RawJson> {
    let (instance_of, item) = view.instance.unzip();
    GraphNode {
        node: view.node.to_string(),
        status: node_status(view.status),
        attempt: view.attempt,
        why: view.why,
        error: view.error,
        children: view.children.iter().map(ToString::to_string).collect(),
        instance_of: instance_of.map(|node| node.to_string()),
        item,
        executor: view.executor,
        executor_reason: view.executor_reason,
        started_at: view.started_at,
        dispatched_at: view.dispatched_at,
        ended_at: view.ended_at,
        result_bytes: view.result.map(|result| u64::try_from(result.len()).unwrap_or(u64::MAX)),
        spec: view.spec,
    }
}

pub(super) fn graph_node_detail(
    mut view: NodeView,
    beyond: NodeDetails,
) -> GraphNodeDetail<RawJson, NodeEdit> {
    let result = view.result.clone();
    view.children.sort();
    GraphNodeDetail { view: graph_node(view), result, edits: beyond.edits, progress: beyond.progress }
}

pub(super) fn node_log_entry(view: LogView) -> NodeLogEntry {
    NodeLogEntry { attempt: view.attempt, text: view.text, truncated: view.truncated, at: view.at }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_statuses_of_api_are_those_of_engine() {
        for status in NodeStatus::ALL {
            assert_eq!(node_status(*status).as_str(), status.as_str());
            assert_eq!(node_status(*status).is_ended(), status.is_ended());
        }
    }
}
