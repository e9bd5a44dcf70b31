//! Roles and authentication over gRPC.

use axum::body::Body;
use axum::http::Request as HttpRequest;
use bytes::Bytes;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use millstream_ingress::{AuthMode, IngressOptions};
use millstream_model::id::TenantId;
use millstream_model::status::Role;
use millstream_rpc::proto::update_node_request::Update;
use millstream_rpc::proto::workflow_service_client::WorkflowServiceClient;
use millstream_rpc::proto::{
    GetWorkflowRequest, ListWorkflowsRequest, NodeReplacement, NodeResult, UpdateNodeRequest,
    WatchWorkflowRequest,
};
use millstream_store::key_store::KeyChoice;
use tokio::net::TcpStream;
use tonic::transport::Endpoint;
use tonic::{Code, Status};

use crate::bench::{Bench, deps, open_options};
use crate::grpc_client::{Clients, chain, create, keyed, refused};
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
    for role in [Role::Read, Role::Submit, Role::Admin, Role::Executor] {
        bench.key(&format!("ms_{role}"), "default", role).await;
    }
    bench.key("ms_other", "other", Role::Admin).await;
    Clients::of(serve_on(deps, options).await).await
}

#[tokio::test]
async fn executor_key_cannot_edit_graph() {
    let clients = with_keys().await;
    clients.workflows().create_workflow(keyed(create(chain("g-1")), "ms_submit")).await.unwrap();
    let update = |update| UpdateNodeRequest {
        workflow_id: "g-1".to_owned(),
        node_id: "a".to_owned(),
        update: Some(update),
    };
    let edit = || update(Update::Edit(NodeReplacement::default()));
    refused(
        clients.workflows().update_node(keyed(edit(), "ms_executor")).await,
        Code::PermissionDenied,
        "post_events",
    );
    let edited = clients.workflows().update_node(keyed(edit(), "ms_submit")).await;
    refused(edited, Code::InvalidArgument, "node");
    let report = update(Update::Result(NodeResult::default()));
    let reported = clients.workflows().update_node(keyed(report, "ms_executor")).await;
    refused(reported, Code::InvalidArgument, "of");
    let bare = clients.workflows().get_workflow(GetWorkflowRequest::default()).await;
    refused(bare, Code::Unauthenticated, "API key");
}

#[tokio::test]
async fn unauthenticated_grpc_call_takes_no_slot() {
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
async fn grpc_foreign_workflow_is_not_found() {
    let clients = with_keys().await;
    let created =
        clients.workflows().create_workflow(keyed(create(chain("g-1")), "ms_submit")).await.unwrap();
    assert_eq!(created.into_inner().workflow.unwrap().metadata.unwrap().creator, "default-submit");
    let get = GetWorkflowRequest { workflow_id: "g-1".to_owned(), ..Default::default() };
    refused(clients.workflows().get_workflow(keyed(get, "ms_other")).await, Code::NotFound, "g-1");
}

#[tokio::test]
async fn grpc_foreign_host_is_rejected() {
    let clients = Clients::open().await;
    let channel = Endpoint::from_shared(format!("http://{}", clients.door.address)).unwrap();
    let channel = channel.origin("http://evil.example:80".parse().unwrap()).connect().await.unwrap();
    let answer = WorkflowServiceClient::new(channel).list_workflows(ListWorkflowsRequest::default()).await;
    refused(answer, Code::PermissionDenied, "evil.example");
}

#[tokio::test]
async fn key_revocation_ends_grpc_watch() {
    let clients = with_keys().await;
    clients.workflows().create_workflow(keyed(create(chain("g-1")), "ms_submit")).await.unwrap();
    let watch = WatchWorkflowRequest { workflow_id: "g-1".to_owned(), ..Default::default() };
    let mut events = clients.workflows().watch_workflow(keyed(watch, "ms_read")).await.unwrap().into_inner();
    let deps = &clients.door.deps;
    let which = KeyChoice::Name("default-read".to_owned());
    let revoked =
        deps.stores.keys.revoke_key(Some(&TenantId::default_tenant()), &which, deps.clock.now()).await;
    assert!(revoked.unwrap());
    let ended = loop {
        match events.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the stream ended without a reason"),
            Err(status) => break status,
        }
    };
    assert_eq!(ended.code(), Code::Unauthenticated, "{ended:?}");
}
