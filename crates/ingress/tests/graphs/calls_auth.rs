//! Who may call what over gRPC.

use axum::body::Body;
use axum::http::Request as HttpRequest;
use bytes::Bytes;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use millstream_core::status::Role;
use millstream_ingress::{AuthMode, IngressOptions};
use millstream_rpc::proto::workflow_service_client::WorkflowServiceClient;
use millstream_rpc::proto::{
    CancelWorkflowRequest, GetNodeLogsRequest, GetNodeRequest, GetWorkflowRequest, ListExecutorsRequest,
    ListWorkflowsRequest, RegisterExecutorRequest, RetireExecutorRequest, UpdateNodeRequest,
    UpdateWorkflowRequest, WatchWorkflowRequest,
};
use tokio::net::TcpStream;
use tonic::transport::Endpoint;
use tonic::{Code, Status};

use crate::bench::{Bench, deps, open_options};
use crate::calls::{Clients, chain, create, keyed, refused};
use crate::wire::serve_on;

async fn with_keys() -> Clients {
    with_keys_and(IngressOptions { auth: AuthMode::Keys, ..open_options() }).await
}

async fn with_keys_and(options: IngressOptions) -> Clients {
    let deps = deps();
    let bench = {
        let mut bench = Bench::open();
        bench.stores = deps.stores.clone();
        bench
    };
    for role in [Role::Read, Role::Submit, Role::Admin] {
        bench.key(&format!("ms_{role}"), "default", role).await;
    }
    bench.key("ms_other", "other", Role::Admin).await;
    Clients::of(serve_on(deps, options).await).await
}

fn code<T>(answer: Result<T, Status>) -> Code {
    answer.err().map_or(Code::Ok, |status| status.code())
}

/// Every method with a key, and what came of it.
async fn all(clients: &Clients, key: &str) -> Vec<(&'static str, Role, Code)> {
    let (mut workflows, mut executors) = (clients.workflows(), clients.executors());
    let id = || "g-1".to_owned();
    let get_node = GetNodeRequest { workflow_id: id(), node_id: "a".to_owned() };
    let logs = GetNodeLogsRequest { workflow_id: id(), node_id: "a".to_owned(), ..Default::default() };
    let get = GetWorkflowRequest { workflow_id: id(), ..Default::default() };
    let watch = WatchWorkflowRequest { workflow_id: id(), ..Default::default() };
    vec![
        ("get", Role::Read, code(workflows.get_workflow(keyed(get, key)).await)),
        (
            "list",
            Role::Read,
            code(workflows.list_workflows(keyed(ListWorkflowsRequest::default(), key)).await),
        ),
        ("node", Role::Read, code(workflows.get_node(keyed(get_node, key)).await)),
        ("logs", Role::Read, code(workflows.get_node_logs(keyed(logs, key)).await)),
        ("watch", Role::Read, code(workflows.watch_workflow(keyed(watch, key)).await)),
        ("executors", Role::Read, code(executors.list_executors(keyed(ListExecutorsRequest {}, key)).await)),
        ("create", Role::Submit, code(workflows.create_workflow(keyed(create(chain("g-1")), key)).await)),
        (
            "edit",
            Role::Submit,
            code(workflows.update_workflow(keyed(UpdateWorkflowRequest::default(), key)).await),
        ),
        ("update", Role::Submit, code(workflows.update_node(keyed(UpdateNodeRequest::default(), key)).await)),
        (
            "register",
            Role::Submit,
            code(executors.register_executor(keyed(RegisterExecutorRequest::default(), key)).await),
        ),
        (
            "retire",
            Role::Submit,
            code(executors.retire_executor(keyed(RetireExecutorRequest::default(), key)).await),
        ),
        (
            "cancel",
            Role::Admin,
            code(workflows.cancel_workflow(keyed(CancelWorkflowRequest::default(), key)).await),
        ),
    ]
}

#[tokio::test]
async fn every_method_has_its_role() {
    let clients = with_keys().await;
    clients.workflows().create_workflow(keyed(create(chain("g-1")), "ms_submit")).await.unwrap();
    for (key, role) in [("ms_read", Role::Read), ("ms_submit", Role::Submit), ("ms_admin", Role::Admin)] {
        for (method, needs, code) in all(&clients, key).await {
            let allowed = role.allows(needs);
            assert_eq!(code != Code::PermissionDenied, allowed, "{method} as {role}: {code:?}");
        }
    }
    for key in ["ms_unknown", "nonsense"] {
        for (method, _, code) in all(&clients, key).await {
            assert_eq!(code, Code::Unauthenticated, "{method}");
        }
    }
    let bare = clients.workflows().get_workflow(GetWorkflowRequest::default()).await;
    refused(bare, Code::Unauthenticated, "API key");
}

#[tokio::test]
async fn a_call_without_a_valid_key_takes_no_slot_and_sends_no_message() {
    let mut options = IngressOptions { auth: AuthMode::Keys, ..open_options() };
    options.limits.in_flight = 0;
    let clients = with_keys_and(options).await;
    let stream = TcpStream::connect(clients.door.address).await.unwrap();
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    for (key, code) in [("ms_unknown", Code::Unauthenticated), ("ms_read", Code::ResourceExhausted)] {
        let unsent = Body::from_stream(futures::stream::pending::<Result<Bytes, Status>>());
        let path = format!("http://{}/millstream.v1.WorkflowService/GetWorkflow", clients.door.address);
        let request = HttpRequest::post(path)
            .header("content-type", "application/grpc")
            .header("authorization", format!("Bearer {key}"));
        let answer = sender.clone().send_request(request.body(unsent).unwrap()).await.unwrap();
        let status = answer.headers()["grpc-status"].to_str().unwrap();
        assert_eq!(status, (code as i32).to_string(), "{key}");
    }
}

#[tokio::test]
async fn what_belongs_to_another_tenant_is_not_there() {
    let clients = with_keys().await;
    let created =
        clients.workflows().create_workflow(keyed(create(chain("g-1")), "ms_submit")).await.unwrap();
    assert_eq!(created.into_inner().workflow.unwrap().metadata.unwrap().creator, "default-submit");
    let get = GetWorkflowRequest { workflow_id: "g-1".to_owned(), ..Default::default() };
    refused(clients.workflows().get_workflow(keyed(get, "ms_other")).await, Code::NotFound, "g-1");
}

#[tokio::test]
async fn an_open_door_serves_no_foreign_name() {
    let clients = Clients::open().await;
    let channel = Endpoint::from_shared(format!("http://{}", clients.door.address)).unwrap();
    let channel = channel.origin("http://evil.example:80".parse().unwrap()).connect().await.unwrap();
    let answer = WorkflowServiceClient::new(channel).list_workflows(ListWorkflowsRequest::default()).await;
    refused(answer, Code::PermissionDenied, "evil.example");
}
