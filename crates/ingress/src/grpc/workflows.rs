//! `WorkflowService`: create, read, edit, watch, cancel. Reports of executors are in `updates`.

use std::sync::Arc;

use millstream_core::id::{AcceptNo, ExecutionId, Name};
use millstream_rpc::proto::workflow_service_server::WorkflowService;
use millstream_rpc::proto::{
    CancelWorkflowRequest, CancelWorkflowResponse, CreateWorkflowRequest, CreateWorkflowResponse,
    GetNodeLogsRequest, GetNodeLogsResponse, GetNodeRequest, GetNodeResponse, GetWorkflowRequest,
    GetWorkflowResponse, ListWorkflowsRequest, ListWorkflowsResponse, Node, UpdateNodeRequest,
    UpdateNodeResponse, UpdateWorkflowRequest, UpdateWorkflowResponse, WatchWorkflowRequest, Workflow,
    WorkflowStatus,
};
use millstream_rpc::status::workflow_status_in;
use millstream_rpc::write::{Results, log_entry, node_view, workflow_view};
use millstream_rpc::{read, refusal, write};
use millstream_store::graph_store::NodeFilter;
use prost::Message;
use serde::Deserialize;
use tonic::{Request, Response, Status};

use super::call::begin;
use super::status::{invalid, status};
use super::watch::{self, Events};
use super::{paging, updates};
use crate::cursor::List;
use crate::door::Door;
use crate::graphs::edit::{self, Asker, Edited};
use crate::graphs::find::{self, Found, find, key_of};
use crate::graphs::nodes::{self, Beyond};
use crate::graphs::{cancel, create, heavy};

pub(super) struct Workflows(pub(super) Arc<Door>);

#[tonic::async_trait]
impl WorkflowService for Workflows {
    async fn create_workflow(
        &self,
        request: Request<CreateWorkflowRequest>,
    ) -> Result<Response<CreateWorkflowResponse>, Status> {
        let call = begin(&request)?;
        let given = request.into_inner().workflow.ok_or_else(|| invalid("workflow", "is required"))?;
        let id = match given.workflow_id.as_str() {
            "" => None,
            id => Some(ExecutionId::parse(id).map_err(|error| invalid("workflow_id", error.to_string()))?),
        };
        let bytes = given.encoded_len();
        let spec =
            heavy(&self.0.machines.graph_work, bytes, move || read::workflow(given)).await.map_err(status)?;
        let spec = spec.map_err(|problems| refusal::invalid(&problems))?;
        let wish = create::Wish { id, spec, idempotency_key: call.idempotency_key, bytes };
        let (_, found) =
            create::create(&self.0, &call.caller, &call.trace, &call.slot, wish).await.map_err(status)?;
        Ok(Response::new(CreateWorkflowResponse { workflow: Some(shown(&found)?) }))
    }

    async fn get_workflow(
        &self,
        request: Request<GetWorkflowRequest>,
    ) -> Result<Response<GetWorkflowResponse>, Status> {
        let call = begin(&request)?;
        let GetWorkflowRequest { workflow_id, page_size, page_token, statuses } = request.into_inner();
        let after = paging::after(List::Nodes, &page_token, |text| Name::parse(text).ok())?;
        let limit = paging::size(page_size, 0, 1_000)?;
        let filter = NodeFilter { statuses: paging::statuses(&statuses)?, ids: Vec::new() };
        let key = key_of(&call.caller, &workflow_id).map_err(status)?;
        let found = find(&self.0, &key).await.map_err(status)?;
        let (nodes, next_page_token) = if limit == 0 {
            (Vec::new(), String::new())
        } else {
            let id = key.execution.clone();
            let show = |view| node_view(&view, &id, Results::Sizes).map_err(find::unreadable);
            let nodes = nodes::list(&self.0, &key, &filter, after, limit, show).await.map_err(status)?;
            paging::page(nodes, limit, List::Nodes, ToString::to_string)
        };
        let workflow = workflow_view(&found.graph, &found.execution, nodes);
        let workflow = workflow.map_err(find::unreadable).map_err(status)?;
        Ok(Response::new(GetWorkflowResponse { workflow: Some(workflow), next_page_token }))
    }

    async fn list_workflows(
        &self,
        request: Request<ListWorkflowsRequest>,
    ) -> Result<Response<ListWorkflowsResponse>, Status> {
        let call = begin(&request)?;
        let ListWorkflowsRequest { page_size, page_token, status: wanted } = request.into_inner();
        let after = paging::after(List::Graphs, &page_token, |text| text.parse().ok().map(AcceptNo))?;
        let limit = paging::size(page_size, 50, 500)?;
        let wanted = match workflow_status_in(wanted) {
            None if wanted != i32::from(WorkflowStatus::Unspecified) => {
                return Err(invalid("status", format!("{wanted} is not a status")));
            }
            wanted => wanted,
        };
        let show = |found: Found| workflow_view(&found.graph, &found.execution, Vec::new());
        let found = find::list(&self.0, &call.caller, wanted, after, limit, show).await.map_err(status)?;
        let (workflows, next_page_token) =
            paging::page(found, limit, List::Graphs, |position| position.0.to_string());
        Ok(Response::new(ListWorkflowsResponse { workflows, next_page_token }))
    }

    async fn update_workflow(
        &self,
        request: Request<UpdateWorkflowRequest>,
    ) -> Result<Response<UpdateWorkflowResponse>, Status> {
        let call = begin(&request)?;
        let UpdateWorkflowRequest { workflow_id, edits, expected_revision } = request.into_inner();
        let key = key_of(&call.caller, &workflow_id).map_err(status)?;
        let edits = read::edits(edits).map_err(|problems| refusal::invalid(&problems))?;
        if edits.is_empty() {
            return Err(invalid("edits", "there is nothing to change"));
        }
        let idempotency_key = call.idempotency_key.clone();
        let wish = edit::Wish { expected_revision, edits, idempotency_key };
        let edited = edit::edit(&self.0, asker(&call), key.clone(), wish).await.map_err(status)?;
        match edited {
            Edited::Applied { revision: _ } => {
                let found = find(&self.0, &key).await.map_err(status)?;
                Ok(Response::new(UpdateWorkflowResponse { workflow: Some(shown(&found)?) }))
            }
            Edited::Undecided { event_id } => Err(super::status::undecided(event_id)),
        }
    }

    async fn get_node(&self, request: Request<GetNodeRequest>) -> Result<Response<GetNodeResponse>, Status> {
        let call = begin(&request)?;
        let GetNodeRequest { workflow_id, node_id } = request.into_inner();
        let key = key_of(&call.caller, &workflow_id).map_err(status)?;
        let revision = find(&self.0, &key).await.map_err(status)?.graph.revision;
        let id = nodes::id_of(&node_id).map_err(status)?;
        let view = nodes::one(&self.0, &key, &id).await.map_err(status)?;
        let beyond = nodes::beyond(&self.0, &key, &view).await.map_err(status)?;
        let node = node_view(&view, &key.execution, Results::Whole);
        let node = with_beyond(node.map_err(find::unreadable).map_err(status)?, &beyond);
        Ok(Response::new(GetNodeResponse { node: Some(node), revision }))
    }

    async fn update_node(
        &self,
        request: Request<UpdateNodeRequest>,
    ) -> Result<Response<UpdateNodeResponse>, Status> {
        let call = begin(&request)?;
        updates::update(&self.0, &call, request.into_inner()).await.map(Response::new)
    }

    type WatchWorkflowStream = Events;

    async fn watch_workflow(
        &self,
        request: Request<WatchWorkflowRequest>,
    ) -> Result<Response<Events>, Status> {
        let call = begin(&request)?;
        let WatchWorkflowRequest { workflow_id, after_position } = request.into_inner();
        let key = key_of(&call.caller, &workflow_id).map_err(status)?;
        watch::events(self.0.clone(), key, &after_position).await.map(Response::new)
    }

    async fn cancel_workflow(
        &self,
        request: Request<CancelWorkflowRequest>,
    ) -> Result<Response<CancelWorkflowResponse>, Status> {
        let call = begin(&request)?;
        let CancelWorkflowRequest { workflow_id, reason } = request.into_inner();
        let key = key_of(&call.caller, &workflow_id).map_err(status)?;
        let reason = Some(reason).filter(|reason| !reason.is_empty());
        let (_, found) = cancel::cancel(&self.0, asker(&call), key, reason).await.map_err(status)?;
        Ok(Response::new(CancelWorkflowResponse { workflow: Some(shown(&found)?) }))
    }

    async fn get_node_logs(
        &self,
        request: Request<GetNodeLogsRequest>,
    ) -> Result<Response<GetNodeLogsResponse>, Status> {
        let call = begin(&request)?;
        let GetNodeLogsRequest { workflow_id, node_id, after_position, page_size } = request.into_inner();
        let limit = paging::size(page_size, 100, 1_000)?;
        let key = key_of(&call.caller, &workflow_id).map_err(status)?;
        let id = nodes::id_of(&node_id).map_err(status)?;
        let found = nodes::logs(&self.0, &key, &id, after_position, limit).await.map_err(status)?;
        let entries = found.iter().map(|entry| ((), log_entry(entry))).collect();
        // An entry may have 64 KiB; the client requests the rest after the last entry.
        let (entries, _) = paging::page(entries, limit, List::NodeLogs, |()| String::new());
        Ok(Response::new(GetNodeLogsResponse { entries }))
    }
}

pub(super) fn asker(call: &super::call::Call) -> Asker<'_> {
    Asker { caller: &call.caller, trace: &call.trace, slot: &call.slot, patience: Some(edit::WAIT) }
}

/// Without nodes.
fn shown(found: &Found) -> Result<Workflow, Status> {
    workflow_view(&found.graph, &found.execution, Vec::new()).map_err(find::unreadable).map_err(status)
}

/// Progress of an executor.
#[derive(Deserialize)]
struct Done {
    #[serde(default)]
    subtasks_done: Vec<u32>,
}

fn with_beyond(mut node: Node, beyond: &Beyond) -> Node {
    node.edits = beyond.edits.iter().map(write::edit).collect();
    let done = beyond.progress.as_ref().and_then(|progress| progress.decode::<Done>().ok());
    if let Some(Done { subtasks_done }) = done.filter(|done| !done.subtasks_done.is_empty()) {
        node.assigned_task.get_or_insert_default().subtasks_done = subtasks_done;
    }
    node
}
