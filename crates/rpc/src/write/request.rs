//! Encodes the request for one attempt at a node.

use millstream_model::id::ExecutionId;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_store::graph_store::{DispatchContext, UpstreamResult};
use millstream_workflow::graph::{NodeId, NodeSpec, NodeStatus, NodeToken};
use prost::Message as _;

use super::view::result_ref;
use crate::length::time_out;
use crate::proto;
use crate::spec_messages::{encode_node_spec, json_or_empty};
use crate::status::status_out;
use crate::unreadable::StoredFormError;

/// The default message limit of gRPC implementations. Results beyond it are sent by reference: see
/// [`execute_request`].
pub const REQUEST_BYTES: usize = 4 * 1024 * 1024;

/// An attempt, without the stored data of its node.
#[derive(Debug, Clone)]
pub struct AttemptCall {
    pub workflow: ExecutionId,
    pub node: NodeId,
    pub attempt: u32,
    pub token: NodeToken,
    /// The key of the dispatch's action.
    pub idempotency_key: String,
    /// The workflow's input.
    pub input: RawJson,
    pub deadline: Timestamp,
}

/// The whole request within [`REQUEST_BYTES`]: results that do not fit are replaced by references, those of
/// the last parents first.
pub fn execute_request(
    attempt: &AttemptCall,
    context: &DispatchContext,
) -> Result<proto::ExecuteNodeRequest, StoredFormError> {
    let upstream = context.upstream.iter().map(|node| self::encode_upstream(&attempt.workflow, node));
    let downstream = context.downstream.iter().map(|(id, goal)| self::encode_downstream(id, goal));
    let mut request = proto::ExecuteNodeRequest {
        workflow_id: attempt.workflow.as_str().to_owned(),
        node_id: attempt.node.as_str().to_owned(),
        node: Some(encode_running_node(attempt, context)?),
        upstream_nodes: upstream.collect(),
        downstream_nodes: downstream.collect(),
        attempt: attempt.attempt,
        token: attempt.token.as_i64(),
        idempotency_key: attempt.idempotency_key.clone(),
        input_json: json_or_empty(&attempt.input),
        deadline: Some(time_out(attempt.deadline)),
    };
    trim_results(&mut request, &attempt.workflow);
    Ok(request)
}

fn encode_running_node(
    attempt: &AttemptCall,
    context: &DispatchContext,
) -> Result<proto::Node, StoredFormError> {
    let spec: NodeSpec =
        context.spec.decode().map_err(|error| StoredFormError::new("the stored node", error))?;
    let mut node = encode_node_spec(&spec);
    node.status = status_out(NodeStatus::Running).into();
    node.attempt = attempt.attempt;
    if let Some((of, item)) = &context.instance {
        node.instance_of = of.as_str().to_owned();
        node.item_json = item.as_str().to_owned();
    }
    Ok(node)
}

fn encode_upstream(workflow: &ExecutionId, upstream: &UpstreamResult) -> proto::Node {
    let mut task = proto::Task::default();
    match &upstream.result {
        Some(result) => task.results_json = result.as_str().to_owned(),
        None if upstream.result_bytes > 0 => {
            task.results_ref = Some(result_ref(workflow, upstream.node.as_str(), upstream.result_bytes));
        }
        None => {}
    }
    proto::Node {
        id: upstream.node.as_str().to_owned(),
        status: status_out(upstream.status).into(),
        instance_of: upstream.instance_of.as_ref().map(|of| of.as_str().to_owned()).unwrap_or_default(),
        assigned_task: Some(task),
        ..proto::Node::default()
    }
}

fn encode_downstream(id: &NodeId, goal: &str) -> proto::Node {
    proto::Node {
        id: id.as_str().to_owned(),
        assigned_task: Some(proto::Task { goal: goal.to_owned(), ..proto::Task::default() }),
        ..proto::Node::default()
    }
}

fn trim_results(request: &mut proto::ExecuteNodeRequest, workflow: &ExecutionId) {
    let mut over = request.encoded_len().saturating_sub(REQUEST_BYTES);
    for node in request.upstream_nodes.iter_mut().rev() {
        if over == 0 {
            break;
        }
        let before = node.encoded_len();
        let Some(task) = node.assigned_task.as_mut().filter(|task| !task.results_json.is_empty()) else {
            continue;
        };
        let result = std::mem::take(&mut task.results_json);
        task.results_ref = Some(result_ref(workflow, &node.id, result.len()));
        if node.encoded_len() < before {
            over = over.saturating_sub(before - node.encoded_len());
        } else if let Some(task) = &mut node.assigned_task {
            // The reference would be longer than the result.
            (task.results_json, task.results_ref) = (result, None);
        }
    }
}
