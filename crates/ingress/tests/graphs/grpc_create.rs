//! Creating and reading workflows over gRPC.

use millstream_rpc::proto::{
    GetNodeLogsRequest, GetNodeRequest, GetWorkflowRequest, ListWorkflowsRequest, NodeStatus, WorkflowStatus,
};
use millstream_workflow::graph::NodeStatus as Core;
use tonic::Code;

use crate::grpc_client::{Clients, chain, create, refused};

fn get(id: &str, page_size: u32) -> GetWorkflowRequest {
    GetWorkflowRequest { workflow_id: id.to_owned(), page_size, ..GetWorkflowRequest::default() }
}

#[tokio::test]
async fn grpc_workflow_is_created_and_read() {
    let clients = Clients::open().await;
    let created = clients.workflows().create_workflow(create(chain("g-1"))).await.unwrap().into_inner();
    let workflow = created.workflow.unwrap();
    assert_eq!((workflow.workflow_id.as_str(), workflow.revision), ("g-1", 1));
    assert_eq!(workflow.status(), WorkflowStatus::Running);
    assert_eq!(workflow.input_json, r#"{"n":1}"#);
    assert!(workflow.nodes.is_empty());
    let read = clients.workflows().get_workflow(get("g-1", 0)).await.unwrap().into_inner();
    assert_eq!(read.workflow.unwrap(), workflow);
}

#[tokio::test]
async fn http_and_grpc_create_equal_graphs() {
    let clients = Clients::open().await;
    clients.workflows().create_workflow(create(chain("g-1"))).await.unwrap();
    let again = clients.door.json("/v1/graphs", &crate::create::chain("g-1").to_string()).await;
    assert!(again.starts_with("HTTP/1.1 200"), "{again}");
    let again = clients.workflows().create_workflow(create(chain("g-1"))).await;
    assert!(again.is_ok(), "{again:?}");
    let mut other = chain("g-1");
    other.nodes.pop();
    let other = clients.workflows().create_workflow(create(other)).await;
    refused(other, Code::AlreadyExists, "g-1");
}

#[tokio::test]
async fn grpc_nodes_are_paged_by_status() {
    let clients = Clients::open().await;
    clients.chain("g-1").await;
    clients.engine.answer("g-1", "a", Core::Pass, r#"{"x":1}"#).await;
    let first = clients.workflows().get_workflow(get("g-1", 2)).await.unwrap().into_inner();
    let nodes = first.workflow.unwrap().nodes;
    let ids: Vec<&str> = nodes.iter().map(|node| node.id.as_str()).collect();
    assert_eq!(ids, ["a", "b"]);
    assert_eq!((nodes[0].status(), nodes[1].status()), (NodeStatus::Pass, NodeStatus::Running));
    let task = nodes[0].assigned_task.as_ref().unwrap();
    assert_eq!((task.results_json.as_str(), task.results_ref.as_ref().unwrap().size_bytes), ("", 7));
    let rest = GetWorkflowRequest { page_token: first.next_page_token, ..get("g-1", 2) };
    let rest = clients.workflows().get_workflow(rest).await.unwrap().into_inner();
    assert_eq!((rest.workflow.unwrap().nodes[0].id.as_str(), rest.next_page_token.as_str()), ("c", ""));
    let running = GetWorkflowRequest { statuses: vec![NodeStatus::Running.into()], ..get("g-1", 9) };
    let running = clients.workflows().get_workflow(running).await.unwrap().into_inner();
    assert_eq!(running.workflow.unwrap().nodes.len(), 1);
    refused(clients.workflows().get_workflow(get("g-1", 1_001)).await, Code::InvalidArgument, "page_size");
    let wrong = GetWorkflowRequest { statuses: vec![0], ..get("g-1", 9) };
    refused(clients.workflows().get_workflow(wrong).await, Code::InvalidArgument, "statuses[0]");
    let wrong = GetWorkflowRequest { page_token: "xyz".to_owned(), ..get("g-1", 9) };
    refused(clients.workflows().get_workflow(wrong).await, Code::InvalidArgument, "page_token");
    refused(clients.workflows().get_workflow(get("none", 0)).await, Code::NotFound, "none");
}

#[tokio::test]
async fn grpc_workflows_are_listed_newest_first() {
    let clients = Clients::open().await;
    for id in ["g-1", "g-2", "g-3"] {
        clients.chain(id).await;
    }
    let list = async |request: ListWorkflowsRequest| {
        clients.workflows().list_workflows(request).await.map(tonic::Response::into_inner)
    };
    let first = list(ListWorkflowsRequest { page_size: 2, ..Default::default() }).await.unwrap();
    let ids: Vec<&str> = first.workflows.iter().map(|it| it.workflow_id.as_str()).collect();
    assert_eq!(ids, ["g-3", "g-2"]);
    let rest = ListWorkflowsRequest { page_size: 2, page_token: first.next_page_token, ..Default::default() };
    assert_eq!(list(rest).await.unwrap().workflows[0].workflow_id, "g-1");
    let failed = ListWorkflowsRequest { status: WorkflowStatus::Failed.into(), ..Default::default() };
    assert!(list(failed).await.unwrap().workflows.is_empty());
    let wrong = ListWorkflowsRequest { status: 99, ..Default::default() };
    refused(list(wrong).await, Code::InvalidArgument, "99");
}

#[tokio::test]
async fn grpc_node_has_result_and_log() {
    let clients = Clients::open().await;
    clients.chain("g-1").await;
    clients.engine.answer("g-1", "a", Core::Pass, r#"{"x":1.50}"#).await;
    let node = |id: &str| GetNodeRequest { workflow_id: "g-1".to_owned(), node_id: id.to_owned() };
    let got = clients.workflows().get_node(node("a")).await.unwrap().into_inner();
    assert_eq!(got.revision, 1);
    let got = got.node.unwrap();
    assert_eq!(got.assigned_task.unwrap().results_json, r#"{"x":1.50}"#);
    assert_eq!((got.children, got.attempt), (vec!["b".to_owned()], 1));
    refused(clients.workflows().get_node(node("x")).await, Code::NotFound, "x");
    let logs = GetNodeLogsRequest {
        workflow_id: "g-1".to_owned(),
        node_id: "a".to_owned(),
        ..GetNodeLogsRequest::default()
    };
    assert!(clients.workflows().get_node_logs(logs).await.unwrap().into_inner().entries.is_empty());
}
