//! `UpdateNode`: an operator's edit, an executor's result, or its progress.

use std::sync::Arc;

use millstream_core::graph::{NodeEdit, NodeId, Token};
use millstream_core::id::ExecutionKey;
use millstream_core::permission::Permission;
use millstream_core::raw::RawJson;
use millstream_rpc::proto::update_node_request::Update;
use millstream_rpc::proto::{
    AttemptRef, NodeProgress, NodeReplacement, NodeResult, UpdateNodeRequest, UpdateNodeResponse,
};
use millstream_rpc::read::{self, Asked};
use millstream_rpc::refusal;
use millstream_rpc::write::{Results, node_view};
use millstream_store::action_store::Wanted;
use millstream_store::graph_store::NodeView;
use serde::Serialize;
use tonic::Status;

use super::call::Call;
use super::status::{invalid, status, undecided};
use super::workflows::asker;
use crate::door::Door;
use crate::graphs::attempt::Said;
use crate::graphs::edit::{self, Edited};
use crate::graphs::find::{self, key_of};
use crate::graphs::nodes;
use crate::graphs::progress::{self, Progress};
use crate::graphs::result::{self, Report};

pub(super) async fn update(
    door: &Arc<Door>,
    call: &Call,
    request: UpdateNodeRequest,
) -> Result<UpdateNodeResponse, Status> {
    let UpdateNodeRequest { workflow_id, node_id, update } = request;
    let graph = key_of(&call.caller, &workflow_id).map_err(status)?;
    let node = nodes::id_of(&node_id).map_err(status)?;
    let (view, wanted) = match update {
        Some(Update::Edit(edit)) => (replace(door, call, &graph, &node, edit).await?, Wanted::Yes),
        Some(Update::Result(result)) => (report(door, call, &graph, &node, result).await?, Wanted::Yes),
        Some(Update::Progress(progress)) => hear(door, &graph, &node, progress).await?,
        None => return Err(invalid("update", "one of edit, result and progress is required")),
    };
    let node = node_view(&view, &graph.execution, Results::Sizes).map_err(find::unreadable);
    let cancelled = wanted == Wanted::Cancelled;
    Ok(UpdateNodeResponse { node: Some(node.map_err(status)?), cancelled })
}

async fn replace(
    door: &Door,
    call: &Call,
    graph: &ExecutionKey,
    node: &NodeId,
    given: NodeReplacement,
) -> Result<NodeView, Status> {
    call.caller.require(Permission::PostEvents).map_err(status)?;
    let NodeReplacement { node: spec, expected_revision } = given;
    let mut spec = spec.ok_or_else(|| invalid("edit.node", "is required"))?;
    if spec.id.is_empty() {
        spec.id = node.as_str().to_owned();
    }
    if spec.id != node.as_str() {
        return Err(invalid("edit.node.id", "is not the id of the node"));
    }
    let spec = read::node(spec).map_err(|problems| refusal::invalid(&problems))?;
    let edits = vec![NodeEdit::Update(Arc::new(spec))];
    let wish = edit::Wish { expected_revision, edits, idempotency_key: call.idempotency_key.clone() };
    match edit::edit(door, asker(call), graph.clone(), wish).await.map_err(status)? {
        Edited::Applied { revision: _ } => nodes::one(door, graph, node).await.map_err(status),
        Edited::Undecided { event_id } => Err(undecided(event_id)),
    }
}

async fn report(
    door: &Door,
    call: &Call,
    graph: &ExecutionKey,
    node: &NodeId,
    mut given: NodeResult,
) -> Result<NodeView, Status> {
    let said = said(given.of.take())?;
    // The token identifies the attempt and its executor.
    let asked = Asked { workflow: &graph.execution, node, attempt: 0, executor: "" };
    let (answer, logs) = read::result(given, asked).map_err(|problems| refusal::invalid(&problems))?;
    let report = Report {
        status: answer.status,
        result: answer.result,
        error: answer.error,
        edits: answer.edits,
        logs,
    };
    result::report(door, &call.trace, graph, node, &said, report).await.map_err(status)
}

async fn hear(
    door: &Door,
    graph: &ExecutionKey,
    node: &NodeId,
    given: NodeProgress,
) -> Result<(NodeView, Wanted), Status> {
    #[derive(Serialize)]
    struct Done {
        subtasks_done: Vec<u32>,
    }
    let NodeProgress { of, subtasks_done, logs } = given;
    let said = said(of)?;
    let progress = (!subtasks_done.is_empty()).then(|| RawJson::of(&Done { subtasks_done }));
    if progress.as_ref().is_some_and(|progress| progress.len() > PROGRESS_BYTES) {
        return Err(invalid("progress.subtasks_done", "there are too many"));
    }
    progress::report(door, graph, node, &said, Progress { progress, logs }).await.map_err(status)
}

const PROGRESS_BYTES: usize = 16 * 1024;

fn said(of: Option<AttemptRef>) -> Result<Said, Status> {
    let AttemptRef { attempt, idempotency_key, token } =
        of.ok_or_else(|| invalid("of", "is required: it came with the request to perform the node"))?;
    Ok(Said {
        token: Token::shown(token),
        attempt: Some(attempt).filter(|attempt| *attempt > 0),
        idempotency_key: Some(idempotency_key).filter(|key| !key.is_empty()),
    })
}
