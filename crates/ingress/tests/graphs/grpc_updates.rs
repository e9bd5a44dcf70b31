//! Editing, reporting and cancelling over gRPC.

use millstream_rpc::proto::node_edit::Kind;
use millstream_rpc::proto::update_node_request::Update;
use millstream_rpc::proto::{
    AttemptRef, CancelWorkflowRequest, GetNodeLogsRequest, GetNodeRequest, NodeEdit, NodeProgress,
    NodeReplacement, NodeResult, NodeStatus, UpdateNodeRequest, UpdateNodeResponse, UpdateWorkflowRequest,
    WorkflowStatus,
};
use tonic::{Code, Status};

use crate::engine::TOKEN;
use crate::grpc_client::{Clients, node, refused};

fn edits(expected_revision: u32, edits: Vec<NodeEdit>) -> UpdateWorkflowRequest {
    UpdateWorkflowRequest { workflow_id: "g-1".to_owned(), edits, expected_revision }
}

fn insert(id: &str, parents: &[&str]) -> NodeEdit {
    NodeEdit { kind: Kind::Insert.into(), node: Some(node(id, parents)), node_id: String::new() }
}

fn update(id: &str, update: Update) -> UpdateNodeRequest {
    UpdateNodeRequest { workflow_id: "g-1".to_owned(), node_id: id.to_owned(), update: Some(update) }
}

async fn send(clients: &Clients, request: UpdateNodeRequest) -> Result<UpdateNodeResponse, Status> {
    let mut workflows = clients.workflows();
    let answer = workflows.update_node(request);
    clients.engine.while_deciding("g-1", answer).await.map(tonic::Response::into_inner)
}

#[tokio::test]
async fn grpc_edit_rejection_has_precise_code() {
    let clients = Clients::open().await;
    clients.chain("g-1").await;
    let edit = async |request: UpdateWorkflowRequest| {
        let mut workflows = clients.workflows();
        clients.engine.while_deciding("g-1", workflows.update_workflow(request)).await
    };
    let edited = edit(edits(1, vec![insert("d", &["a"])])).await.unwrap().into_inner();
    assert_eq!(edited.workflow.unwrap().revision, 2);
    refused(edit(edits(1, vec![insert("e", &[])])).await, Code::Aborted, "revision 2");
    refused(edit(edits(2, vec![insert("e", &["x"])])).await, Code::FailedPrecondition, "there is no \"x\"");
    refused(edit(edits(2, vec![insert("A", &[])])).await, Code::InvalidArgument, "edits[0].node.id");
    refused(edit(edits(2, vec![])).await, Code::InvalidArgument, "edits");
    let many = (0..1_001).map(|at| insert(&format!("n{at}"), &[])).collect();
    refused(edit(edits(2, many)).await, Code::ResourceExhausted, "1000");
    let gone = UpdateWorkflowRequest { workflow_id: "none".to_owned(), ..edits(1, vec![insert("d", &[])]) };
    refused(edit(gone).await, Code::NotFound, "none");
}

#[tokio::test]
async fn operator_updates_pending_node() {
    let clients = Clients::open().await;
    clients.chain("g-1").await;
    let replacement = |goal: &str, expected_revision| {
        let mut spec = node("", &["a"]);
        spec.assigned_task.get_or_insert_default().goal = goal.to_owned();
        Update::Edit(NodeReplacement { node: Some(spec), expected_revision })
    };
    let answer = send(&clients, update("b", replacement("another", 1))).await.unwrap();
    assert_eq!(answer.node.unwrap().assigned_task.unwrap().goal, "another");
    let late = send(&clients, update("b", replacement("third", 1))).await;
    refused(late, Code::Aborted, "revision 2");
    let running = send(&clients, update("a", replacement("no", 2))).await;
    refused(running, Code::FailedPrecondition, "PENDING");
}

fn attempt(token: i64) -> Option<AttemptRef> {
    Some(AttemptRef { attempt: 1, idempotency_key: String::new(), token })
}

fn result(token: i64) -> Update {
    Update::Result(NodeResult {
        of: attempt(token),
        status: NodeStatus::Pass.into(),
        results_json: r#"{"x":1}"#.to_owned(),
        logs: "done\n".to_owned(),
        ..NodeResult::default()
    })
}

#[tokio::test]
async fn grpc_late_report_needs_current_token() {
    let clients = Clients::open().await;
    clients.chain("g-1").await;
    clients.engine.dispatch("g-1", "a", "exec-1").await;
    clients.engine.accepted("g-1", "a").await;
    let stale = send(&clients, update("a", result(9))).await;
    refused(stale, Code::FailedPrecondition, "exec-1");
    let progress = NodeProgress { of: attempt(TOKEN), logs: "half\n".to_owned(), ..Default::default() };
    let heard = send(&clients, update("a", Update::Progress(progress))).await.unwrap();
    assert!(!heard.cancelled);
    send(&clients, update("a", result(TOKEN))).await.unwrap();
    // The answer was lost: the executor repeats its report.
    send(&clients, update("a", result(TOKEN))).await.unwrap();
    clients.engine.decide("g-1").await;
    let got = GetNodeRequest { workflow_id: "g-1".to_owned(), node_id: "a".to_owned() };
    let got = clients.workflows().get_node(got).await.unwrap().into_inner().node.unwrap();
    assert_eq!((got.status(), got.executor.as_str()), (NodeStatus::Pass, "exec-1"));
    let logs = GetNodeLogsRequest {
        workflow_id: "g-1".to_owned(),
        node_id: "a".to_owned(),
        ..GetNodeLogsRequest::default()
    };
    let logs = clients.workflows().get_node_logs(logs).await.unwrap().into_inner().entries;
    let texts: Vec<&str> = logs.iter().map(|entry| entry.text.as_str()).collect();
    assert_eq!(texts, ["half\n", "done\n"]);
}

#[tokio::test]
async fn finished_subtasks_show_during_attempt() {
    let clients = Clients::open().await;
    clients.chain("g-1").await;
    let progress = NodeProgress { of: attempt(TOKEN), subtasks_done: vec![0, 2], ..Default::default() };
    send(&clients, update("a", Update::Progress(progress))).await.unwrap();
    let got = GetNodeRequest { workflow_id: "g-1".to_owned(), node_id: "a".to_owned() };
    let got = clients.workflows().get_node(got).await.unwrap().into_inner().node.unwrap();
    assert_eq!(got.assigned_task.unwrap().subtasks_done, [0, 2]);
}

#[tokio::test]
async fn empty_grpc_update_is_rejected() {
    let clients = Clients::open().await;
    clients.chain("g-1").await;
    let nothing = UpdateNodeRequest { update: None, ..update("a", result(1)) };
    refused(send(&clients, nothing).await, Code::InvalidArgument, "update");
    let whose = Update::Result(NodeResult { status: NodeStatus::Pass.into(), ..Default::default() });
    refused(send(&clients, update("a", whose)).await, Code::InvalidArgument, "of");
    let skipped =
        NodeResult { of: attempt(TOKEN), status: NodeStatus::Skipped.into(), ..NodeResult::default() };
    refused(send(&clients, update("a", Update::Result(skipped))).await, Code::InvalidArgument, "status");
    refused(send(&clients, update("x", result(TOKEN))).await, Code::NotFound, "x");
}

#[tokio::test]
async fn grpc_workflow_stays_cancelled() {
    let clients = Clients::open().await;
    clients.chain("g-1").await;
    let cancel = || CancelWorkflowRequest { workflow_id: "g-1".to_owned(), reason: "enough".to_owned() };
    let mut workflows = clients.workflows();
    let answer = clients.engine.while_deciding("g-1", workflows.cancel_workflow(cancel())).await.unwrap();
    assert_eq!(answer.into_inner().workflow.unwrap().status(), WorkflowStatus::Cancelled);
    assert!(workflows.cancel_workflow(cancel()).await.is_ok());
    let progress = NodeProgress { of: attempt(TOKEN), ..NodeProgress::default() };
    let told = send(&clients, update("a", Update::Progress(progress))).await.unwrap();
    assert!(told.cancelled);
}
