//! Who may call what over gRPC.

use millstream_core::status::Role;
use millstream_ingress::{AuthMode, IngressOptions};
use millstream_rpc::proto::update_node_request::Update;
use millstream_rpc::proto::workflow_service_client::WorkflowServiceClient;
use millstream_rpc::proto::{
    GetWorkflowRequest, ListWorkflowsRequest, NodeReplacement, NodeResult, UpdateNodeRequest,
};
use tonic::Code;
use tonic::transport::Endpoint;

use crate::bench::{Bench, deps, open_options};
use crate::calls::{Clients, chain, create, keyed, refused};
use crate::wire::serve_on;

async fn with_keys() -> Clients {
    let options = IngressOptions { auth: AuthMode::Keys, ..open_options() };
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
async fn an_executor_reports_nodes_and_edits_no_graph() {
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
