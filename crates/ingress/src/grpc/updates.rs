//! `UpdateNode`: an operator's edit, an executor's result, or its progress.

use std::sync::Arc;

use millstream_model::id::ExecutionKey;
use millstream_model::permission::Permission;
use millstream_model::raw::RawJson;
use millstream_rpc::proto::update_node_request::Update;
use millstream_rpc::proto::{
    AttemptRef, NodeProgress, NodeReplacement, NodeResult, UpdateNodeRequest, UpdateNodeResponse,
};
use millstream_rpc::read::{self, NodeQuestion};
use millstream_rpc::refusal;
use millstream_rpc::write::{NodeResultForm, node_view};
use millstream_store::action_store::OutcomeDemand;
use millstream_store::graph_store::NodeView;
use millstream_workflow::graph::{NodeEdit, NodeId, NodeToken};
use serde::Serialize;
use tonic::Status;

use super::call::GrpcCall;
use super::status::{invalid_field, status_of_refusal, undecided_edits};
use super::workflows::graph_caller;
use crate::graphs::attempt::AttemptReference;
use crate::graphs::edit::{self, GraphEditOutcome};
use crate::graphs::find::{self, parse_graph_key};
use crate::graphs::nodes;
use crate::graphs::progress::{self, ProgressReport};
use crate::graphs::result::{self, NodeResultReport};
use crate::state::IngressState;

pub(super) async fn update_node(
    door: &Arc<IngressState>,
    call: &GrpcCall,
    request: UpdateNodeRequest,
) -> Result<UpdateNodeResponse, Status> {
    let UpdateNodeRequest { workflow_id, node_id, update } = request;
    let graph = parse_graph_key(&call.caller, &workflow_id).map_err(status_of_refusal)?;
    let node = nodes::parse_node_id(&node_id).map_err(status_of_refusal)?;
    let (view, wanted) = match update {
        Some(Update::Edit(edit)) => {
            (replace_node(door, call, &graph, &node, edit).await?, OutcomeDemand::Yes)
        }
        Some(Update::Result(result)) => {
            (report_result(door, call, &graph, &node, result).await?, OutcomeDemand::Yes)
        }
        Some(Update::Progress(progress)) => report_progress(door, &graph, &node, progress).await?,
        None => return Err(invalid_field("update", "one of edit, result and progress is required")),
    };
    let node = node_view(&view, &graph.execution, NodeResultForm::Sizes).map_err(find::unreadable_graph);
    let cancelled = wanted == OutcomeDemand::Cancelled;
    Ok(UpdateNodeResponse { node: Some(node.map_err(status_of_refusal)?), cancelled })
}

async fn replace_node(
    door: &IngressState,
    call: &GrpcCall,
    graph: &ExecutionKey,
    node: &NodeId,
    given: NodeReplacement,
) -> Result<NodeView, Status> {
    call.caller.require_permission(Permission::PostEvents).map_err(status_of_refusal)?;
    let NodeReplacement { node: spec, expected_revision } = given;
    let mut spec = spec.ok_or_else(|| invalid_field("edit.node", "is required"))?;
    if spec.id.is_empty() {
        spec.id = node.as_str().to_owned();
    }
    if spec.id != node.as_str() {
        return Err(invalid_field("edit.node.id", "is not the id of the node"));
    }
    let spec = read::read_node(spec).map_err(|problems| refusal::invalid_argument(&problems))?;
    let edits = vec![NodeEdit::Update(Arc::new(spec))];
    let wish = edit::EditsToApply { expected_revision, edits, idempotency_key: call.idempotency_key.clone() };
    match edit::edit_graph(&door.graphs, graph_caller(call), graph.clone(), wish)
        .await
        .map_err(status_of_refusal)?
    {
        GraphEditOutcome::Applied { revision: _ } => {
            nodes::find_node(&door.graphs, graph, node).await.map_err(status_of_refusal)
        }
        GraphEditOutcome::Undecided { event_id } => Err(undecided_edits(event_id)),
    }
}

async fn report_result(
    door: &IngressState,
    call: &GrpcCall,
    graph: &ExecutionKey,
    node: &NodeId,
    mut given: NodeResult,
) -> Result<NodeView, Status> {
    let said = decode_reference(given.of.take())?;
    // The token identifies the attempt and its executor.
    let asked = NodeQuestion { workflow: &graph.execution, node, attempt: 0, executor: "" };
    let (answer, logs) =
        read::read_result(given, asked).map_err(|problems| refusal::invalid_argument(&problems))?;
    let report = NodeResultReport {
        status: answer.status,
        result: answer.result,
        error: answer.error,
        edits: answer.edits,
        logs,
    };
    result::report_result(&door.graphs, &call.trace, graph, node, &said, report)
        .await
        .map_err(status_of_refusal)
}

async fn report_progress(
    door: &IngressState,
    graph: &ExecutionKey,
    node: &NodeId,
    given: NodeProgress,
) -> Result<(NodeView, OutcomeDemand), Status> {
    #[derive(Serialize)]
    struct SubtaskProgress {
        subtasks_done: Vec<u32>,
    }
    let NodeProgress { of, subtasks_done, logs } = given;
    let said = decode_reference(of)?;
    let progress =
        (!subtasks_done.is_empty()).then(|| RawJson::from_value(&SubtaskProgress { subtasks_done }));
    if progress.as_ref().is_some_and(|progress| progress.len() > PROGRESS_BYTES) {
        return Err(invalid_field("progress.subtasks_done", "there are too many"));
    }
    progress::report_progress(&door.graphs, graph, node, &said, ProgressReport { progress, logs })
        .await
        .map_err(status_of_refusal)
}

const PROGRESS_BYTES: usize = 16 * 1024;

fn decode_reference(of: Option<AttemptRef>) -> Result<AttemptReference, Status> {
    let AttemptRef { attempt, idempotency_key, token } =
        of.ok_or_else(|| invalid_field("of", "is required: it came with the request to perform the node"))?;
    Ok(AttemptReference {
        token: NodeToken::from_executor(token),
        attempt: Some(attempt).filter(|attempt| *attempt > 0),
        idempotency_key: Some(idempotency_key).filter(|key| !key.is_empty()),
    })
}
