//! `WorkflowService`: create, read, edit, watch, cancel. Reports of executors are in `updates`.

use std::sync::Arc;

use millstream_model::id::{AcceptNo, ExecutionId, Name};
use millstream_rpc::proto::workflow_service_server::WorkflowService;
use millstream_rpc::proto::{
    CancelWorkflowRequest, CancelWorkflowResponse, CreateWorkflowRequest, CreateWorkflowResponse,
    GetNodeLogsRequest, GetNodeLogsResponse, GetNodeRequest, GetNodeResponse, GetWorkflowRequest,
    GetWorkflowResponse, ListWorkflowsRequest, ListWorkflowsResponse, Node, UpdateNodeRequest,
    UpdateNodeResponse, UpdateWorkflowRequest, UpdateWorkflowResponse, WatchWorkflowRequest, Workflow,
    WorkflowStatus,
};
use millstream_rpc::status::workflow_status_in;
use millstream_rpc::write::{NodeResultForm, log_entry, node_view, workflow_view};
use millstream_rpc::{read, refusal, write};
use millstream_store::graph_store::NodeFilter;
use prost::Message;
use serde::Deserialize;
use tonic::{Request, Response, Status};

use super::call::begin_call;
use super::status::{invalid_field, status_of_refusal};
use super::watch::{self, WorkflowEventStream};
use super::{paging, updates};
use crate::cursor::CursorList;
use crate::graphs::edit::{self, GraphCaller, GraphEditOutcome};
use crate::graphs::find::{self, FoundGraph, find_graph, parse_graph_key};
use crate::graphs::nodes::{self, NodeDetails};
use crate::graphs::{cancel, create, run_off_runtime};
use crate::state::IngressState;

pub(super) struct GrpcWorkflowService(pub(super) Arc<IngressState>);

#[tonic::async_trait]
impl WorkflowService for GrpcWorkflowService {
    async fn create_workflow(
        &self,
        request: Request<CreateWorkflowRequest>,
    ) -> Result<Response<CreateWorkflowResponse>, Status> {
        let call = begin_call(&request)?;
        let given = request.into_inner().workflow.ok_or_else(|| invalid_field("workflow", "is required"))?;
        let id = match given.workflow_id.as_str() {
            "" => None,
            id => Some(
                ExecutionId::parse(id).map_err(|error| invalid_field("workflow_id", error.to_string()))?,
            ),
        };
        let bytes = given.encoded_len();
        let spec = run_off_runtime(&self.0.machines.graph_work, bytes, move || read::read_workflow(given))
            .await
            .map_err(status_of_refusal)?;
        let spec = spec.map_err(|problems| refusal::invalid_argument(&problems))?;
        let wish = create::GraphToCreate { id, spec, idempotency_key: call.idempotency_key, bytes };
        let (_, found) = create::create_graph(&self.0.graphs, &call.caller, &call.trace, &call.slot, wish)
            .await
            .map_err(status_of_refusal)?;
        Ok(Response::new(CreateWorkflowResponse { workflow: Some(encode_workflow(&found)?) }))
    }

    async fn get_workflow(
        &self,
        request: Request<GetWorkflowRequest>,
    ) -> Result<Response<GetWorkflowResponse>, Status> {
        let call = begin_call(&request)?;
        let GetWorkflowRequest { workflow_id, page_size, page_token, statuses } = request.into_inner();
        let after = paging::parse_page_token(CursorList::Nodes, &page_token, |text| Name::parse(text).ok())?;
        let limit = paging::parse_page_size(page_size, 0, 1_000)?;
        let filter = NodeFilter { statuses: paging::decode_statuses(&statuses)?, ids: Vec::new() };
        let key = parse_graph_key(&call.caller, &workflow_id).map_err(status_of_refusal)?;
        let found = find_graph(&self.0.graphs, &key).await.map_err(status_of_refusal)?;
        let (nodes, next_page_token) = if limit == 0 {
            (Vec::new(), String::new())
        } else {
            let id = key.execution.clone();
            let show = |view| node_view(&view, &id, NodeResultForm::Sizes).map_err(find::unreadable_graph);
            let nodes = nodes::list_nodes(&self.0.graphs, &key, &filter, after, limit, show)
                .await
                .map_err(status_of_refusal)?;
            paging::cut_page(nodes, limit, CursorList::Nodes, ToString::to_string)
        };
        let workflow = workflow_view(&found.graph, &found.execution, nodes);
        let workflow = workflow.map_err(find::unreadable_graph).map_err(status_of_refusal)?;
        Ok(Response::new(GetWorkflowResponse { workflow: Some(workflow), next_page_token }))
    }

    async fn list_workflows(
        &self,
        request: Request<ListWorkflowsRequest>,
    ) -> Result<Response<ListWorkflowsResponse>, Status> {
        let call = begin_call(&request)?;
        let ListWorkflowsRequest { page_size, page_token, status: wanted } = request.into_inner();
        let after = paging::parse_page_token(CursorList::Graphs, &page_token, |text| {
            text.parse().ok().map(AcceptNo)
        })?;
        let limit = paging::parse_page_size(page_size, 50, 500)?;
        let wanted = match workflow_status_in(wanted) {
            None if wanted != i32::from(WorkflowStatus::Unspecified) => {
                return Err(invalid_field("status", format!("{wanted} is not a status")));
            }
            wanted => wanted,
        };
        let show = |found: FoundGraph| workflow_view(&found.graph, &found.execution, Vec::new());
        let found = find::list_graphs(&self.0.graphs, &call.caller, wanted, after, limit, show)
            .await
            .map_err(status_of_refusal)?;
        let (workflows, next_page_token) =
            paging::cut_page(found, limit, CursorList::Graphs, |position| position.0.to_string());
        Ok(Response::new(ListWorkflowsResponse { workflows, next_page_token }))
    }

    async fn update_workflow(
        &self,
        request: Request<UpdateWorkflowRequest>,
    ) -> Result<Response<UpdateWorkflowResponse>, Status> {
        let call = begin_call(&request)?;
        let UpdateWorkflowRequest { workflow_id, edits, expected_revision } = request.into_inner();
        let key = parse_graph_key(&call.caller, &workflow_id).map_err(status_of_refusal)?;
        let edits = read::read_edits(edits).map_err(|problems| refusal::invalid_argument(&problems))?;
        if edits.is_empty() {
            return Err(invalid_field("edits", "there is nothing to change"));
        }
        let idempotency_key = call.idempotency_key.clone();
        let wish = edit::EditsToApply { expected_revision, edits, idempotency_key };
        let edited = edit::edit_graph(&self.0.graphs, graph_caller(&call), key.clone(), wish)
            .await
            .map_err(status_of_refusal)?;
        match edited {
            GraphEditOutcome::Applied { revision: _ } => {
                let found = find_graph(&self.0.graphs, &key).await.map_err(status_of_refusal)?;
                Ok(Response::new(UpdateWorkflowResponse { workflow: Some(encode_workflow(&found)?) }))
            }
            GraphEditOutcome::Undecided { event_id } => Err(super::status::undecided_edits(event_id)),
        }
    }

    async fn get_node(&self, request: Request<GetNodeRequest>) -> Result<Response<GetNodeResponse>, Status> {
        let call = begin_call(&request)?;
        let GetNodeRequest { workflow_id, node_id } = request.into_inner();
        let key = parse_graph_key(&call.caller, &workflow_id).map_err(status_of_refusal)?;
        let revision = find_graph(&self.0.graphs, &key).await.map_err(status_of_refusal)?.graph.revision;
        let id = nodes::parse_node_id(&node_id).map_err(status_of_refusal)?;
        let view = nodes::find_node(&self.0.graphs, &key, &id).await.map_err(status_of_refusal)?;
        let beyond = nodes::node_details(&self.0.graphs, &key, &view).await.map_err(status_of_refusal)?;
        let node = node_view(&view, &key.execution, NodeResultForm::Whole);
        let node = with_details(node.map_err(find::unreadable_graph).map_err(status_of_refusal)?, &beyond);
        Ok(Response::new(GetNodeResponse { node: Some(node), revision }))
    }

    async fn update_node(
        &self,
        request: Request<UpdateNodeRequest>,
    ) -> Result<Response<UpdateNodeResponse>, Status> {
        let call = begin_call(&request)?;
        updates::update_node(&self.0, &call, request.into_inner()).await.map(Response::new)
    }

    type WatchWorkflowStream = WorkflowEventStream;

    async fn watch_workflow(
        &self,
        request: Request<WatchWorkflowRequest>,
    ) -> Result<Response<WorkflowEventStream>, Status> {
        let call = begin_call(&request)?;
        let WatchWorkflowRequest { workflow_id, after_position } = request.into_inner();
        let key = parse_graph_key(&call.caller, &workflow_id).map_err(status_of_refusal)?;
        watch::watch_events(self.0.clone(), key, &after_position).await.map(Response::new)
    }

    async fn cancel_workflow(
        &self,
        request: Request<CancelWorkflowRequest>,
    ) -> Result<Response<CancelWorkflowResponse>, Status> {
        let call = begin_call(&request)?;
        let CancelWorkflowRequest { workflow_id, reason } = request.into_inner();
        let key = parse_graph_key(&call.caller, &workflow_id).map_err(status_of_refusal)?;
        let reason = Some(reason).filter(|reason| !reason.is_empty());
        let (_, found) = cancel::cancel_graph(&self.0.graphs, graph_caller(&call), key, reason)
            .await
            .map_err(status_of_refusal)?;
        Ok(Response::new(CancelWorkflowResponse { workflow: Some(encode_workflow(&found)?) }))
    }

    async fn get_node_logs(
        &self,
        request: Request<GetNodeLogsRequest>,
    ) -> Result<Response<GetNodeLogsResponse>, Status> {
        let call = begin_call(&request)?;
        let GetNodeLogsRequest { workflow_id, node_id, after_position, page_size } = request.into_inner();
        let limit = paging::parse_page_size(page_size, 100, 1_000)?;
        let key = parse_graph_key(&call.caller, &workflow_id).map_err(status_of_refusal)?;
        let id = nodes::parse_node_id(&node_id).map_err(status_of_refusal)?;
        let found = nodes::list_logs(&self.0.graphs, &key, &id, after_position, limit)
            .await
            .map_err(status_of_refusal)?;
        let entries = found.iter().map(|entry| ((), log_entry(entry))).collect();
        // An entry may have 64 KiB; the client requests the rest after the last entry.
        let (entries, _) = paging::cut_page(entries, limit, CursorList::NodeLogs, |()| String::new());
        Ok(Response::new(GetNodeLogsResponse { entries }))
    }
}

pub(super) fn graph_caller(call: &super::call::GrpcCall) -> GraphCaller<'_> {
    GraphCaller { caller: &call.caller, trace: &call.trace, slot: &call.slot, patience: Some(edit::WAIT) }
}

/// Without nodes.
fn encode_workflow(found: &FoundGraph) -> Result<Workflow, Status> {
    workflow_view(&found.graph, &found.execution, Vec::new())
        .map_err(find::unreadable_graph)
        .map_err(status_of_refusal)
}

/// Progress of an executor.
#[derive(Deserialize)]
struct StoredSubtaskProgress {
    #[serde(default)]
    subtasks_done: Vec<u32>,
}

fn with_details(mut node: Node, beyond: &NodeDetails) -> Node {
    node.edits = beyond.edits.iter().map(write::encode_edit).collect();
    let done = beyond.progress.as_ref().and_then(|progress| progress.decode::<StoredSubtaskProgress>().ok());
    if let Some(StoredSubtaskProgress { subtasks_done }) = done.filter(|done| !done.subtasks_done.is_empty())
    {
        node.assigned_task.get_or_insert_default().subtasks_done = subtasks_done;
    }
    node
}
