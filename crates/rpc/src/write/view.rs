//! Encodes workflows and nodes from the store's views.

use millstream_model::id::ExecutionId;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_store::executor_store::RegisteredExecutor;
use millstream_store::graph_store::{GraphView, LogView, NodeView};
use millstream_store::views::ExecutionView;
use millstream_workflow::graph::{NodeSpec, NodeStatus};
use serde::Deserialize;

use crate::blob;
use crate::length::time_out;
use crate::proto;
use crate::spec_messages::{encode_node_spec, encode_workflow_options, json_or_empty};
use crate::status::{status_out, workflow_status_out};
use crate::unreadable::StoredFormError;

/// How the result of a node is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeResultForm {
    /// The whole result, whatever its size.
    Whole,
    /// Its size alone.
    Sizes,
}

/// A node with its state. Edits and finished subtasks are not part of the view: they stay empty.
pub fn node_view(
    view: &NodeView,
    workflow: &ExecutionId,
    results: NodeResultForm,
) -> Result<proto::Node, StoredFormError> {
    let spec: NodeSpec =
        view.spec.decode().map_err(|error| StoredFormError::new("the stored node", error))?;
    let mut node = encode_node_spec(&spec);
    node.children = view.children.iter().map(|id| id.as_str().to_owned()).collect();
    node.status = status_out(view.status).into();
    node.attempt = view.attempt;
    node.why = view.why.clone().unwrap_or_default();
    node.error = view.error.clone().unwrap_or_default();
    node.executor = view.executor.clone().unwrap_or_default();
    node.executor_reason = view.executor_reason.clone().unwrap_or_default();
    node.started_at = view.started_at.map(time_out);
    node.dispatched_at = view.dispatched_at.map(time_out);
    node.ended_at = view.ended_at.map(time_out);
    if let Some((of, item)) = &view.instance {
        node.instance_of = of.as_str().to_owned();
        node.item_json = item.as_str().to_owned();
    }
    if let Some(result) = &view.result {
        let task = node.assigned_task.get_or_insert_default();
        match results {
            NodeResultForm::Whole => task.results_json = result.as_str().to_owned(),
            NodeResultForm::Sizes => {
                task.results_ref = Some(result_ref(workflow, view.node.as_str(), result.len()))
            }
        }
    }
    Ok(node)
}

pub(crate) fn result_ref(workflow: &ExecutionId, node: &str, bytes: usize) -> proto::ResultRef {
    proto::ResultRef {
        workflow_id: workflow.as_str().to_owned(),
        node_id: node.to_owned(),
        size_bytes: bytes.try_into().unwrap_or(u64::MAX),
    }
}

/// The content of [`GraphRows::metadata`](millstream_store::graph_store::GraphRows).
#[derive(Debug, Default, Deserialize)]
struct GraphMetadataRow {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    creator: Option<String>,
}

/// A workflow with the given nodes.
pub fn workflow_view(
    graph: &GraphView,
    execution: &ExecutionView,
    nodes: Vec<proto::Node>,
) -> Result<proto::Workflow, StoredFormError> {
    let head = blob::decode_head(&graph.blob)?;
    let count = |(status, count): (&NodeStatus, &u32)| proto::NodeCount {
        status: status_out(*status).into(),
        count: *count,
    };
    Ok(proto::Workflow {
        workflow_id: graph.execution.execution.as_str().to_owned(),
        metadata: Some(decode_metadata(&graph.metadata)?),
        input_json: json_or_empty(&head.input),
        options: encode_workflow_options(&head.options),
        nodes,
        status: workflow_status_out(execution.status).into(),
        revision: graph.revision,
        created_at: Some(time_out(execution.created_at)),
        updated_at: Some(time_out(execution.updated_at)),
        node_counts: graph.nodes.iter().filter(|(_, count)| **count > 0).map(count).collect(),
        paused_reason: execution.paused_reason.clone().unwrap_or_default(),
        reason: execution.state.reason.clone().unwrap_or_default(),
    })
}

fn decode_metadata(stored: &RawJson) -> Result<proto::WorkflowMetadata, StoredFormError> {
    let GraphMetadataRow { name, description, creator } =
        stored.decode().map_err(|error| StoredFormError::new("the stored metadata", error))?;
    Ok(proto::WorkflowMetadata { name, description, creator: creator.unwrap_or_default() })
}

pub fn log_entry(view: &LogView) -> proto::NodeLogEntry {
    proto::NodeLogEntry {
        position: view.position,
        attempt: view.attempt,
        text: view.text.clone(),
        truncated: view.truncated,
        at: Some(time_out(view.at)),
    }
}

pub fn encode_executor(executor: &RegisteredExecutor, seen_at: Timestamp) -> proto::Executor {
    proto::Executor {
        name: executor.name.as_str().to_owned(),
        address: executor.address.clone(),
        roles: executor.roles.iter().cloned().collect(),
        labels: executor.labels.iter().map(|label| label.as_str().to_owned()).collect(),
        capacity: executor.capacity,
        load: executor.load,
        seen_at: Some(time_out(seen_at)),
    }
}
